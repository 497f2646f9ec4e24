import CArchive
import Glibc

/// Writes the archive of a package, entry after entry.
final class PackageWriter {
    private let archive: OpaquePointer

    private static let blockSize: Int32 = 512
    /// How much of a file is read at once, in bytes.
    private static let pieceSize = 1 << 20

    /// Begins at the end of what `descriptor`, which stays the caller's, has been written.
    init(to descriptor: Int32) throws(CloudFSError) {
        guard let archive = archive_write_new() else {
            throw CloudFSError(.internalFailure, "an archive cannot be written: no memory")
        }
        self.archive = archive
        // Names are bytes, whatever the process takes for its locale, those of attributes too; and
        // nothing is filled up.
        try check(archive_write_set_format_pax(archive))
        try check(archive_write_set_options(archive, "hdrcharset=BINARY,xattrheader=LIBARCHIVE"))
        try check(archive_write_set_bytes_per_block(archive, Self.blockSize))
        try check(archive_write_set_bytes_in_last_block(archive, Self.blockSize))
        try check(archive_write_open_fd(archive, descriptor))
    }

    deinit {
        archive_write_free(archive)
    }

    /// - Parameter content: Open for reading, `entry.size` bytes long; for files only.
    func add(_ entry: PackageEntry, content: Int32? = nil) throws(CloudFSError) {
        guard let header = archive_entry_new() else {
            throw CloudFSError(.internalFailure, "an archive cannot be written: no memory")
        }
        defer { archive_entry_free(header) }
        let path = entry.path.map { $0 + [UInt8(ascii: "/")] }.joined().dropLast()
        archive_entry_set_pathname(header, path.map { CChar(bitPattern: $0) } + [0])
        archive_entry_set_filetype(header, entry.kind.fileType)
        archive_entry_set_perm(header, mode_t(entry.permissions))
        archive_entry_set_mtime(
            header,
            Int(entry.modified.seconds),
            Int(entry.modified.nanosecondsOfSecond)
        )
        archive_entry_set_size(header, entry.kind == .file ? entry.size : 0)
        if let target = entry.linkTarget {
            archive_entry_set_symlink(header, target.map { CChar(bitPattern: $0) } + [0])
        }
        for (name, value) in entry.attributes.sorted(by: { $0.key < $1.key }) {
            archive_entry_xattr_add_entry(header, name, value, value.count)
        }
        try check(archive_write_header(archive, header))
        if let content { try copy(entry.size, from: content) }
    }

    private func copy(_ size: Int64, from content: Int32) throws(CloudFSError) {
        var offset: Int64 = 0
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Self.pieceSize,
            alignment: 16
        )
        defer { buffer.deallocate() }
        while offset < size {
            let wanted = Int(min(size - offset, Int64(Self.pieceSize)))
            let count = pread(content, buffer.baseAddress, wanted, off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw count == 0
                    ? CloudFSError(.cancelled, "a file of a package became shorter")
                    : CloudFSError(.corrupt, "a file of a package cannot be read (errno \(errno))")
            }
            var written = 0
            while written < count {
                let result = archive_write_data(
                    archive,
                    buffer.baseAddress.map { $0 + written },
                    count - written
                )
                guard result > 0 else { throw failure() }
                written += result
            }
            offset += Int64(count)
        }
    }

    /// Writes the end; without it the archive is none.
    func finish() throws(CloudFSError) {
        try check(archive_write_close(archive))
    }

    private func check(_ result: Int32) throws(CloudFSError) {
        guard result == ARCHIVE_OK else { throw failure() }
    }

    private func failure() -> CloudFSError {
        let number = archive_errno(archive)
        let text = archive_error_string(archive).map { String(cString: $0) } ?? "unknown"
        return CloudFSError(
            .ofDisk(number) ?? .corrupt,
            "an archive cannot be written: \(text)"
        )
    }
}

extension ItemKind {
    /// The bits of a mode that say what an item is.
    fileprivate var fileType: mode_t {
        switch self {
        case .folder: S_IFDIR
        case .symlink: S_IFLNK
        case .file, .fifo, .socket: S_IFREG
        }
    }
}

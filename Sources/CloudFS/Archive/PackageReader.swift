import CArchive
import Glibc

/// Reads the archive of a package, entry after entry; it may be anybody's.
///
/// All that it tells is bounded by `PackageEntry` and by the length of the archive, and whatever
/// could lead out of a tree is refused with `notDirectory`: it is no package. A disk that cannot be
/// read is another thing.
final class PackageReader {
    private let archive: OpaquePointer
    private var entries = 0
    /// Bytes of content that files may still claim to have.
    private var budget: Int64
    /// Bytes of names and attributes so far, which are held in memory.
    private var noted = 0

    private static let pieceSize = 1 << 20

    /// Reads from the descriptor's position on; it stays the caller's.
    ///
    /// - Parameter size: The length of the archive in bytes.
    init(of descriptor: Int32, size: Int64) throws(CloudFSError) {
        guard let archive = archive_read_new() else {
            throw CloudFSError(.internalFailure, "an archive cannot be read: no memory")
        }
        self.archive = archive
        budget = size
        guard archive_read_support_format_tar(archive) == ARCHIVE_OK,
            archive_read_open_fd(archive, descriptor, Self.pieceSize) == ARCHIVE_OK
        else { throw failure() }
    }

    deinit {
        archive_read_free(archive)
    }

    /// - Returns: `nil` at the end.
    /// - Throws: `notDirectory` for what is no archive, or none of a package.
    func next() throws(CloudFSError) -> PackageEntry? {
        var header: OpaquePointer?
        let result = archive_read_next_header(archive, &header)
        if result == ARCHIVE_EOF { return nil }
        // Names are bytes here, in whatever locale: that they are no text of it matters nothing.
        let isRead =
            result == ARCHIVE_OK || (result == ARCHIVE_WARN && archive_errno(archive) == EILSEQ)
        guard isRead, let header else { throw failure() }
        entries += 1
        guard entries <= PackageEntry.most else {
            throw CloudFSError(.notDirectory, "the package has too many files")
        }
        guard let entry = try entry(header), entry.isSound else {
            throw CloudFSError(.notDirectory, "the package holds what a package cannot hold")
        }
        budget -= entry.size
        guard budget >= 0, archive_entry_sparse_count(header) == 0 else {
            throw CloudFSError(.notDirectory, "the package's files are longer than it is")
        }
        noted += entry.noteSize
        guard noted <= PackageEntry.mostNotes else {
            throw CloudFSError(.notDirectory, "the package's names and attributes are too long")
        }
        return entry
    }

    private func entry(_ header: OpaquePointer) throws(CloudFSError) -> PackageEntry? {
        guard archive_entry_hardlink(header) == nil, let path = archive_entry_pathname(header),
            let kind = ItemKind(fileType: archive_entry_filetype(header))
        else { return nil }
        var text = Array(UnsafeBufferPointer(start: path, count: strlen(path))).map {
            UInt8(bitPattern: $0)
        }
        if text.last == UInt8(ascii: "/") { text.removeLast() }
        var entry = PackageEntry(
            path: text.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
                .map(Array.init),
            kind: kind,
            permissions: UInt16(archive_entry_perm(header) & 0o777),
            modified: Timestamp(
                seconds: Int64(archive_entry_mtime(header)),
                nanoseconds: Int64(archive_entry_mtime_nsec(header))
            )
        )
        if kind == .file { entry.size = archive_entry_size(header) }
        if kind == .symlink, let target = archive_entry_symlink(header) {
            entry.linkTarget = Array(UnsafeBufferPointer(start: target, count: strlen(target)))
                .map { UInt8(bitPattern: $0) }
        }
        entry.attributes = try attributes(header)
        return entry
    }

    private func attributes(_ header: OpaquePointer) throws(CloudFSError) -> [String: [UInt8]] {
        guard archive_entry_xattr_reset(header) <= Int32(PackageEntry.mostAttributes) else {
            throw CloudFSError(.notDirectory, "a file of the package has too many attributes")
        }
        var attributes: [String: [UInt8]] = [:]
        var name: UnsafePointer<CChar>?
        var value: UnsafeRawPointer?
        var size = 0
        while archive_entry_xattr_next(header, &name, &value, &size) == ARCHIVE_OK {
            guard let name else { break }
            attributes[String(cString: name)] = Array(
                UnsafeRawBufferPointer(start: value, count: size)
            )
        }
        return attributes
    }

    /// Hands on the content of the file that `next` told of, in pieces and in order.
    ///
    /// - Throws: `notDirectory` if it is shorter than was told; what `receive` throws.
    func content(
        of entry: PackageEntry,
        _ receive: (ArraySlice<UInt8>, Int64) throws(CloudFSError) -> Void
    ) throws(CloudFSError) {
        var buffer = [UInt8](repeating: 0, count: Int(min(entry.size, Int64(Self.pieceSize))))
        var offset: Int64 = 0
        while offset < entry.size {
            let count = buffer.withUnsafeMutableBytes {
                archive_read_data(archive, $0.baseAddress, $0.count)
            }
            guard count > 0, offset + Int64(count) <= entry.size else { throw failure() }
            try receive(buffer[..<count], offset)
            offset += Int64(count)
        }
    }

    private func failure() -> CloudFSError {
        let number = archive_errno(archive)
        let text = archive_error_string(archive).map { String(cString: $0) } ?? "it ends early"
        // What libarchive itself thinks of the bytes is one of the other three.
        let isOfSystem = ![0, -1, EILSEQ, EINVAL].contains(number)
        return CloudFSError(
            isOfSystem ? .corrupt : .notDirectory,
            "it cannot be read as a package: \(text)"
        )
    }
}

extension ItemKind {
    fileprivate init?(fileType: mode_t) {
        switch fileType {
        case S_IFREG: self = .file
        case S_IFDIR: self = .folder
        case S_IFLNK: self = .symlink
        default: return nil
        }
    }
}

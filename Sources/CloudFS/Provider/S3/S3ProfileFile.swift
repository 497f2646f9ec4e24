import Glibc

/// A small file of the user's that says who they are: read whole, within bounds.
struct S3ProfileFile: Sendable {
    /// Tells one state of a file from another without reading it.
    struct Fingerprint: Sendable, Equatable {
        private var numbers: [Int64]

        /// The file at `path` as it is now; `nil` when it cannot be seen.
        init?(path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            numbers = [
                Int64(bitPattern: UInt64(status.st_dev)), Int64(bitPattern: UInt64(status.st_ino)),
                Int64(status.st_size), Int64(status.st_mode), Int64(status.st_uid),
                Int64(status.st_mtim.tv_sec), Int64(status.st_mtim.tv_nsec),
                Int64(status.st_ctim.tv_sec), Int64(status.st_ctim.tv_nsec),
            ]
        }
    }

    var path: String

    /// The file's bytes; `nil` when there is no such file.
    ///
    /// - Parameters:
    ///   - limit: How many bytes it may have.
    ///   - mustBePrivate: Whether a file that others own or may open is refused.
    /// - Throws: `denied`; `tooLarge`; `notPermitted`: others could read or replace it.
    func read(
        limit: Int = INIDocument.byteLimit,
        mustBePrivate: Bool = false
    ) throws(CloudFSError) -> [UInt8]? {
        // Without O_NONBLOCK, opening a named pipe would wait for a writer.
        let noLink = mustBePrivate ? O_NOFOLLOW : 0
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | noLink)
        guard descriptor >= 0 else {
            let errorNumber = errno
            if errorNumber == ENOENT || errorNumber == ENOTDIR { return nil }
            if errorNumber == ELOOP && mustBePrivate {
                throw CloudFSError(.notPermitted, "\(path) is a symbolic link, which is refused")
            }
            throw failure(errorNumber)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(errno) }
        try check(status, mustBePrivate: mustBePrivate)
        return try bytes(of: descriptor, limit: limit)
    }

    private func check(_ status: stat, mustBePrivate: Bool) throws(CloudFSError) {
        let kind = status.st_mode & S_IFMT
        // People name /dev/null to have no such file.
        guard kind == S_IFREG || (kind == S_IFCHR && !mustBePrivate) else {
            throw CloudFSError(.invalidArgument, "\(path) is no regular file")
        }
        guard mustBePrivate else { return }
        guard status.st_uid == geteuid() else {
            throw CloudFSError(
                .notPermitted,
                "\(path) belongs to another user and is refused; remove it and log in again"
            )
        }
        guard status.st_mode & 0o077 == 0 else {
            throw CloudFSError(
                .notPermitted,
                "\(path) is open to others and is refused; run chmod 600 \(path)"
            )
        }
    }

    private func bytes(of descriptor: Int32, limit: Int) throws(CloudFSError) -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16_384)
        while bytes.count <= limit {
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count == 0 { return bytes }
            if count > 0 {
                bytes += piece[..<count]
            } else if errno != EINTR {
                throw failure(errno)
            }
        }
        throw CloudFSError(.tooLarge, "\(path) has more than \(limit) bytes, which is refused")
    }

    private func failure(_ errorNumber: Int32) -> CloudFSError {
        CloudFSError(
            errorNumber == EMFILE || errorNumber == ENFILE ? .tooManyOpen : .denied,
            "\(path) cannot be read: \(String(cString: strerror(errorNumber)))"
        )
    }
}

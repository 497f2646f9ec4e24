import Glibc

/// A file that is there while somebody uses it.
enum StagedFile {
    /// Runs `body` while a file with `bytes` lies at `path`, which nobody but this user can read.
    static func with<Value>(
        _ bytes: [UInt8],
        at path: String,
        _ body: () -> Value
    ) throws(CloudFSError) -> Value {
        // One of a daemon that was killed.
        unlink(path)
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        let descriptor = open(path, flags, 0o600)
        guard descriptor >= 0 else { throw failure() }
        defer { unlink(path) }
        do {
            defer { close(descriptor) }
            var written = 0
            while written < bytes.count {
                let count = bytes.withUnsafeBytes {
                    write(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written)
                }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw failure() }
                written += count
            }
        }
        return body()
    }

    private static func failure() -> CloudFSError {
        let number = errno
        return CloudFSError(
            .ofDisk(number) ?? .internalFailure,
            "a file cannot be staged: \(String(cString: strerror(number)))"
        )
    }
}

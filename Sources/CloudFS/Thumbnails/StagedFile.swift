import Foundation
import Glibc

/// Files that are there while somebody uses them.
enum StagedFile {
    /// Runs `body` while a folder at `path` holds files with these bytes, named by their numbers.
    static func with<Value>(
        _ files: [[UInt8]],
        inFolder path: String,
        _ body: () throws -> Value
    ) throws -> Value {
        discard(path)
        guard mkdir(path, 0o700) == 0 else { throw failure() }
        defer { discard(path) }
        for (number, bytes) in files.enumerated() {
            try write(KnownBytes(bytes), to: "\(path)/\(number)")
        }
        return try body()
    }

    /// Removes a folder; also one of a daemon that was killed.
    private static func discard(_ path: String) {
        // What cannot be removed makes `mkdir` fail, which says why.
        try? FileManager.default.removeItem(atPath: path)
    }

    /// Runs `body` while a file lies at `path`, which nobody but this user can read.
    ///
    /// What is not known of it is a hole.
    static func with<Value>(
        _ file: KnownBytes,
        at path: String,
        _ body: () -> Value
    ) throws(CloudFSError) -> Value {
        // One of a daemon that was killed.
        unlink(path)
        try write(file, to: path)
        defer { unlink(path) }
        return body()
    }

    private static func write(_ file: KnownBytes, to path: String) throws(CloudFSError) {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        let descriptor = open(path, flags, 0o600)
        guard descriptor >= 0 else { throw failure() }
        defer { close(descriptor) }
        let number = write(file, to: descriptor)
        guard number == 0 else {
            unlink(path)
            throw failure(number)
        }
    }

    /// - Returns: 0, or the errno of the call that failed.
    private static func write(_ file: KnownBytes, to descriptor: Int32) -> Int32 {
        guard ftruncate(descriptor, off_t(file.size)) == 0 else { return errno }
        for piece in file.pieces {
            guard lseek(descriptor, off_t(piece.start), SEEK_SET) >= 0 else { return errno }
            let number = FileBytes.write(piece.bytes, to: descriptor)
            guard number == 0 else { return number }
        }
        return 0
    }

    private static func failure(_ number: Int32 = errno) -> CloudFSError {
        CloudFSError(
            .ofDisk(number) ?? .internalFailure,
            "a file cannot be staged: \(String(cString: strerror(number)))"
        )
    }
}

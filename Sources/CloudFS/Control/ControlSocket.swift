import CloudFSControlAPI
import Foundation
import Glibc

/// The socket and record of one drive in the runtime folder, from their making to their end.
///
/// The server listens under a private name first; `publish` gives the socket its mode and then
/// the name clients look for, in one step. So a client never meets a socket that is half ready,
/// and what was there before is replaced only if nobody answers on it.
struct ControlSocket: Sendable {
    let directory: RuntimeDirectory
    let record: DriveRecord

    /// What clients connect to.
    let path: String
    /// What the server binds.
    let privatePath: String

    /// Makes and checks the folder, and sees that no other daemon serves this mountpoint.
    ///
    /// - Throws: `denied` for a folder others can write to; `nameTooLong`; `exists`.
    init(directory: RuntimeDirectory, record: DriveRecord) throws(CloudFSError) {
        self.directory = directory
        self.record = record
        path = directory.socketPath(mountpoint: record.mountpoint)
        let name = RuntimeDirectory.name(mountpoint: record.mountpoint)
        privatePath = "\(directory.path)/\(name).\(getpid())"
        guard max(path.utf8.count, privatePath.utf8.count) <= SocketProbe.maximumPathByteCount
        else {
            throw CloudFSError(
                .nameTooLong,
                "\(directory.path) is too long a path for sockets; set XDG_RUNTIME_DIR"
            )
        }
        do throws(RuntimeDirectory.Fault) {
            try directory.create()
        } catch {
            throw CloudFSError(.denied, "the runtime folder cannot be used: \(error)", cause: error)
        }
        try checkIsFree()
    }

    /// Gives the listening socket its mode and name, and writes the record.
    ///
    /// - Returns: What `remove` needs to know this socket from a later one.
    /// - Throws: `exists` if another daemon was faster.
    func publish() throws(CloudFSError) -> Published {
        let folder = try lockFolder()
        defer { close(folder) }
        try checkIsFree()
        guard chmod(privatePath, 0o600) == 0 else { throw Self.failure(privatePath, errno) }
        guard let published = Published(privatePath) else {
            throw Self.failure(privatePath, errno)
        }
        try writeRecord()
        guard rename(privatePath, path) == 0 else { throw Self.failure(path, errno) }
        return published
    }

    /// A socket's inode: no other has it while this one has a name.
    struct Published: Sendable, Equatable {
        private let device: UInt
        private let inode: UInt

        fileprivate init?(_ path: String) {
            var status = stat()
            guard lstat(path, &status) == 0 else { return nil }
            device = UInt(status.st_dev)
            inode = UInt(status.st_ino)
        }
    }

    /// Removes socket and record, unless they are another daemon's by now.
    func remove(_ published: Published?) throws(CloudFSError) {
        try Self.unlinkIfPresent(privatePath)
        let folder = try lockFolder()
        defer { close(folder) }
        guard let published, Published(path) == published else { return }
        try Self.unlinkIfPresent(path)
        try Self.unlinkIfPresent(directory.recordPath(mountpoint: record.mountpoint))
    }

    /// Takes the socket away from where clients look for it, and waits until all who came before
    /// were let in: they stand in one queue with the last one, which is answered.
    ///
    /// - Parameter seconds: How long the answer is waited for.
    func withdraw(_ published: Published?, within seconds: Int) throws(CloudFSError) {
        do {
            let folder = try lockFolder()
            defer { close(folder) }
            guard let published, Published(path) == published else { return }
            guard rename(path, privatePath) == 0 else { throw Self.failure(path, errno) }
            try Self.unlinkIfPresent(directory.recordPath(mountpoint: record.mountpoint))
        }
        SocketProbe.awaitAnswer(privatePath, within: seconds)
    }

    private func checkIsFree() throws(CloudFSError) {
        switch SocketProbe.ask(path) {
        case .stale, .absent:
            return
        case .listening:
            throw CloudFSError(
                .exists,
                "another daemon serves \(record.mountpoint); see: cloudfs mounts"
            )
        case .failed(let code):
            throw Self.failure(path, code)
        }
    }

    /// Opens the folder and waits for its lock, which ends with the descriptor.
    private func lockFolder() throws(CloudFSError) -> Int32 {
        let folder: Int32
        do throws(RuntimeDirectory.Fault) {
            folder = try directory.openFolder()
        } catch {
            throw CloudFSError(.denied, "the runtime folder cannot be used: \(error)", cause: error)
        }
        while flock(folder, LOCK_EX) != 0 {
            let code = errno
            guard code == EINTR else {
                close(folder)
                throw Self.failure(directory.path, code)
            }
        }
        return folder
    }

    private func writeRecord() throws(CloudFSError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let recordPath = directory.recordPath(mountpoint: record.mountpoint)
        do {
            let bytes = try encoder.encode(record) + Data("\n".utf8)
            // Foundation writes aside and renames, so a reader sees the old record or the new.
            try bytes.write(to: URL(filePath: recordPath), options: .atomic)
        } catch {
            throw CloudFSError(.internalFailure, "cannot write \(recordPath)", cause: error)
        }
    }

    private static func unlinkIfPresent(_ path: String) throws(CloudFSError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw failure(path, errno) }
    }

    private static func failure(_ path: String, _ code: Int32) -> CloudFSError {
        CloudFSError(.internalFailure, "\(path): \(String(cString: strerror(code)))")
    }
}

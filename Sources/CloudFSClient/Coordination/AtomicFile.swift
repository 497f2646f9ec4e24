import Foundation
import Glibc

/// A call of the system that failed.
struct SystemFailure: Error, CustomStringConvertible {
    let url: URL
    let code: Int32

    /// - Parameter code: By default what the system said last.
    init(_ url: URL, code: Int32 = errno) {
        self.url = url
        self.code = code
    }

    var description: String { "\(url.lastPathComponent): \(String(cString: strerror(code)))" }
}

/// Which version of a file it is, as far as the system tells.
struct FileIdentity: Equatable, Sendable {
    private let item: UInt
    private let size: Int
    private let seconds: Int
    private let nanoseconds: Int

    /// `nil` if there is no such file.
    init?(_ url: URL) {
        var status = stat()
        guard stat(url.path(percentEncoded: false), &status) == 0 else { return nil }
        item = UInt(status.st_ino)
        size = Int(status.st_size)
        seconds = status.st_mtim.tv_sec
        nanoseconds = status.st_mtim.tv_nsec
    }
}

/// Files that are replaced in one step.
enum AtomicFile {
    /// Writes a new file beside the old one, has it stored, and renames it over.
    ///
    /// The new file has the mode of the old one.
    static func replace(_ url: URL, with data: Data) throws {
        let path = url.path(percentEncoded: false)
        let folder = url.deletingLastPathComponent().path(percentEncoded: false)
        let temporary = folder + "/.\(url.lastPathComponent.prefix(200)).\(getpid()).tmp"
        var status = stat()
        let mode = stat(path, &status) == 0 ? status.st_mode & 0o777 : 0o644
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
        let descriptor = Glibc.open(temporary, flags, mode)
        guard descriptor >= 0 else { throw SystemFailure(url) }
        defer { close(descriptor) }
        do {
            try write(data, to: descriptor, url)
            guard fsync(descriptor) == 0, rename(temporary, path) == 0 else {
                throw SystemFailure(url)
            }
        } catch {
            unlink(temporary)
            throw error
        }
    }

    private static func write(_ data: Data, to descriptor: Int32, _ url: URL) throws {
        var rest = data[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw SystemFailure(url) }
            rest = rest.dropFirst(count)
        }
    }
}

import CLinux
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

/// Which version of a file, or of all files in a folder, it is, as far as the system tells.
struct FileIdentity: Equatable, Sendable {
    private let item: UInt
    private let size: Int
    private let seconds: Int
    private let nanoseconds: Int
    private var members: [String: FileIdentity] = [:]

    /// `nil` if there is no such file.
    init?(_ url: URL) {
        let path = url.path(percentEncoded: false)
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        self.init(status)
        guard status.st_mode & S_IFMT == S_IFDIR else { return }
        for name in FileManager.default.subpaths(atPath: path) ?? [] {
            var status = stat()
            guard lstat(path + "/" + name, &status) == 0 else { continue }
            members[name] = FileIdentity(status)
        }
    }

    private init(_ status: stat) {
        item = UInt(status.st_ino)
        size = Int(status.st_size)
        seconds = status.st_mtim.tv_sec
        nanoseconds = status.st_mtim.tv_nsec
    }
}

/// Extended attributes of files.
enum ExtendedAttribute {
    /// Those that programs have set; none where the file system has none.
    static func all(of url: URL) -> [String: Data] {
        let path = url.path(percentEncoded: false)
        var names = [CChar](repeating: 0, count: 65_536)
        let length = clinux_listxattr(path, &names, names.count)
        guard length > 0 else { return [:] }
        var found: [String: Data] = [:]
        for bytes in names[..<length].split(separator: 0) {
            let name = String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            var value = [UInt8](repeating: 0, count: 65_536)
            let count = clinux_getxattr(path, name, &value, value.count)
            if name.hasPrefix("user."), count >= 0 { found[name] = Data(value[..<count]) }
        }
        return found
    }

    /// - Returns: Whether it was set; `errno` says why not.
    static func set(_ name: String, to value: Data, of path: String) -> Bool {
        value.withUnsafeBytes { clinux_setxattr(path, name, $0.baseAddress, $0.count) } == 0
    }
}

/// Files that are replaced in one step.
enum AtomicFile {
    /// Writes a new file beside the old one, has it stored, and renames it over.
    ///
    /// The new file has the mode and the attributes of the old one, and those given.
    static func replace(_ url: URL, with data: Data, attributes: [String: Data] = [:]) throws {
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
            let kept = ExtendedAttribute.all(of: url).merging(attributes) { $1 }
            for (name, value) in kept {
                guard ExtendedAttribute.set(name, to: value, of: temporary) else {
                    throw SystemFailure(url)
                }
            }
            guard fsync(descriptor) == 0, rename(temporary, path) == 0 else {
                throw SystemFailure(url)
            }
        } catch {
            unlink(temporary)
            throw error
        }
    }

    static func write(_ data: Data, to descriptor: Int32, _ url: URL) throws {
        var rest = data[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw SystemFailure(url) }
            rest = rest.dropFirst(count)
        }
    }
}

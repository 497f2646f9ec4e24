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
    /// The new file has the mode and the attributes of the old one, and those given. Where `url` is
    /// a symbolic link, the file that it leads to is replaced.
    static func replace(_ url: URL, with data: Data, attributes: [String: Data] = [:]) throws {
        let path = try target(of: url)
        var status = stat()
        let mode: mode_t? = stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
        let (temporary, descriptor) = try create(beside: path, mode: mode ?? 0o644)
        defer { close(descriptor) }
        do {
            // The umask took from it what others may do with the document.
            if let mode, fchmod(descriptor, mode) != 0 { throw SystemFailure(url) }
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

    /// The path of a file, with links followed that are its last name: a rename replaces the link.
    private static func target(of url: URL) throws -> String {
        var path = url.path(percentEncoded: false)
        // As many as the system follows.
        for _ in 0..<40 {
            guard let link = PathResolver.systemLink(path) else { return path }
            let isAbsolute = link.utf8.first == UInt8(ascii: "/")
            path = isAbsolute ? link : split(path).folder + link
        }
        throw SystemFailure(url, code: ELOOP)
    }

    /// Makes a new file beside another, under a name that nothing has.
    ///
    /// - Parameter naming: Makes up the name; where that is taken, it is asked once more.
    static func create(
        beside path: String,
        mode: mode_t,
        naming: (String) -> String = { AtomicFile.temporaryName(for: $0) }
    ) throws -> (path: String, descriptor: Int32) {
        let (folder, name) = split(path)
        var isAgain = false
        while true {
            let temporary = folder + naming(name)
            let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
            let descriptor = Glibc.open(temporary, flags, mode)
            if descriptor >= 0 { return (temporary, descriptor) }
            let code = errno
            guard code == EEXIST, !isAgain else {
                throw SystemFailure(URL(filePath: path), code: code)
            }
            isAgain = true
        }
    }

    /// A name that nobody else makes up, of a kind that stays on this machine: what a crash leaves
    /// is sent nowhere, and is in nobody's way.
    static func temporaryName(for name: String) -> String {
        let random = String(UInt64.random(in: 0 ... .max), radix: 16)
        return ".#\(beginning(of: name)).\(random)"
    }

    /// As much of a name as leaves room for more in the 255 bytes that names have.
    static func beginning(of name: String) -> Substring {
        var beginning = Substring(name)
        while beginning.utf8.count > 200 { beginning.removeLast() }
        return beginning
    }

    /// What a path has before its last name, with the slash, and that name.
    private static func split(_ path: String) -> (folder: String, name: String) {
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let start = slash.map { path.utf8.index(after: $0) } ?? path.startIndex
        return (String(path[..<start]), String(path[start...]))
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

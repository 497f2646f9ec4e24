import CLinux
import Foundation
import Glibc

/// Folders that are replaced in one step.
enum PackageFolder {
    /// All files of a package, by their paths from it.
    static func files(of url: URL) throws -> [String: Data] {
        var isFolder: ObjCBool = false
        let path = url.path(percentEncoded: false)
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw SystemFailure(url, code: ENOENT)
        }
        guard isFolder.boolValue else { throw PackageError.isFile }
        var files: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
            let file = url.appending(path: name)
            var status = stat()
            guard lstat(file.path(percentEncoded: false), &status) == 0 else {
                throw SystemFailure(file)
            }
            guard status.st_mode & S_IFMT == S_IFREG else { continue }
            files[name] = try Data(contentsOf: file)
        }
        return files
    }

    /// Makes a new folder beside the old one, and exchanges the two.
    ///
    /// Files that have not changed are copied by the system, with what belongs to them; what the
    /// old package holds beside files of the document, such as links, does not come along.
    ///
    /// - Parameter known: What the old package held when it was read or written last.
    static func replace(
        _ url: URL,
        with files: [String: Data],
        knowing known: [String: Data],
        attributes: [String: Data] = [:]
    ) throws {
        let path = url.path(percentEncoded: false)
        // Names like this stay on this machine.
        let name = ".#\(AtomicFile.beginning(of: url.lastPathComponent)).\(getpid())"
        let new = url.deletingLastPathComponent().appending(path: name)
        try removeIfThere(new)
        do {
            try fill(new, with: files, knowing: known, from: url)
            let kept = ExtendedAttribute.all(of: url).merging(attributes) { $1 }
            for (name, value) in kept {
                guard ExtendedAttribute.set(name, to: value, of: new.path(percentEncoded: false))
                else { throw SystemFailure(url) }
            }
            try exchange(new, path, url)
        } catch {
            try removeIfThere(new)
            throw error
        }
        try removeIfThere(new)
    }

    private static func exchange(_ new: URL, _ path: String, _ url: URL) throws {
        let isNew = access(path, F_OK) != 0
        let result = clinux_renameat2(
            AT_FDCWD,
            new.path(percentEncoded: false),
            AT_FDCWD,
            path,
            isNew ? keepExisting : exchanging
        )
        guard result == 0 else { throw SystemFailure(url) }
    }

    /// `RENAME_NOREPLACE` and `RENAME_EXCHANGE`.
    private static let keepExisting: UInt32 = 1
    private static let exchanging: UInt32 = 2

    private static func removeIfThere(_ url: URL) throws {
        guard access(url.path(percentEncoded: false), F_OK) == 0 else { return }
        try FileManager.default.removeItem(at: url)
    }

    private static func fill(
        _ new: URL,
        with files: [String: Data],
        knowing known: [String: Data],
        from old: URL
    ) throws {
        try makeFolder(new)
        for (path, data) in files.sorted(by: { $0.key < $1.key }) {
            let names = path.split(separator: "/", omittingEmptySubsequences: false)
            guard names.allSatisfy({ !["", ".", ".."].contains($0) }), !path.contains("\0") else {
                throw PackageError.badPath(path)
            }
            let file = new.appending(path: path)
            if names.count > 1 { try makeFolder(file.deletingLastPathComponent()) }
            if known[path] == data, copy(old.appending(path: path), to: file) { continue }
            try write(data, to: file)
        }
    }

    private static func makeFolder(_ url: URL) throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// Copies a file with its mode, times and attributes, without its bytes passing through here
    /// where the system can.
    ///
    /// - Returns: Whether it is there; else it is to be written.
    private static func copy(_ file: URL, to target: URL) -> Bool {
        (try? FileManager.default.copyItem(at: file, to: target)) != nil
    }

    private static func write(_ data: Data, to file: URL) throws {
        let flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC
        let descriptor = Glibc.open(file.path(percentEncoded: false), flags, 0o644)
        guard descriptor >= 0 else { throw SystemFailure(file) }
        defer { close(descriptor) }
        try AtomicFile.write(data, to: descriptor, file)
        guard fsync(descriptor) == 0 else { throw SystemFailure(file) }
    }
}

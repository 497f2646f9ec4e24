import CloudFSControlAPI
import Glibc

/// Finds the drive that a path lies in, without asking the drive anything.
///
/// Links outside of drives are followed as the kernel would; from the mountpoint on, names are
/// taken as they are written. Links inside a drive are followed only by `followingLinks`, which is
/// for a drive known to be alive.
public struct PathResolver: Sendable {
    /// A path, split into the mount it belongs to and the rest.
    public struct Place: Sendable, Hashable {
        public var mount: MountTable.Mount
        /// The names below the mountpoint.
        public var names: [String]
    }

    public let mounts: MountTable
    /// What relative paths begin with.
    public let workingFolder: String
    /// What a symbolic link says; `nil` for anything that is no link.
    private let readLink: @Sendable (String) -> String?

    public init(
        mounts: MountTable,
        workingFolder: String,
        readLink: @escaping @Sendable (String) -> String? = PathResolver.systemLink
    ) {
        self.mounts = mounts
        self.workingFolder = workingFolder
        self.readLink = readLink
    }

    /// Where `path` lies, or `nil` if that is in no drive.
    public func place(of path: String) -> Place? {
        guard let names = resolve(absolute(path), entersDrives: false) else { return nil }
        return place(ofNames: names)
    }

    /// The same place with the links inside the drive followed, except in the last name.
    ///
    /// Asks the drive. A link that leads out of it makes the place `nil`.
    public func followingLinks(_ path: String) -> Place? {
        guard let names = resolve(absolute(path), entersDrives: true) else { return nil }
        return place(ofNames: names)
    }

    private func place(ofNames names: [String]) -> Place? {
        guard let mount = mounts.mount(of: "/" + names.joined(separator: "/")), mount.isDrive
        else { return nil }
        let depth = mount.mountpoint.split(separator: "/").count
        return Place(mount: mount, names: Array(names.dropFirst(depth)))
    }

    private func absolute(_ path: String) -> String {
        path.utf8.first == UInt8(ascii: "/") ? path : workingFolder + "/" + path
    }

    /// The names of a path from the root, or `nil` for a circle of links.
    private func resolve(_ path: String, entersDrives: Bool) -> [String]? {
        var pending = Array(path.split(separator: "/").map(String.init).reversed())
        var names: [String] = []
        var linkCount = 0
        while let name = pending.popLast() {
            if name == "." { continue }
            if name == ".." {
                names = names.dropLast()
                continue
            }
            let next = "/" + (names + [name]).joined(separator: "/")
            guard mayFollow(next, isLast: pending.isEmpty, entersDrives: entersDrives),
                let target = readLink(next)
            else {
                names.append(name)
                continue
            }
            linkCount += 1
            guard linkCount <= 40 else { return nil }
            if target.utf8.first == UInt8(ascii: "/") { names = [] }
            pending += target.split(separator: "/").map(String.init).reversed()
        }
        return names
    }

    private func mayFollow(_ path: String, isLast: Bool, entersDrives: Bool) -> Bool {
        // Also below something that is mounted inside of a drive: the way there leads through it.
        let leadsThroughDrive = mounts.mounts.contains {
            $0.isDrive && MountTable.contains($0.mountpoint, path)
        }
        return !leadsThroughDrive || entersDrives && !isLast
    }

    /// Asks the kernel.
    @Sendable public static func systemLink(_ path: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { chars in
                chars.baseAddress.map { readlink(path, $0, chars.count) } ?? -1
            }
        }
        return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
    }

    /// The working folder of this process, which the kernel knows without asking a file system.
    public static func currentFolder() throws(DriveClientError) -> String {
        guard let path = getcwd(nil, 0) else { throw .system(path: ".", errno: errno) }
        defer { free(path) }
        return String(cString: path)
    }
}

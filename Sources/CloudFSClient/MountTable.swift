import Glibc

/// What is mounted where, as `/proc/self/mountinfo` says it.
///
/// The table is read instead of asking the file systems: a question to a drive whose daemon is
/// dead or stuck may wait for ever.
public struct MountTable: Sendable, Hashable {
    /// One line of the table.
    public struct Mount: Sendable, Hashable {
        public var id: Int
        /// `major:minor`; the same for every place where one file system is mounted.
        public var device: String
        /// Which folder of the file system is mounted; `/` unless it is a bind mount.
        public var root: String
        public var mountpoint: String
        public var fileSystemType: String
        public var source: String
        /// The options of the file system, after the type.
        public var options: [String]

        /// Whether it is a drive of CloudFS.
        public var isDrive: Bool { fileSystemType == MountTable.driveType }

        /// The user who mounted it, as FUSE notes it.
        public var userID: UInt32? {
            options.first { $0.hasPrefix("user_id=") }.flatMap { UInt32($0.dropFirst(8)) }
        }
    }

    /// The type of our mounts.
    static let driveType = "fuse.cloudfs"

    public var mounts: [Mount]

    /// Reads the text of a mountinfo file; lines that make no sense are left out.
    public init(text: String) {
        mounts = text.split(separator: "\n").compactMap(Self.mount)
    }

    /// The table of this process.
    ///
    /// - Throws: `DriveClientError.system` if there is no `/proc`.
    public static func current() throws(DriveClientError) -> MountTable {
        let path = "/proc/self/mountinfo"
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(path: path, errno: errno) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .system(path: path, errno: errno) }
            guard count > 0 else { break }
            bytes += chunk[..<count]
        }
        return MountTable(text: String(decoding: bytes, as: UTF8.self))
    }

    /// Every drive, one entry for each file system however often it is bound elsewhere.
    public var drives: [Mount] {
        var seen: Set<String> = []
        return mounts.reversed()
            .filter { $0.isDrive && $0.root == "/" && isOnTop($0) }
            .reversed()
            .filter { seen.insert($0.device).inserted }
    }

    /// The mount that an absolute path without links and dots belongs to.
    ///
    /// The longest mountpoint wins; of several at one place the last, which covers the others.
    public func mount(of path: String) -> Mount? {
        var found: Mount?
        for mount in mounts where Self.contains(mount.mountpoint, path) {
            if let length = found?.mountpoint.utf8.count, length > mount.mountpoint.utf8.count {
                continue
            }
            found = mount
        }
        return found
    }

    /// The places where the whole of a mount's file system is to be seen; the first is its own.
    func origins(of mount: Mount) -> [Mount] {
        mounts.filter { $0.device == mount.device && $0.root == "/" && $0.isDrive }
    }

    /// Whether something is mounted exactly there, and it is a drive.
    public func hasDrive(at mountpoint: String) -> Bool {
        mounts.contains { $0.isDrive && $0.mountpoint.utf8.elementsEqual(mountpoint.utf8) }
    }

    private func isOnTop(_ mount: Mount) -> Bool {
        self.mount(of: mount.mountpoint)?.id == mount.id
    }

    /// Whether `path` is `folder` or below it, component by component and byte by byte.
    static func contains(_ folder: String, _ path: String) -> Bool {
        guard folder != "/" else { return path.utf8.first == UInt8(ascii: "/") }
        guard path.utf8.starts(with: folder.utf8) else { return false }
        let rest = path.utf8.dropFirst(folder.utf8.count)
        return rest.isEmpty || rest.first == UInt8(ascii: "/")
    }

    // MARK: - Reading

    /// Reads a line: `36 35 98:0 / /mnt rw,noatime shared:1 - ext3 /dev/root rw,errors=continue`.
    ///
    /// Between the options and the dash there are fields in any number.
    private static func mount(_ line: Substring) -> Mount? {
        let fields = line.split(separator: " ", omittingEmptySubsequences: false)
        guard fields.count >= 10, let id = Int(fields[0]),
            let dash = fields[6...].firstIndex(of: "-"), fields.count > dash + 3
        else { return nil }
        return Mount(
            id: id,
            device: String(fields[2]),
            root: unescaped(fields[3]),
            mountpoint: unescaped(fields[4]),
            fileSystemType: unescaped(fields[dash + 1]),
            source: unescaped(fields[dash + 2]),
            options: fields[dash + 3].split(separator: ",").map(String.init)
        )
    }

    /// Undoes the kernel's `\040` for a space, and the like for tab, newline and backslash.
    private static func unescaped(_ field: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = field.utf8[...]
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3)
            if byte == UInt8(ascii: "\\"), digits.count == 3,
                let code = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
            {
                bytes.append(code)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

import Glibc

/// The folder that holds the sockets of one user's drives, and what the files in it are called.
///
/// Daemon and command find each other by names alone: the socket of a drive is named for the
/// mountpoint, so nothing has to be asked of a daemon that may hang.
public struct RuntimeDirectory: Sendable, Hashable {
    public let path: String
    /// Who has to own it.
    public let owner: UInt32

    public init(path: String, owner: UInt32) {
        self.path = path
        self.owner = owner
    }

    /// Where a daemon of this process's user puts its socket.
    ///
    /// `$XDG_RUNTIME_DIR/cloudfs` if that variable names a folder of ours, which it does not under
    /// `sudo -E`; else `/run/cloudfs` for root and `/tmp/cloudfs-<uid>` for everybody else.
    public static func forThisProcess() -> RuntimeDirectory {
        let user = geteuid()
        if let folder = environment("XDG_RUNTIME_DIR"), folder.utf8.first == UInt8(ascii: "/"),
            isFolder(folder, ownedBy: user)
        {
            return RuntimeDirectory(path: folder + "/cloudfs", owner: user)
        }
        return fallback(user: user)
    }

    /// Every place where a daemon of `user` may have put its socket, the likeliest first.
    ///
    /// More than one, because a daemon that systemd or cron started has another environment than
    /// the shell that looks for it.
    public static func candidates(user: UInt32) -> [RuntimeDirectory] {
        var found: [RuntimeDirectory] = []
        if user == geteuid() { found.append(forThisProcess()) }
        found.append(RuntimeDirectory(path: "/run/user/\(user)/cloudfs", owner: user))
        found.append(fallback(user: user))
        var seen: Set<String> = []
        return found.filter { seen.insert($0.path).inserted }
    }

    /// The socket of the drive at `mountpoint`, an absolute path without symbolic links.
    public func socketPath(mountpoint: String) -> String {
        "\(path)/\(Self.name(mountpoint: mountpoint)).sock"
    }

    /// The record of the drive at `mountpoint`, beside its socket.
    public func recordPath(mountpoint: String) -> String {
        "\(path)/\(Self.name(mountpoint: mountpoint)).json"
    }

    /// 16 hexadecimal digits: FNV-1a (64 bit) of the mountpoint's bytes.
    ///
    /// Short, because a socket's path holds 107 bytes. Two mountpoints of one user that share a
    /// name are not expected in this universe; the record tells them apart all the same.
    public static func name(mountpoint: String) -> String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in mountpoint.utf8 {
            hash ^= UInt64(byte)
            hash &*= 0x0000_0100_0000_01b3
        }
        let digits = String(hash, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    // MARK: - Checks

    /// What is wrong with a runtime folder.
    public enum Fault: Error, Sendable, Hashable, CustomStringConvertible {
        case absent(path: String)
        case notAFolder(path: String)
        case owned(path: String, by: UInt32, expected: UInt32)
        case open(path: String, mode: UInt32)
        case system(path: String, errno: Int32)

        public var description: String {
            switch self {
            case .absent(let path):
                "\(path) does not exist"
            case .notAFolder(let path):
                "\(path) is not a folder; remove it"
            case .owned(let path, let user, let expected):
                "\(path) belongs to user \(user) instead of \(expected); remove it"
            case .open(let path, let mode):
                "\(path) is open to others (mode \(String(mode, radix: 8))); "
                    + "look who put what there, then: chmod 700 \(path)"
            case .system(let path, let errno):
                "\(path): \(String(cString: strerror(errno)))"
            }
        }
    }

    /// Checks that nobody but `owner` can put a socket here.
    ///
    /// A folder in `/tmp` could be anybody's: a symbolic link, another owner or a mode with any
    /// right for others is refused.
    public func check() throws(Fault) {
        let descriptor = try openFolder()
        defer { close(descriptor) }
        try check(descriptor)
    }

    /// Makes the folder with mode 0700 if it is not there, and checks it either way.
    public func create() throws(Fault) {
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
            throw .system(path: path, errno: errno)
        }
        try check()
    }

    /// Opens the folder itself, never what a symbolic link points to.
    public func openFolder() throws(Fault) -> Int32 {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor < 0 else { return descriptor }
        switch errno {
        case ENOENT: throw .absent(path: path)
        case ENOTDIR, ELOOP: throw .notAFolder(path: path)
        case let code: throw .system(path: path, errno: code)
        }
    }

    private func check(_ descriptor: Int32) throws(Fault) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw .system(path: path, errno: errno) }
        guard facts.st_uid == owner else {
            throw .owned(path: path, by: facts.st_uid, expected: owner)
        }
        guard facts.st_mode & 0o077 == 0 else {
            throw .open(path: path, mode: facts.st_mode & 0o7777)
        }
    }

    private static func fallback(user: UInt32) -> RuntimeDirectory {
        RuntimeDirectory(
            path: user == 0 ? "/run/cloudfs" : "/tmp/cloudfs-\(user)",
            owner: user
        )
    }

    private static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    private static func isFolder(_ path: String, ownedBy user: UInt32) -> Bool {
        var facts = stat()
        return stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFDIR
            && facts.st_uid == user
    }
}

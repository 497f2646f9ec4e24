import Dispatch
import Glibc
import Synchronization

extension MountConfiguration.Checks {
    static func text(_ number: Int32) -> String { String(cString: strerror(number)) }

    /// The names in the folder at `path`, without `.` and `..`.
    ///
    /// - Throws: `denied` when it cannot be read.
    static func names(in path: String) throws(CloudFSError) -> Set<String> {
        guard let folder = opendir(path) else {
            throw CloudFSError(
                .denied,
                "the folder \(path) cannot be read: \(text(errno)); choose another"
            )
        }
        defer { closedir(folder) }
        var names: Set<String> = []
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.insert(name) }
        }
        return names
    }

    /// What a mount answers when it is asked.
    package enum SignOfLife: Sendable {
        case answer
        /// Its daemon hangs, is stopped, or was killed while the kernel held it.
        case silence
        /// Its daemon is gone.
        case death
    }

    /// Whether the daemon of the mount at `path` is gone; one that merely hangs is alive.
    ///
    /// `statvfs`, because the kernel answers `stat` of a root it knows by itself. A daemon that is
    /// stopped never answers, so a thread of its own bears the wait; without one nothing is heard.
    package static func signOfLife(_ path: String) -> SignOfLife {
        let answer = Answer()
        let result = OwnThread.attempt("cloudfs-asker") {
            var status = statvfs()
            let reason = statvfs(path, &status) == 0 ? 0 : errno
            answer.reason.withLock { $0 = reason }
            answer.isThere.signal()
        }
        guard result == 0, answer.isThere.wait(timeout: .now() + 3) == .success else {
            return .silence
        }
        // The other one is said to who waits for an answer in that moment.
        let isCut = [ENOTCONN, ECONNABORTED].contains(answer.reason.withLock { $0 })
        return isCut ? .death : .answer
    }

    private final class Answer: Sendable {
        let reason = Mutex<Int32>(0)
        let isThere = DispatchSemaphore(value: 0)
    }

    /// Where the program is that mounts for users other than root.
    package static func fusermountPath() -> String? {
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        let folders = path.split(separator: ":").map(String.init) + ["/usr/bin", "/bin"]
        return folders.map { "\($0)/fusermount3" }.first { access($0, X_OK) == 0 }
    }

    /// Whether `/etc/fuse.conf`, given as text, lets every user show a mount to others.
    static func allowsOthers(_ configuration: String) -> Bool {
        configuration.split(separator: "\n").contains { line in
            let words = line.split { $0 == " " || $0 == "\t" }
            return words.first == "user_allow_other"
        }
    }

    static func fuseConfiguration() -> String {
        let descriptor = open("/etc/fuse.conf", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    /// Cuts the connection of the mount at `path`, if that is possible: whoever waits for it, the
    /// kernel's part of a killed daemon too, comes free.
    ///
    /// - Returns: Whether it was possible.
    private static func abort(_ path: String) throws(CloudFSError) -> Bool {
        let device = try MountConfiguration.MountTable.current().mount(at: path)?.device
        guard let number = device?.split(separator: ":").last else { return false }
        let control = open("/sys/fs/fuse/connections/\(number)/abort", O_WRONLY | O_CLOEXEC)
        guard control >= 0 else { return false }
        defer { close(control) }
        return write(control, "1", 1) == 1
    }

    /// Takes a mount that nobody serves out of sight, whatever state it is in.
    ///
    /// - Throws: `internalFailure` with the reason and what to do by hand.
    package static func remove(_ path: String) throws(CloudFSError) {
        // Where the kernel's files for that are not mounted, root can say it so.
        let isForced =
            try !abort(path) && geteuid() == 0
            && umount2(path, Int32(MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW)) == 0
        if !isForced { try detach(path) }
    }

    /// Takes what is mounted at `path` itself out of sight: a link leads to what is another's.
    private static func detach(_ path: String) throws(CloudFSError) {
        if geteuid() == 0 {
            guard umount2(path, Int32(MNT_DETACH | UMOUNT_NOFOLLOW)) != 0 else { return }
            throw CloudFSError(
                .internalFailure,
                "the mount at \(path) cannot be detached: \(text(errno)); "
                    + "try umount -l '\(path)'"
            )
        }
        guard let program = fusermountPath(), run(program, ["-u", "-z", "--", path]) == 0 else {
            throw CloudFSError(
                .internalFailure,
                "the mount at \(path) cannot be detached; try fusermount3 -uz '\(path)'"
            )
        }
    }

    /// Runs a program to its end and returns its exit status, or `nil` if there is none.
    private static func run(_ program: String, _ arguments: [String]) -> Int32? {
        let words = ([program] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var process = pid_t()
        guard posix_spawn(&process, program, nil, nil, words + [nil], environ) == 0 else {
            return nil
        }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 {
            guard errno == EINTR else { return nil }
        }
        return status & 0x7f == 0 ? (status >> 8) & 0xff : nil
    }
}

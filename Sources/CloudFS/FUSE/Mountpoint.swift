import CFuse
import Glibc

/// The place of a drive: whether it can be mounted there, and how it is taken away again.
struct Mountpoint: Sendable {
    /// How drives show in the table of mounts.
    static let typeName = "fuse.cloudfs"

    /// Absolute, without symbolic links.
    let path: String

    /// The place of a drive that is mounted there.
    init(mounted path: String) {
        self.path = path
    }

    /// Looks at everything that is known to make mounting fail, so that the reason is told in
    /// words and nothing is left behind.
    ///
    /// - Throws: One sentence that says what is wrong and what to do.
    init(preparing options: FuseMountOptions) throws(CloudFSError) {
        path = try Self.resolved(options.mountpoint)
        try removeDeadDrives()
        try Self.checkFolder(path)
        if let record = try MountTable.top(at: path) {
            throw CloudFSError(
                .exists,
                "something of type \(record.type) is mounted at \(path) already;"
                    + " unmount it or choose another folder"
            )
        }
        try Self.checkEmpty(path)
        try Self.checkDevice()
        if geteuid() != 0 { try Self.checkHelper(options) }
    }

    /// The failure of a mount that none of the checks explains.
    func failure(_ lines: [String]) -> CloudFSError {
        guard let reason = lines.last else {
            // libfuse says nothing when it left the mount to fusermount3, which prints for itself.
            return CloudFSError(
                .notPermitted,
                "mounting at \(path) is not permitted; run as root with the capability SYS_ADMIN,"
                    + " or choose a folder where fusermount3 lets you mount"
            )
        }
        return CloudFSError(.internalFailure, "mounting at \(path) failed: \(reason)")
    }

    /// Unmounts what is on top at the path.
    ///
    /// - Parameter lazily: Takes it from sight at once, although programs still use it.
    /// - Returns: 0 or an errno.
    func unmount(lazily: Bool) -> Int32 {
        // umount2 follows no link: someone else may have replaced the folder.
        let flags = CFUSE_UMOUNT_NOFOLLOW | (lazily ? CFUSE_MNT_DETACH : 0)
        let number = umount2(path, flags) == 0 ? 0 : Glibc.errno
        guard number == EPERM else { return number }
        let arguments = ["-u", "-q"] + (lazily ? ["-z"] : []) + ["--", path]
        return Self.run("fusermount3", arguments) ? 0 : EBUSY
    }

    // MARK: - Checks

    /// Takes away mounts of this place whose daemon has died; they answer nothing but ENOTCONN.
    private func removeDeadDrives() throws(CloudFSError) {
        // `statvfs`, because the kernel answers `stat` of a root it knows by itself.
        var status = statvfs()
        while statvfs(path, &status) != 0, [ENOTCONN, ECONNABORTED].contains(Glibc.errno),
            try MountTable.top(at: path)?.type == Self.typeName
        {
            guard unmount(lazily: true) == 0 else { throw Self.unusable(path, ENOTCONN) }
        }
    }

    private static func checkFolder(_ path: String) throws(CloudFSError) {
        var status = stat()
        guard stat(path, &status) == 0 else { throw unusable(path, Glibc.errno) }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw unusable(path, ENOTDIR) }
    }

    private static func resolved(_ path: String) throws(CloudFSError) -> String {
        guard let resolved = realpath(path, nil) else {
            throw unusable(path, Glibc.errno)
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    private static func unusable(_ path: String, _ number: Int32) -> CloudFSError {
        switch number {
        case ENOENT:
            CloudFSError(.notFound, "there is no folder \(path); make it first")
        case ENOTDIR:
            CloudFSError(.notDirectory, "\(path) is not a folder; choose a folder to mount at")
        case EACCES:
            CloudFSError(.denied, "no access to \(path); choose a folder of yours")
        case ENOTCONN:
            CloudFSError(
                .exists,
                "a drive whose program has ended is still mounted at \(path);"
                    + " run 'fusermount3 -u \(path)' first"
            )
        default:
            CloudFSError(
                .internalFailure,
                "cannot use \(path): \(String(cString: strerror(number)))"
            )
        }
    }

    private static func checkEmpty(_ path: String) throws(CloudFSError) {
        guard let folder = opendir(path) else { throw unusable(path, Glibc.errno) }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                Array(bytes.prefix { $0 != 0 })
            }
            if name != [0x2e], name != [0x2e, 0x2e] {
                throw CloudFSError(
                    .notEmpty,
                    "\(path) is not empty; empty it or choose another folder"
                )
            }
        }
    }

    private static func checkDevice() throws(CloudFSError) {
        let descriptor = open("/dev/fuse", O_RDWR | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return
        }
        switch Glibc.errno {
        case ENOENT, ENODEV, ENXIO:
            throw CloudFSError(
                .unsupported,
                "there is no /dev/fuse; run 'modprobe fuse' as root, or give the container the"
                    + " device /dev/fuse"
            )
        default:
            throw CloudFSError(
                .notPermitted,
                "no access to /dev/fuse; run as root or as a user who may read and write it"
            )
        }
    }

    private static func checkHelper(_ options: FuseMountOptions) throws(CloudFSError) {
        guard isProgram("fusermount3") else {
            throw CloudFSError(
                .unsupported,
                "there is no fusermount3; install the package fuse3 or run as root"
            )
        }
        if options.allowsOthers, !mayAllowOthers() {
            throw CloudFSError(
                .notPermitted,
                "allow_other needs the line 'user_allow_other' in /etc/fuse.conf; add it, or"
                    + " leave the option out"
            )
        }
    }

    private static func isProgram(_ name: String) -> Bool {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        return path.split(separator: ":").contains { access("\($0)/\(name)", X_OK) == 0 }
    }

    private static func mayAllowOthers() -> Bool {
        guard let file = fopen("/etc/fuse.conf", "re") else { return false }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, Int32(line.count), file) != nil {
            let bytes = line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
            let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
            if words.first == "user_allow_other" { return true }
        }
        return false
    }

    /// Runs a program to its end; whether it succeeded.
    private static func run(_ program: String, _ arguments: [String]) -> Bool {
        var vector = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for argument in vector { free(argument) } }
        var child: pid_t = 0
        guard posix_spawnp(&child, program, nil, nil, &vector, environ) == 0 else { return false }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0 {
            if Glibc.errno != EINTR { return false }
        }
        return status == 0
    }
}

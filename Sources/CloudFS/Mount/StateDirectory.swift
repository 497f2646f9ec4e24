import Glibc

/// Where a drive keeps its catalog, content, staging area, log and lock.
///
/// It can hold the only copy of a user's bytes, so it is private to one user, and a folder that
/// already holds something else is never taken over.
package struct StateDirectory: Sendable {
    /// Absolute.
    package let path: String

    /// The catalog's name within it.
    package static let catalogName = "catalog.sqlite"

    /// Opens the directory at `path`, making it and what leads to it when missing.
    ///
    /// - Throws: `denied`, `notDirectory`, `exists` and the like, with one sentence.
    package init(at path: String) throws(CloudFSError) {
        self.path = path
        try Self.make(path)
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw Self.failure("cannot be looked at", path, errno)
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw CloudFSError(
                .notDirectory,
                "the state directory \(path) is not a folder; choose another with --state-dir"
            )
        }
        guard status.st_uid == geteuid() else {
            throw CloudFSError(
                .denied,
                "the state directory \(path) belongs to user \(status.st_uid), not to you; "
                    + "choose another with --state-dir"
            )
        }
        guard try Self.isUsable(path) else {
            throw CloudFSError(
                .exists,
                "the folder \(path) holds other files and no drive's state; "
                    + "name an empty or new folder with --state-dir"
            )
        }
        guard status.st_mode & 0o077 == 0 || chmod(path, 0o700) == 0 else {
            throw Self.failure("cannot be made private", path, errno)
        }
        try Self.refuseLinks(in: path)
    }

    /// Links in the place of files that the drive writes could have been put there by whoever could
    /// write to the directory before it was private.
    private static func refuseLinks(in path: String) throws(CloudFSError) {
        let names = ["lock", "daemon.log", catalogName, "\(catalogName)-wal"]
        for name in names {
            var status = stat()
            guard lstat("\(path)/\(name)", &status) == 0, status.st_mode & S_IFMT == S_IFLNK
            else { continue }
            // Without its catalog a drive has nothing.
            let advice =
                name.hasPrefix(catalogName)
                ? "put the file itself there, or make the whole directory a link"
                : "remove it, or choose another with --state-dir"
            throw CloudFSError(
                .denied,
                "the state directory \(path) has a link in the place of \"\(name)\"; \(advice)"
            )
        }
    }

    /// Whether a drive was mounted with this directory before.
    package static func hasCatalog(at path: String) -> Bool {
        access("\(path)/\(catalogName)", F_OK) == 0
    }

    /// The daemon's log when it runs in the background.
    package var logPath: String { "\(path)/daemon.log" }

    var lockPath: String { "\(path)/lock" }

    // MARK: - Default place

    /// Where the state of a drive is when nobody says so: always the same for the same drive.
    ///
    /// Root has one place whatever `HOME` is: at boot there is none, and a drive mounted by a line
    /// of fstab must find its state again when an administrator mounts it by hand.
    ///
    /// - Parameters:
    ///   - container: The drive's container.
    ///   - mountpoint: Absolute, with links followed.
    ///   - host: Whose environment and user decide.
    /// - Returns: An absolute path; nothing is made there.
    /// - Throws: `notFound` for a user without `HOME` and `XDG_DATA_HOME`.
    static func defaultPath(
        container: ContainerURL,
        mountpoint: String,
        host: MountConfiguration.Host
    ) throws(CloudFSError) -> String {
        let name = "\(fileName(container.shortName))-\(hash("\(container)\0\(mountpoint)"))"
        if let data = host.environment["XDG_DATA_HOME"], data.hasPrefix("/") {
            return MountConfiguration.Paths.absolute("cloudfs/\(name)", base: data, home: nil)
        }
        if host.userID == 0 { return "/var/lib/cloudfs/\(name)" }
        guard let home = host.home else {
            throw CloudFSError(
                .notFound,
                "there is no place for the drive's state, because HOME is not set; "
                    + "set it or name a folder with --state-dir"
            )
        }
        return MountConfiguration.Paths.absolute(
            ".local/share/cloudfs/\(name)",
            base: home,
            home: nil
        )
    }

    private static func fileName(_ text: String) -> String {
        let letters = text.utf8.prefix(40).map { byte -> Character in
            let scalar = Unicode.Scalar(byte)
            let isPlain = scalar.isASCII && Character(scalar).isLetter
            return isPlain || (0x30...0x39).contains(byte) || scalar == "-" || scalar == "_"
                ? Character(scalar) : "_"
        }
        return String(letters)
    }

    /// FNV-1a, 64 bits: needs to be stable for ever, not to resist anybody.
    private static func hash(_ text: String) -> String {
        let value = text.utf8.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { hash, byte in
            (hash ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    // MARK: - Making it

    private static func make(_ path: String) throws(CloudFSError) {
        guard mkdir(path, 0o700) != 0 else { return }
        let reason = errno
        switch reason {
        case EEXIST: return
        case ENOENT where path != "/":
            try make(MountConfiguration.Paths.parent(of: path))
            guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
                throw failure("cannot be made", path, errno)
            }
        default: throw failure("cannot be made", path, reason)
        }
    }

    /// A drive's state is recognised by its lock, its catalog or its log.
    private static func isUsable(_ path: String) throws(CloudFSError) -> Bool {
        var names = try MountConfiguration.Checks.names(in: path)
        // On a disk of its own there is one from the beginning.
        names.remove("lost+found")
        guard !names.isEmpty else { return true }
        return !names.isDisjoint(with: ["lock", "daemon.log", catalogName])
    }

    static func failure(_ what: String, _ path: String, _ number: Int32) -> CloudFSError {
        let code: CloudFSError.Code =
            switch number {
            case ENOSPC: .diskFull
            case EROFS: .readOnly
            case EACCES, EPERM: .denied
            default: .internalFailure
            }
        return CloudFSError(
            code,
            "the state directory \(path) \(what): \(String(cString: strerror(number))); "
                + "choose another with --state-dir"
        )
    }
}

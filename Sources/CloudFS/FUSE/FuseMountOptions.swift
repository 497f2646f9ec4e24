/// How and where a drive is mounted.
struct FuseMountOptions: Sendable, Equatable {
    /// An absolute path.
    var mountpoint: String
    /// What `mount` and `df` show as the source: the container's URL.
    var source: String
    /// The parts of `-o`: options of libfuse and of mount(8), without those that concern only
    /// mount(8), systemd and fstab.
    private(set) var flags: [String] = []

    /// - Parameters:
    ///   - mountpoint: The folder, as an absolute path.
    ///   - source: The container's URL.
    ///   - options: The parts of `-o`, already split at commas.
    /// - Throws: `invalidArgument` naming the first option that a drive does not have.
    init(mountpoint: String, source: String, options: [String] = []) throws(CloudFSError) {
        self.mountpoint = mountpoint
        self.source = source
        for option in options where !Self.isForOthers(option) {
            try add(option)
        }
    }

    var isReadOnly: Bool { flags.contains("ro") }
    var allowsOthers: Bool { flags.contains { $0 == "allow_other" || $0 == "allow_root" } }

    /// The argument vector for libfuse.
    ///
    /// Programs and device files of a cloud must not gain rights here, so nosuid and nodev are
    /// always set; the kernel checks permissions, because it caches answers for all users.
    var arguments: [String] {
        let fixed = [
            "fsname=\(Self.escaped(source))", "subtype=cloudfs", "default_permissions", "nosuid",
            "nodev",
        ]
        return ["cloudfs-mount"] + (fixed + flags).flatMap { ["-o", $0] }
    }

    private mutating func add(_ option: String) throws(CloudFSError) {
        if option == "suid" || option == "dev" {
            throw CloudFSError(
                .invalidArgument,
                "the mount option '\(option)' is not possible: drives are always mounted with"
                    + " nosuid and nodev"
            )
        }
        let name = option.prefix { $0 != "=" }
        guard Self.known.contains(option) || Self.knownWithValue.contains(String(name)) else {
            throw CloudFSError(
                .invalidArgument,
                "unknown mount option '\(option)'; remove it from -o or from fstab"
            )
        }
        if !flags.contains(option) { flags.append(Self.escaped(option)) }
    }

    private static let known: Set<String> = [
        "allow_other", "allow_root", "ro", "rw", "nosuid", "nodev", "exec", "noexec", "async",
        "sync", "dirsync", "atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime",
        "strictatime", "nostrictatime", "lazytime", "nolazytime", "default_permissions",
    ]
    private static let knownWithValue: Set<String> = [
        "context", "fscontext", "defcontext", "rootcontext",
    ]

    /// What mount(8), systemd and fstab write for themselves.
    private static func isForOthers(_ option: String) -> Bool {
        let words: Set<String> = [
            "", "defaults", "auto", "noauto", "nofail", "_netdev", "user", "nouser", "users",
            "owner", "group",
        ]
        return words.contains(option)
            || ["x-", "X-", "comment=", "user=", "uhelper=", "helper="].contains {
                option.hasPrefix($0)
            }
    }

    /// libfuse splits at commas and reads backslashes as escapes.
    private static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing(",", with: "\\,")
    }
}

public import Logging

/// Everything a mount needs, complete and checked for itself.
///
/// Whether the machine can carry it out (is the mountpoint there, is it empty) is asked by
/// `MountConfiguration.Checks`, because the answers change from moment to moment.
public struct MountConfiguration: Sendable, Equatable {
    /// One container of the drive.
    public struct Container: Sendable, Equatable {
        /// The name of its folder once a drive holds several; `nil` for the only one.
        public var name: String?
        public var url: ContainerURL

        public init(name: String? = nil, url: ContainerURL) {
            self.name = name
            self.url = url
        }
    }

    /// How much of a file an open brings here, named as in Windows' Cloud Files API.
    public enum Hydration: String, Sendable, CaseIterable {
        /// What is read at once, then the rest in the background up to `progressiveLimit`.
        case progressive
        /// What is read, and read-ahead.
        case partial
        /// The open waits for the whole file.
        case full
    }

    /// What a program meets that is refused a download.
    public enum HydrationError: String, Sendable, CaseIterable {
        /// "Object is remote".
        case remote = "EREMOTE"
        case denied = "EACCES"
        case again = "EAGAIN"
        case offline = "ENETUNREACH"
    }

    /// Which plain programs heed the claims of coordinated ones.
    public enum Coordination: String, Sendable, CaseIterable {
        /// Those that change something.
        case advisory
        /// Those that only read as well.
        case enforced
    }

    /// Where thumbnails come from.
    public enum Thumbnails: String, Sendable, CaseIterable {
        /// Made on this machine, and exchanged with other devices.
        case full
        /// Only those that other devices have left in the cloud are shown.
        case fetched
        case off
    }

    /// Who hears what people open.
    public enum Recents: String, Sendable, CaseIterable {
        /// Every device of the drive.
        case shared
        /// Nobody else.
        case here
    }

    /// Which desktop's cache of thumbnails is filled.
    public enum ThumbnailCache: Sendable, Equatable {
        /// That of the user who mounts, if it is not root.
        case ofUser
        /// The folder `thumbnails`; absolute.
        case folder(String)
        case none
    }

    /// A link that is slower or worse than the real one, for demonstrations and tests.
    public struct SimulatedLink: Sendable, Equatable {
        /// Added to every request.
        public var latency: Duration
        /// Bytes per second of each transfer; `nil` for no limit.
        public var bandwidth: Int64?
        /// The share of requests that fail as if the network had: 0 to 1.
        public var failures: Double

        public init(latency: Duration = .zero, bandwidth: Int64? = nil, failures: Double = 0) {
            self.latency = latency
            self.bandwidth = bandwidth
            self.failures = failures
        }

        /// Whether it differs from the real link at all.
        public var isNeeded: Bool { latency > .zero || bandwidth != nil || failures > 0 }
    }

    /// How a bucket is reached; credentials come from elsewhere.
    public struct S3: Sendable, Equatable {
        /// Where the bucket's name stands in a request.
        public enum Addressing: String, Sendable {
            case path
            case virtualHost = "virtual-host"
        }

        /// `nil`: what the environment or the profile says, then AWS.
        public var endpoint: String?
        public var region: String?
        public var profile: String?
        public var addressing: Addressing?
        /// Absolute; PEM.
        public var caFile: String?
        public var isAnonymous = false
        public var pollInterval = Duration.seconds(1)
        /// After which time without use or news the drive counts as idle, and how often news is
        /// looked for then.
        public var idleAfter = Duration.seconds(300)
        public var idlePollInterval = Duration.seconds(30)
        public var scanInterval = Duration.seconds(900)
        /// A folder that is opened is compared again when its last listing is older.
        public var listingAge = Duration.seconds(30)

        public init() {}
    }

    /// One container now; what reads this takes the first.
    public var containers: [Container]
    /// Absolute, with symbolic links followed.
    public var mountpoint: String
    /// Absolute; made by `StateDirectory`.
    public var stateDirectory: String

    /// Bytes of content kept here; `nil` is half of what was free at the first mount.
    public var cacheSize: Int64?
    /// Bytes of the disk left free; `nil` is the larger of 2 GiB and 5 %.
    public var freeFloor: Int64?
    /// Names this device in conflict versions.
    public var deviceName: String
    public var logLevel = Logger.Level.info
    /// Bytes per second; `nil` for no limit.
    public var uploadLimit: Int64?
    /// Bytes per second; `nil` for no limit.
    public var downloadLimit: Int64?
    /// Changes are refused with EROFS.
    public var readOnly = false
    /// Passed to the mount as they are: `allow_other`, `allow_root`, `noexec`.
    public var mountOptions: [String] = []
    /// Owners are shown as the cloud has them, not as the mount's own.
    public var remoteIDs = false
    /// The kernel reads and writes local files itself, where it can.
    public var passthrough = true
    /// How long a file stays unchanged before it is uploaded.
    public var quietTime = Duration.seconds(2)
    /// How long a read waits without progress.
    public var readTimeout = Duration.seconds(30)
    public var hydration = Hydration.progressive
    /// Programs, beside the built-in ones, that get only what is here: patterns (`fnmatch`) of
    /// file names of programs and names of systemd services.
    public var hydrationDeny: [String] = []
    /// Programs that get what they read, though they are refused else.
    public var hydrationAllow: [String] = []
    public var hydrationError = HydrationError.remote
    public var coordination = Coordination.advisory
    /// How long an open waits for a coordinated program.
    public var claimTimeout = Duration.seconds(30)
    public var thumbnails = Thumbnails.full
    public var thumbnailCache = ThumbnailCache.ofUser
    public var recents = Recents.shared
    /// Files larger than this are not completed in the background.
    public var progressiveLimit: Int64 = 256 << 20
    /// Patterns (`fnmatch`) of names that stay on this machine; matched against one component.
    public var ignore = MountConfiguration.defaultIgnore
    /// Extensions of folders that are one document each.
    public var packages: [String] = []
    public var simulatedLink = SimulatedLink()
    public var s3 = S3()
    public var foreground = false
    /// Types of documents that only a drive file can declare.
    public var types: [DeclaredType] = []
    /// The catalog is there from an earlier mount, so the container need not be reachable now.
    public var mayStartOffline = false

    public init(
        containers: [Container],
        mountpoint: String,
        stateDirectory: String,
        deviceName: String
    ) {
        self.containers = containers
        self.mountpoint = mountpoint
        self.stateDirectory = stateDirectory
        self.deviceName = deviceName
    }

    /// Swap files of editors, and what desktops leave in every folder they look at.
    ///
    /// Lock files of office programs are no part of it: they tell other devices who has a document
    /// open (`OwnerFileName`).
    ///
    /// A name is here only if files of that name are never documents and never become one by a
    /// rename. So `*.tmp`, `*~`, `*.bak`, `*.part` and `._*` are synced like any other file, and
    /// so is `.Trash-*`: what one machine threw away can be brought back on another, and throwing
    /// a placeholder away needs no download.
    public static let defaultIgnore = [
        ".#*",  // Emacs: who has the document open, as a symbolic link
        "#*#",  // Emacs: unsaved work, to be recovered on this machine
        ".*.sw[a-px]",  // vim: swap files
        ".sw[a-px]",  // vim: swap files of buffers without a name
        ".*.kate-swp",  // Kate: swap files
        ".DS_Store",  // macOS: how a window looked
        "Thumbs.db",  // Windows: thumbnails
    ]
}

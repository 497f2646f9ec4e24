import ArgumentParser
import CloudFS
import Logging

/// The command line of `cloudfs-mount`; the library's table decides what the words mean.
struct MountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cloudfs-mount",
        abstract: "Mount a cloud container as a drive.",
        usage: """
            cloudfs-mount [options] <container-url> <mountpoint>
            cloudfs-mount [options] --config <file> [<mountpoint>]
            """,
        discussion: """
            Returns when the drive is usable and leaves a daemon; end it with \
            fusermount3 -u <mountpoint> or by SIGTERM. A container URL is s3://bucket/prefix, \
            or local:/path: a directory plays the cloud.

            Sizes: 4096, 500MB, 20GiB or 20G. Times: 20ms, 2s, 1m. Every option can also be \
            written as -o name=value, as in fstab, and as name = value in a drive file. Long \
            options win over -o, and -o over the file.

            -o also knows ro, rw, allow_other, allow_root and noexec, and accepts what mount, \
            fstab and systemd keep for themselves: _netdev, noauto, nofail, user, x-systemd.*.

            Exit status: 0 when mounted (or, in the foreground, ended cleanly), 64 for wrong \
            arguments, 1 for anything else. As mount.cloudfs: 0, 1 and 32, as mount(8) says.
            """,
        version: Version.current
    )

    typealias MountOption = MountConfiguration.Option

    private static let levels = Logger.Level.allCases.map(\.rawValue)
    private static let policies = MountConfiguration.Hydration.allCases.map(\.rawValue)

    @Argument(help: "Where the container is: local:/path or s3://bucket/prefix.")
    var containerURL: String?

    @Argument(help: "An empty folder, where the drive appears.", completion: .directory)
    var mountpoint: String?

    @Flag(name: [.customShort("f"), .of(.foreground)], help: .of(.foreground))
    var foreground = false

    @Option(
        name: [.customShort("o", allowingJoined: true), .customLong("options")],
        help: ArgumentHelp("Mount options, separated by commas. Repeatable.", valueName: "list")
    )
    var options: [String] = []

    @Option(
        help: ArgumentHelp("A drive file in TOML with the same options.", valueName: "file"),
        completion: .file(extensions: ["toml"])
    )
    var config: String?

    @Option(name: .of(.stateDir), help: .of(.stateDir), completion: .directory)
    var stateDir: String?
    @Option(name: .of(.cacheSize), help: .of(.cacheSize)) var cacheSize: String?
    @Option(name: .of(.freeFloor), help: .of(.freeFloor)) var freeFloor: String?
    @Option(name: .of(.deviceName), help: .of(.deviceName)) var deviceName: String?
    @Option(name: .of(.logLevel), help: .of(.logLevel), completion: .list(Self.levels))
    var logLevel: String?
    @Option(name: .of(.uploadLimit), help: .of(.uploadLimit)) var uploadLimit: String?
    @Option(name: .of(.downloadLimit), help: .of(.downloadLimit)) var downloadLimit: String?
    @Flag(name: .of(.readOnly), help: .of(.readOnly)) var readOnly = false
    @Flag(name: .of(.remoteIDs), help: .of(.remoteIDs)) var remoteIDs = false
    @Flag(name: .of(.noPassthrough), help: .of(.noPassthrough)) var noPassthrough = false
    @Option(name: .of(.quietTime), help: .of(.quietTime)) var quietTime: String?
    @Option(name: .of(.readTimeout), help: .of(.readTimeout)) var readTimeout: String?
    @Option(name: .of(.hydration), help: .of(.hydration), completion: .list(Self.policies))
    var hydration: String?
    @Option(name: .of(.hydrationDeny), help: .of(.hydrationDeny)) var hydrationDeny: [String] = []
    @Option(name: .of(.hydrationAllow), help: .of(.hydrationAllow))
    var hydrationAllow: [String] = []
    @Option(
        name: .of(.hydrationError),
        help: .of(.hydrationError),
        completion: .list(MountConfiguration.HydrationError.allCases.map(\.rawValue))
    )
    var hydrationError: String?
    @Option(
        name: .of(.coordination),
        help: .of(.coordination),
        completion: .list(MountConfiguration.Coordination.allCases.map(\.rawValue))
    )
    var coordination: String?
    @Option(name: .of(.claimTimeout), help: .of(.claimTimeout)) var claimTimeout: String?
    @Option(
        name: .of(.thumbnails),
        help: .of(.thumbnails),
        completion: .list(MountConfiguration.Thumbnails.allCases.map(\.rawValue))
    )
    var thumbnails: String?
    @Option(name: .of(.thumbnailCache), help: .of(.thumbnailCache)) var thumbnailCache: String?
    @Option(
        name: .of(.recents),
        help: .of(.recents),
        completion: .list(MountConfiguration.Recents.allCases.map(\.rawValue))
    )
    var recents: String?
    @Option(name: .of(.progressiveLimit), help: .of(.progressiveLimit))
    var progressiveLimit: String?
    @Option(name: .of(.ignore), help: .of(.ignore)) var ignore: [String] = []
    @Option(name: .of(.package), help: .of(.package)) var packages: [String] = []
    @Option(name: .of(.simulateLatency), help: .of(.simulateLatency))
    var simulateLatency: String?
    @Option(name: .of(.simulateBandwidth), help: .of(.simulateBandwidth))
    var simulateBandwidth: String?
    @Option(name: .of(.simulateFailures), help: .of(.simulateFailures))
    var simulateFailures: String?

    @Option(name: .of(.endpoint), help: .of(.endpoint)) var endpoint: String?
    @Option(name: .of(.region), help: .of(.region)) var region: String?
    @Option(name: .of(.profile), help: .of(.profile)) var profile: String?
    @Option(
        name: .of(.addressing),
        help: .of(.addressing),
        completion: .list(["path", "virtual-host"])
    )
    var addressing: String?
    @Option(name: .of(.caFile), help: .of(.caFile), completion: .file()) var caFile: String?
    @Flag(name: .of(.anonymous), help: .of(.anonymous)) var anonymous = false
    @Option(name: .of(.pollInterval), help: .of(.pollInterval)) var pollInterval: String?
    @Option(name: .of(.idleAfter), help: .of(.idleAfter)) var idleAfter: String?
    @Option(name: .of(.idlePollInterval), help: .of(.idlePollInterval))
    var idlePollInterval: String?
    @Option(name: .of(.scanInterval), help: .of(.scanInterval)) var scanInterval: String?
    @Option(name: .of(.listingAge), help: .of(.listingAge)) var listingAge: String?

    @Flag(help: "Check everything, print the result as a drive file, and mount nothing.")
    var dryRun = false

    @Flag(help: .hidden)
    var sloppy = false

    /// Set by the launcher for the daemon it starts: where to say that the drive is usable.
    @Option(help: .hidden)
    var readinessDescriptor: Int32?

    /// Set by the supervisor for the workers it starts: where it gives its orders.
    ///
    /// What is mounted comes from there too; all other words only show whose process it is.
    @Option(help: .hidden)
    var workerDescriptor: Int32?

    /// The words in the library's terms.
    var arguments: MountConfiguration.Arguments {
        var arguments = MountConfiguration.Arguments()
        arguments.source = containerURL
        arguments.mountpoint = mountpoint
        arguments.config = config
        arguments.optionLists = options
        arguments.isSloppy = sloppy
        for option in MountOption.allCases {
            arguments.flags += texts(of: option).map { (option, $0) }
        }
        return arguments
    }

    /// Exhaustive, so that an option of the table without a flag here does not compile.
    private func texts(of option: MountOption) -> [String] {
        switch option {
        case .stateDir: Self.list(stateDir)
        case .cacheSize: Self.list(cacheSize)
        case .freeFloor: Self.list(freeFloor)
        case .deviceName: Self.list(deviceName)
        case .logLevel: Self.list(logLevel)
        case .uploadLimit: Self.list(uploadLimit)
        case .downloadLimit: Self.list(downloadLimit)
        case .readOnly: readOnly ? ["true"] : []
        case .remoteIDs: remoteIDs ? ["true"] : []
        case .noPassthrough: noPassthrough ? ["true"] : []
        case .quietTime: Self.list(quietTime)
        case .readTimeout: Self.list(readTimeout)
        case .hydration: Self.list(hydration)
        case .hydrationDeny: hydrationDeny
        case .hydrationAllow: hydrationAllow
        case .hydrationError: Self.list(hydrationError)
        case .coordination: Self.list(coordination)
        case .claimTimeout: Self.list(claimTimeout)
        case .thumbnails: Self.list(thumbnails)
        case .thumbnailCache: Self.list(thumbnailCache)
        case .recents: Self.list(recents)
        case .progressiveLimit: Self.list(progressiveLimit)
        case .ignore: ignore
        case .package: packages
        case .endpoint: Self.list(endpoint)
        case .region: Self.list(region)
        case .profile: Self.list(profile)
        case .addressing: Self.list(addressing)
        case .caFile: Self.list(caFile)
        case .anonymous: anonymous ? ["true"] : []
        case .pollInterval: Self.list(pollInterval)
        case .idleAfter: Self.list(idleAfter)
        case .idlePollInterval: Self.list(idlePollInterval)
        case .scanInterval: Self.list(scanInterval)
        case .listingAge: Self.list(listingAge)
        case .simulateLatency: Self.list(simulateLatency)
        case .simulateBandwidth: Self.list(simulateBandwidth)
        case .simulateFailures: Self.list(simulateFailures)
        case .foreground: foreground ? ["true"] : []
        }
    }

    private static func list(_ text: String?) -> [String] { text.map { [$0] } ?? [] }
}

extension NameSpecification.Element {
    static func of(_ option: MountConfiguration.Option) -> Self { .customLong(option.rawValue) }
}

extension NameSpecification {
    static func of(_ option: MountConfiguration.Option) -> Self { [.of(option)] }
}

extension ArgumentHelp {
    static func of(_ option: MountConfiguration.Option) -> Self {
        switch option.form {
        case .flag: ArgumentHelp("\(option.help)")
        case .value(let name), .list(let name):
            ArgumentHelp("\(option.help)", valueName: name)
        }
    }
}

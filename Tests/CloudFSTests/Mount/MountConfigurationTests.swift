import Testing

@testable import CloudFS

@Suite struct MountConfigurationTests {
    typealias Option = MountConfiguration.Option

    /// One right and unusual value for every option, as text and as it stands in a drive file.
    static let samples: [Option: (text: String, file: String)] = [
        .stateDir: ("/var/tmp/state", "\"/var/tmp/state\""),
        .cacheSize: ("20GiB", "\"20GiB\""),
        .freeFloor: ("1073741824", "1073741824"),
        .deviceName: ("büro 2", "\"büro 2\""),
        .logLevel: ("trace", "\"trace\""),
        .uploadLimit: ("2MB/s", "\"2MB/s\""),
        .downloadLimit: ("3M", "\"3M\""),
        .readOnly: ("true", "true"),
        .remoteIDs: ("true", "true"),
        .noPassthrough: ("true", "true"),
        .quietTime: ("1.5s", "\"1.5s\""),
        .readTimeout: ("2m", "\"2m\""),
        .hydration: ("partial", "\"partial\""),
        .hydrationDeny: ("my-scan*", "[\"my-scan*\"]"),
        .hydrationAllow: ("restic", "[\"restic\"]"),
        .hydrationError: ("EAGAIN", "\"EAGAIN\""),
        .coordination: ("enforced", "\"enforced\""),
        .claimTimeout: ("5s", "\"5s\""),
        .thumbnails: ("fetched", "\"fetched\""),
        .thumbnailCache: ("/var/tmp/thumbnails", "\"/var/tmp/thumbnails\""),
        .recents: ("here", "\"here\""),
        .progressiveLimit: ("1G", "\"1G\""),
        .ignore: ("*.iso", "[\"*.iso\"]"),
        .package: ("bundle", "[\"bundle\"]"),
        .simulateLatency: ("20ms", "\"20ms\""),
        .simulateBandwidth: ("50MB", "\"50MB\""),
        .simulateFailures: ("0.25", "0.25"),
        .endpoint: ("https://s3.example.org:9000", "\"https://s3.example.org:9000\""),
        .region: ("eu-west-1", "\"eu-west-1\""),
        .profile: ("work", "\"work\""),
        .addressing: ("path", "\"path\""),
        .caFile: ("/etc/ca.pem", "\"/etc/ca.pem\""),
        .anonymous: ("true", "true"),
        .pollInterval: ("2s", "\"2s\""),
        .idleAfter: ("2m", "\"2m\""),
        .idlePollInterval: ("1m", "\"1m\""),
        .scanInterval: ("1h", "\"1h\""),
        .listingAge: ("5s", "\"5s\""),
        .foreground: ("true", "true"),
    ]

    private static func configuration(
        _ change: (inout MountConfiguration.Arguments) -> Void,
        host: MountConfiguration.Host = .test()
    ) throws -> MountConfiguration {
        var arguments = MountConfiguration.Arguments()
        arguments.source = "local:/srv/cloud"
        arguments.mountpoint = "/mnt/drive"
        change(&arguments)
        return try MountConfiguration(arguments, host: host)
    }

    @Test(arguments: Option.allCases)
    func `an option means the same as a flag, after -o and in a drive file`(
        option: Option
    ) throws {
        let scratch = try MountScratch()
        let sample = try #require(Self.samples[option], "\(option) has no sample")
        let path = try scratch.file("drive.toml", "\(option.rawValue) = \(sample.file)\n")

        let plain = try Self.configuration { _ in }
        let byFlag = try Self.configuration { $0.flags = [(option, sample.text)] }
        let byList = try Self.configuration {
            $0.optionLists = ["ro,\(option.rawValue)=\(sample.text),rw,nofail"]
            if option == .readOnly { $0.optionLists = ["read-only"] }
        }
        let byFile = try Self.configuration { $0.config = path }
        #expect(byFlag != plain)
        #expect(byFlag == byList)
        #expect(byFlag == byFile)
    }

    @Test(arguments: Option.allCases)
    func `what is written down is read back as the same configuration`(option: Option) throws {
        let scratch = try MountScratch()
        let sample = try #require(Self.samples[option], "\(option) has no sample")
        var configuration = try Self.configuration { $0.flags = [(option, sample.text)] }
        configuration.mountOptions = ["allow_other"]
        configuration.containers[0].name = "it's \"mine\""
        let path = try scratch.file("drive.toml", configuration.driveFile)
        var arguments = MountConfiguration.Arguments()
        arguments.config = path
        #expect(try MountConfiguration(arguments, host: .test()) == configuration)
    }

    @Test(
        arguments: [
            (.cacheSize, "20X"), (.freeFloor, "-1"), (.uploadLimit, "0"), (.downloadLimit, "fast"),
            (.readOnly, "maybe"), (.quietTime, "2"), (.quietTime, "25h"), (.readTimeout, "1ms"),
            (.hydration, "Full"), (.progressiveLimit, "none"), (.logLevel, "loud"),
            (.deviceName, "a/b"), (.deviceName, ""), (.deviceName, "a\nb"), (.ignore, "a/b"),
            (.ignore, ""), (.ignore, "!*.none"), (.simulateFailures, "2"),
            (.simulateFailures, "nan"),
            (.simulateBandwidth, "0"), (.simulateLatency, "-1s"), (.stateDir, ""),
        ] as [(Option, String)]
    )
    func `a wrong value gets a sentence with the option's name`(option: Option, text: String) {
        let message = sentence {
            _ = try Self.configuration { $0.flags = [(option, text)] }
        }
        #expect(message.hasPrefix("\(option.rawValue): "))
        #expect(!message.contains("\n") || text.contains("\n"))
    }

    @Test func `without options everything has its documented default`() throws {
        let configuration = try Self.configuration { _ in }
        #expect(configuration.containers == [.init(url: .local(path: "/srv/cloud"))])
        #expect(configuration.mountpoint == "/mnt/drive")
        #expect(configuration.deviceName == "laptop")
        #expect(configuration.cacheSize == nil && configuration.freeFloor == nil)
        #expect(configuration.quietTime == .seconds(2))
        #expect(configuration.readTimeout == .seconds(30))
        #expect(configuration.progressiveLimit == 268_435_456)
        #expect(configuration.hydration == .progressive)
        #expect("\(configuration.logLevel)" == "info")
        #expect(!configuration.simulatedLink.isNeeded)
        #expect(!configuration.mayStartOffline)
        #expect(!configuration.readOnly && !configuration.foreground)
    }

    @Test func `flags win over -o and -o over the drive file`() throws {
        let scratch = try MountScratch()
        let path = try scratch.file(
            "drive.toml",
            "cache-size = 1\nfree-floor = 1\nupload-limit = 1\nread-only = true\n"
        )
        let configuration = try Self.configuration {
            $0.config = path
            $0.optionLists = ["cache-size=2,free-floor=2", "rw"]
            $0.flags = [(.cacheSize, "3")]
        }
        #expect(configuration.cacheSize == 3)
        #expect(configuration.freeFloor == 2)
        #expect(configuration.uploadLimit == 1)
        #expect(!configuration.readOnly)
        let without = try Self.configuration {
            $0.config = path
            $0.flags = [(.uploadLimit, "none")]
        }
        #expect(without.uploadLimit == nil)
    }

    @Test func `ignore patterns add up, and an exclamation mark takes out`() throws {
        let added = try Self.configuration { $0.flags = [(.ignore, "*.iso"), (.ignore, "*.iso")] }
        #expect(added.ignore == MountConfiguration.defaultIgnore + ["*.iso"])
        let fewer = try Self.configuration { $0.flags = [(.ignore, "!.DS_Store")] }
        #expect(fewer.ignore == MountConfiguration.defaultIgnore.filter { $0 != ".DS_Store" })
        let none = try Self.configuration { $0.flags = [(.ignore, "!*"), (.ignore, "x")] }
        #expect(none.ignore == ["x"])
    }

    @Test func `a state directory with a catalog lets the drive start offline`() throws {
        let scratch = try MountScratch()
        let state = try scratch.folder("state")
        #expect(try !Self.configuration { $0.flags = [(.stateDir, state)] }.mayStartOffline)
        _ = try scratch.file("state/\(StateDirectory.catalogName)")
        #expect(try Self.configuration { $0.flags = [(.stateDir, state)] }.mayStartOffline)
    }

    @Test(arguments: [
        ("20ms", Duration.milliseconds(20)), ("2s", .seconds(2)), ("1.5s", .milliseconds(1500)),
        ("1m", .seconds(60)), ("2min", .seconds(120)), ("1h", .seconds(3600)), ("0", .zero),
        ("250us", .microseconds(250)),
    ])
    func `times are read with their unit`(text: String, duration: Duration) {
        #expect(MountConfiguration.Values.duration(text) == duration)
        let written = MountConfiguration.Values.format(duration)
        #expect(MountConfiguration.Values.duration(written) == duration)
    }

    @Test(arguments: ["", "2", "s", "-1s", "1.s", ".5s", "1..5s", "1d", "1 s", "99999999999h"])
    func `what is no time is refused`(text: String) {
        #expect(MountConfiguration.Values.duration(text) == nil)
    }
}

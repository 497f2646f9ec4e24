import Logging

extension MountConfiguration {
    /// The options of a mount: the one table behind long flags, `-o name=value` and drive files.
    ///
    /// All three hand their text to `apply`, so an option cannot mean different things in them.
    package enum Option: String, CaseIterable, Sendable {
        case stateDir = "state-dir"
        case cacheSize = "cache-size"
        case freeFloor = "free-floor"
        case deviceName = "device-name"
        case logLevel = "log-level"
        case uploadLimit = "upload-limit"
        case downloadLimit = "download-limit"
        case readOnly = "read-only"
        case remoteIDs = "remote-ids"
        case noPassthrough = "no-passthrough"
        case quietTime = "quiet-time"
        case readTimeout = "read-timeout"
        case hydration
        case hydrationDeny = "hydration-deny"
        case hydrationAllow = "hydration-allow"
        case hydrationError = "hydration-error"
        case coordination
        case claimTimeout = "claim-timeout"
        case thumbnails
        case thumbnailCache = "thumbnail-cache"
        case recents
        case progressiveLimit = "progressive-limit"
        case ignore
        case package
        case simulateLatency = "simulate-latency"
        case simulateBandwidth = "simulate-bandwidth"
        case simulateFailures = "simulate-failures"
        case endpoint
        case region
        case profile
        case addressing
        case caFile = "ca-file"
        case anonymous
        case pollInterval = "poll-interval"
        case idleAfter = "idle-after"
        case idlePollInterval = "idle-poll-interval"
        case scanInterval = "scan-interval"
        case listingAge = "listing-age"
        case foreground

        /// What comes after the name.
        package enum Form: Equatable, Sendable {
            /// Nothing; in a drive file `true` or `false`.
            case flag
            /// One value, called so in the help.
            case value(String)
            /// A value that may be given several times; in a drive file an array.
            case list(String)
        }

        package var form: Form {
            switch self {
            case .readOnly, .remoteIDs, .noPassthrough, .foreground, .anonymous: .flag
            case .ignore, .hydrationDeny, .hydrationAllow: .list("pattern")
            case .package: .list("extension")
            case .stateDir, .caFile: .value("path")
            case .thumbnailCache: .value("folder")
            case .cacheSize, .freeFloor, .progressiveLimit: .value("bytes")
            case .uploadLimit, .downloadLimit, .simulateBandwidth: .value("bytes/s")
            case .quietTime, .readTimeout, .claimTimeout, .simulateLatency, .pollInterval,
                .idleAfter, .idlePollInterval, .scanInterval, .listingAge:
                .value("time")
            case .simulateFailures: .value("share")
            case .deviceName, .region, .profile: .value("name")
            case .endpoint: .value("url")
            case .addressing: .value("style")
            case .logLevel: .value("level")
            case .hydration, .coordination, .thumbnails, .recents: .value("policy")
            case .hydrationError: .value("errno")
            }
        }

        /// One or two sentences for `--help`; the default at the end.
        package var help: String {
            switch self {
            case .stateDir:
                "Where the drive keeps its catalog, content and log. "
                    + "Default: derived from container URL and mountpoint."
            case .cacheSize:
                "Bytes of content kept on this machine, such as 20GiB. "
                    + "Default: half of what is free at the first mount."
            case .freeFloor:
                "Bytes of the disk that stay free. Default: the larger of 2GiB and 5 % of the disk."
            case .deviceName: "Names this device in conflicted copies. Default: the host name."
            case .logLevel: "trace, debug, info, notice, warning, error or critical. Default: info."
            case .uploadLimit: "Most bytes per second sent, such as 2MB. Default: none."
            case .downloadLimit: "Most bytes per second fetched. Default: none."
            case .readOnly: "Refuse every change; the same as -o ro."
            case .remoteIDs:
                "Show owners as the cloud has them, not as the user who mounted the drive."
            case .noPassthrough:
                "Read and write local files through the daemon, also where the kernel can itself."
            case .quietTime:
                "How long a file stays unchanged before it is uploaded. Default: 2s."
            case .readTimeout: "How long a read waits without progress. Default: 30s."
            case .hydration:
                "What an open brings here: progressive (what is read, then the rest), "
                    + "partial (what is read) or full (open waits for all). Default: progressive."
            case .hydrationDeny:
                "Programs like this get only what is here, as thumbnailers, indexers and backups "
                    + "do anyway. Repeatable."
            case .hydrationAllow:
                "Programs like this get what they read all the same; * for all. Repeatable."
            case .hydrationError:
                "What such a program meets: EREMOTE, EACCES, EAGAIN or ENETUNREACH. "
                    + "Default: EREMOTE."
            case .coordination:
                "Who waits for programs that claim a file: advisory (those that write) or "
                    + "enforced (those that read, too). Default: advisory."
            case .claimTimeout: "How long an open waits for such a program. Default: 30s."
            case .thumbnails:
                "full (made here and shared with other devices), fetched (only theirs) or off. "
                    + "Default: full."
            case .thumbnailCache:
                "The desktop's folder of thumbnails that is filled, or none. "
                    + "Default: that of the user who mounts; none for root."
            case .recents:
                "Whether devices tell each other what people open: shared or here (no). "
                    + "Default: shared."
            case .progressiveLimit:
                "Larger files are not completed in the background. Default: 256MiB."
            case .ignore:
                "Names like this stay on this machine; adds to the list in docs/configuration.md. "
                    + "!pattern takes one out, !* all. Repeatable."
            case .package:
                "Folders with this extension, such as bundle, are one document each: sent, "
                    + "replaced and kept as one. Repeatable."
            case .simulateLatency: "For demonstrations: delays every request, such as 20ms."
            case .simulateBandwidth: "For demonstrations: limits each transfer, such as 50MB."
            case .simulateFailures: "For demonstrations: share of requests that fail, such as 5%."
            case .endpoint:
                "Where buckets are served, such as https://s3.example.org. "
                    + "Default: AWS_ENDPOINT_URL, the profile's, or AWS."
            case .region:
                "Region of the bucket. Default: AWS_REGION, the profile's, or us-east-1."
            case .profile:
                "Profile of the AWS configuration files. Default: AWS_PROFILE, or default."
            case .addressing:
                "Where the bucket's name goes: path or virtual-host. "
                    + "Default: virtual-host at AWS, path elsewhere."
            case .caFile: "Certificates to trust, in PEM. Default: AWS_CA_BUNDLE, or the system's."
            case .anonymous: "Ask a bucket without credentials."
            case .pollInterval:
                "How often other devices' changes are looked for while the drive is used. "
                    + "Default: 1s."
            case .idleAfter:
                "After which time without use or news a drive counts as idle. Default: 5m."
            case .idlePollInterval:
                "How often other devices' changes are looked for while the drive is idle. "
                    + "Default: 30s."
            case .scanInterval:
                "How often a bucket is compared as a whole, for what other tools did. "
                    + "Default: 15m."
            case .listingAge:
                "A folder that is opened is compared again if its last listing is older. "
                    + "Default: 30s."
            case .foreground: "Stay in the foreground and log to standard error."
            }
        }

        /// A sentence for a name that is no option, with the nearest one that is.
        static func unknown(_ name: String, _ what: String, among more: [String]) -> CloudFSError {
            let known = allCases.map(\.rawValue) + more
            let hint = Values.nearest(to: name, among: known).map { "; did you mean \($0)?" }
            return CloudFSError(
                .invalidArgument,
                "\(what) \"\(name)\" is unknown"
                    + (hint ?? "; docs/configuration.md and --help list all")
            )
        }
    }
}

extension MountConfiguration.Option {
    /// Sets in `configuration` what `text` says.
    ///
    /// - Parameters:
    ///   - text: The value as written; empty for a flag without one.
    ///   - configuration: What is changed.
    ///   - base: The absolute path that relative ones start from.
    ///   - home: What `~` stands for.
    /// - Throws: `invalidArgument` with a sentence that names the option and shows a right value.
    func apply(
        _ text: String,
        to configuration: inout MountConfiguration,
        base: String,
        home: String?
    ) throws(CloudFSError) {
        switch self {
        case .stateDir:
            guard !text.isEmpty else { throw wrong(text, "the path of a folder") }
            configuration.stateDirectory = MountConfiguration.Paths.absolute(
                text,
                base: base,
                home: home
            )
        case .cacheSize: configuration.cacheSize = try optional(text, "20GiB", ByteCount.parse)
        case .freeFloor: configuration.freeFloor = try optional(text, "2GiB", ByteCount.parse)
        case .progressiveLimit:
            configuration.progressiveLimit = try value(text, "256MiB", ByteCount.parse)
        case .uploadLimit: configuration.uploadLimit = try optional(text, "2MB", Self.rate)
        case .downloadLimit: configuration.downloadLimit = try optional(text, "2MB", Self.rate)
        case .simulateBandwidth:
            configuration.simulatedLink.bandwidth = try optional(text, "50MB", Self.rate)
        case .simulateLatency:
            configuration.simulatedLink.latency = try duration(text, "20ms", .zero)
        case .simulateFailures:
            configuration.simulatedLink.failures = try value(
                text,
                "0.05 or 5%",
                MountConfiguration.Values.fraction
            )
        case .quietTime: configuration.quietTime = try duration(text, "2s", .zero)
        case .readTimeout:
            configuration.readTimeout = try duration(text, "30s", .milliseconds(10))
        case .endpoint: configuration.s3.endpoint = try value(text, "a URL", Self.text)
        case .region: configuration.s3.region = try value(text, "a region", Self.text)
        case .profile: configuration.s3.profile = try value(text, "a profile", Self.text)
        case .addressing:
            configuration.s3.addressing = try value(text, "path or virtual-host") {
                MountConfiguration.S3.Addressing(rawValue: $0)
            }
        case .caFile:
            guard !text.isEmpty else { throw wrong(text, "the path of a file") }
            configuration.s3.caFile = MountConfiguration.Paths.absolute(
                text,
                base: base,
                home: home
            )
        case .anonymous: configuration.s3.isAnonymous = try boolean(text)
        case .pollInterval:
            configuration.s3.pollInterval = try duration(text, "1s", .milliseconds(50))
        case .idleAfter:
            configuration.s3.idleAfter = try duration(text, "5m", .seconds(1))
        case .idlePollInterval:
            configuration.s3.idlePollInterval = try duration(text, "30s", .milliseconds(50))
        case .scanInterval:
            configuration.s3.scanInterval = try duration(text, "15m", .seconds(1))
        case .listingAge:
            configuration.s3.listingAge = try duration(text, "30s", .milliseconds(50))
        case .readOnly: configuration.readOnly = try boolean(text)
        case .remoteIDs: configuration.remoteIDs = try boolean(text)
        case .noPassthrough: configuration.passthrough = try !boolean(text)
        case .foreground: configuration.foreground = try boolean(text)
        case .deviceName: configuration.deviceName = try value(text, "laptop", Self.name)
        case .logLevel:
            let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            configuration.logLevel = try value(text, levels) { Logger.Level(rawValue: $0) }
        case .hydration:
            configuration.hydration = try value(text, "progressive, partial or full") {
                MountConfiguration.Hydration(rawValue: $0)
            }
        case .hydrationDeny:
            configuration.hydrationDeny.append(try value(text, "restic", Self.program))
        case .hydrationAllow:
            configuration.hydrationAllow.append(try value(text, "restic", Self.program))
        case .hydrationError:
            let names = MountConfiguration.HydrationError.allCases.map(\.rawValue)
            configuration.hydrationError = try value(text, names.joined(separator: ", ")) {
                MountConfiguration.HydrationError(rawValue: $0)
            }
        case .coordination:
            configuration.coordination = try value(text, "advisory or enforced") {
                MountConfiguration.Coordination(rawValue: $0)
            }
        case .claimTimeout:
            configuration.claimTimeout = try duration(text, "30s", .milliseconds(10))
        case .thumbnails:
            configuration.thumbnails = try value(text, "full, fetched or off") {
                MountConfiguration.Thumbnails(rawValue: $0)
            }
        case .thumbnailCache:
            guard !text.isEmpty else { throw wrong(text, "the path of a folder, or none") }
            let path = MountConfiguration.Paths.absolute(text, base: base, home: home)
            configuration.thumbnailCache = text == "none" ? .none : .folder(path)
        case .recents:
            configuration.recents = try value(text, "shared or here") {
                MountConfiguration.Recents(rawValue: $0)
            }
        case .ignore: try ignore(text, in: &configuration)
        case .package: configuration.packages.append(try value(text, "bundle", Self.package))
        }
    }

    private func ignore(
        _ text: String,
        in configuration: inout MountConfiguration
    ) throws(CloudFSError) {
        guard !text.isEmpty, text != "!", !text.contains("/") else {
            throw wrong(text, "a pattern for one name, such as *.iso")
        }
        guard text.hasPrefix("!") else {
            if !configuration.ignore.contains(text) { configuration.ignore.append(text) }
            return
        }
        let pattern = String(text.dropFirst())
        guard pattern != "*" else {
            configuration.ignore = []
            return
        }
        guard configuration.ignore.contains(pattern) else {
            throw CloudFSError(
                .invalidArgument,
                "ignore: there is no pattern \"\(pattern)\" to take out; "
                    + "the list has \(configuration.ignore.joined(separator: " "))"
            )
        }
        configuration.ignore.removeAll { $0 == pattern }
    }

    /// An extension, with its dot or without.
    private static func package(_ text: String) -> String? {
        let name = text.hasPrefix(".") ? String(text.dropFirst()) : text
        return DeclaredType.isName(name, withSlash: false) ? name.lowercased() : nil
    }

    // MARK: - Values

    private func wrong(_ text: String, _ example: String) -> CloudFSError {
        CloudFSError(.invalidArgument, "\(rawValue): \"\(text)\" is not valid; write \(example)")
    }

    private func value<Value>(
        _ text: String,
        _ example: String,
        _ read: (String) -> Value?
    ) throws(CloudFSError) -> Value {
        guard let value = read(text) else { throw wrong(text, example) }
        return value
    }

    /// `none` takes back what a drive file says.
    private func optional(
        _ text: String,
        _ example: String,
        _ read: (String) -> Int64?
    ) throws(CloudFSError) -> Int64? {
        text == "none" ? nil : try value(text, "a number such as \(example), or none", read)
    }

    private func duration(
        _ text: String,
        _ example: String,
        _ minimum: Duration
    ) throws(CloudFSError) -> Duration {
        let duration = try value(
            text,
            "a time with its unit, such as \(example)",
            MountConfiguration.Values.duration
        )
        guard duration >= minimum, duration <= .seconds(86_400) else {
            let least = MountConfiguration.Values.format(minimum)
            throw wrong(text, "a time from \(least) to 24h")
        }
        return duration
    }

    private func boolean(_ text: String) throws(CloudFSError) -> Bool {
        try value(text, "true or false", MountConfiguration.Values.boolean)
    }

    /// A rate of 0 would stop everything without a word.
    private static func rate(_ text: String) -> Int64? {
        ByteCount.parseRate(text).flatMap { $0 > 0 ? $0 : nil }
    }

    /// Anything but nothing; an empty text takes back what a drive file says.
    private static func text(_ text: String) -> String?? {
        .some(text.isEmpty ? nil : text)
    }

    /// A pattern for the file name of a program, or the name of a service.
    private static func program(_ text: String) -> String? {
        (1...255).contains(text.utf8.count) && !text.contains("/") && !text.utf8.contains(0)
            ? text : nil
    }

    /// A device name becomes part of file names and must leave room for the rest of them.
    private static func name(_ text: String) -> String? {
        let isPrintable = text.unicodeScalars.allSatisfy { scalar in
            scalar.value >= 0x20 && scalar.value != 0x7f && scalar != "/"
        }
        return isPrintable && (1...64).contains(text.utf8.count) ? text : nil
    }
}

import Logging
import TOMLKit

extension DriveFile {
    /// A drive file that says in full what `configuration` says.
    static func text(of configuration: MountConfiguration) -> String {
        let table = TOMLTable()
        table["mountpoint"] = configuration.mountpoint
        table["options"] = TOMLArray(configuration.mountOptions)
        for option in MountConfiguration.Option.allCases {
            let texts = option.texts(of: configuration)
            switch option.form {
            case .flag: table[option.rawValue] = texts == ["true"]
            case .value:
                // What has no value is left to the default.
                if let text = texts.first, !text.isEmpty { table[option.rawValue] = text }
            case .list:
                // Where there is a built-in list, it is part of what is written down.
                let start = option == .ignore ? ["!*"] : []
                table[option.rawValue] = TOMLArray(start + texts)
            }
        }
        let containers = TOMLArray()
        for container in configuration.containers {
            let entry = TOMLTable()
            entry["url"] = container.url.description
            if let name = container.name { entry["name"] = name }
            containers.append(entry)
        }
        table["container"] = containers
        if !configuration.types.isEmpty { table["type"] = tables(configuration.types) }
        return table.convert(to: .toml, options: [.allowLiteralStrings]) + "\n"
    }
}

extension MountConfiguration {
    /// The configuration as a drive file that asks for exactly the same.
    package var driveFile: String { DriveFile.text(of: self) }
}

extension MountConfiguration.Option {
    /// What `apply` would have to read to arrive at `configuration`; one text unless it is a list.
    func texts(of configuration: MountConfiguration) -> [String] {
        let link = configuration.simulatedLink
        return switch self {
        case .stateDir: [configuration.stateDirectory]
        case .cacheSize: [Self.text(configuration.cacheSize)]
        case .freeFloor: [Self.text(configuration.freeFloor)]
        case .deviceName: [configuration.deviceName]
        case .logLevel: [configuration.logLevel.rawValue]
        case .uploadLimit: [Self.text(configuration.uploadLimit)]
        case .downloadLimit: [Self.text(configuration.downloadLimit)]
        case .readOnly: [String(configuration.readOnly)]
        case .remoteIDs: [String(configuration.remoteIDs)]
        case .noPassthrough: [String(!configuration.passthrough)]
        case .quietTime: [MountConfiguration.Values.format(configuration.quietTime)]
        case .readTimeout: [MountConfiguration.Values.format(configuration.readTimeout)]
        case .hydration: [configuration.hydration.rawValue]
        case .hydrationDeny: configuration.hydrationDeny
        case .hydrationAllow: configuration.hydrationAllow
        case .hydrationError: [configuration.hydrationError.rawValue]
        case .coordination: [configuration.coordination.rawValue]
        case .claimTimeout: [MountConfiguration.Values.format(configuration.claimTimeout)]
        case .thumbnails: [configuration.thumbnails.rawValue]
        case .thumbnailCache:
            switch configuration.thumbnailCache {
            case .ofUser: []
            case .folder(let path): [path]
            case .none: ["none"]
            }
        case .recents: [configuration.recents.rawValue]
        case .progressiveLimit: [ByteCount.format(configuration.progressiveLimit)]
        case .ignore: configuration.ignore
        case .package: configuration.packages
        case .simulateLatency: [MountConfiguration.Values.format(link.latency)]
        case .simulateBandwidth: [Self.text(link.bandwidth)]
        case .simulateFailures: [String(link.failures)]
        case .endpoint: [configuration.s3.endpoint ?? ""]
        case .region: [configuration.s3.region ?? ""]
        case .profile: [configuration.s3.profile ?? ""]
        case .addressing: configuration.s3.addressing.map { [$0.rawValue] } ?? []
        case .caFile: configuration.s3.caFile.map { [$0] } ?? []
        case .anonymous: [String(configuration.s3.isAnonymous)]
        case .pollInterval: [MountConfiguration.Values.format(configuration.s3.pollInterval)]
        case .idleAfter: [MountConfiguration.Values.format(configuration.s3.idleAfter)]
        case .idlePollInterval:
            [MountConfiguration.Values.format(configuration.s3.idlePollInterval)]
        case .scanInterval: [MountConfiguration.Values.format(configuration.s3.scanInterval)]
        case .listingAge: [MountConfiguration.Values.format(configuration.s3.listingAge)]
        case .foreground: [String(configuration.foreground)]
        }
    }

    private static func text(_ byteCount: Int64?) -> String {
        byteCount.map(ByteCount.format) ?? "none"
    }
}

import Glibc
import Logging

extension MountConfiguration {
    /// Which programs are refused downloads.
    var programRules: ProgramRules {
        let refusal: ProgramRules.Refusal =
            switch hydrationError {
            case .remote: .remote
            case .denied: .denied
            case .again: .again
            case .offline: .offline
            }
        return ProgramRules(denied: hydrationDeny, allowed: hydrationAllow, refusal: refusal)
    }
}

/// The pieces of a drive that need a decision when they are made.
extension DriveParts {
    /// What claims ask about places: the folders around an item, and the package that it is in.
    static func places(of files: OpenFiles, _ promised: PromisedNames) -> Coordinator.Places {
        let catalog = files.catalog
        return Coordinator.Places { id throws(CloudFSError) in
            let place = promised.place(id)
            return try catalog.readFew { reader in
                guard let place else { return try reader.folders(around: id) }
                return try reader.folders(around: place.parent).union([place.parent])
            }
        } unit: { id throws(CloudFSError) in
            // What is open knows it.
            if let package = files.live(id)?.knownPackage { return package ?? id }
            let place = promised.place(id)
            return try catalog.readFew { reader in
                guard let place else { return try reader.package(of: id) ?? id }
                return try reader.item(place.parent)?.item.enclosingPackage ?? id
            }
        }
    }

    /// What was held back is looked at again where other names are ignored than at the last start.
    static func noteIgnored(_ patterns: [String], in catalog: Catalog) throws(CloudFSError) {
        let text = patterns.joined(separator: "\n")
        guard try catalog.read({ try $0.setting("ignored") }) != text else { return }
        try catalog.write { writer in
            try writer.lookAgainAtHeld()
            try writer.setSetting("ignored", to: text)
        }
    }

    /// Owners that were shown as the cloud has them are forgotten where that is no longer wanted:
    /// else a file that nobody but its owner may read could not be read by who mounts.
    static func noteOwners(areShown: Bool, in catalog: Catalog) throws(CloudFSError) {
        let text = areShown ? "cloud" : "mounter"
        let known = try catalog.read { try $0.setting("owners") }
        guard known != text else { return }
        try catalog.write { writer in
            if known != nil, !areShown { try writer.hideOwnersOfCloud() }
            try writer.setSetting("owners", to: text)
        }
    }

    /// The container's row, made with the root folder at the first mount.
    ///
    /// - Throws: `invalidArgument` if the state directory belongs to another container.
    static func container(
        _ url: String,
        in catalog: Catalog,
        at now: Timestamp
    ) throws(CloudFSError) -> ContainerRecord {
        try catalog.write { writer in
            if let known = try writer.reader.containers().first {
                guard known.url == url else {
                    throw CloudFSError(
                        .invalidArgument,
                        "the state directory belongs to \(known.url); name another --state-dir"
                    )
                }
                return known
            }
            let metadata = ItemMetadata(
                permissions: 0o755,
                userID: geteuid(),
                groupID: getegid(),
                modified: now
            )
            let root = try writer.insertItem(
                NewItem(container: ContainerID(1), kind: .folder, metadata: metadata),
                at: now
            )
            precondition(root == .root, "the root is the first item of a catalog")
            try writer.setBase(
                BaseRecord(
                    item: root,
                    parent: nil,
                    name: [],
                    remoteID: RemoteID("root"),
                    version: ItemVersion(content: "", metadata: ""),
                    size: 0,
                    modified: now
                )
            )
            let id = try writer.addContainer(url: url, root: root)
            return ContainerRecord(id: id, url: url, root: root, identity: nil, hasItems: false)
        }
    }

    /// A number that no other device has, and that this one keeps.
    static func deviceNumber(in catalog: Catalog) throws(CloudFSError) -> UInt64 {
        try catalog.write { writer in
            if let kept = try writer.reader.setting("device").flatMap({ UInt64($0) }) {
                return kept
            }
            let number = UInt64.random(in: 1 ... .max)
            try writer.setSetting("device", to: String(number))
            return number
        }
    }

    static func hydration(
        _ configuration: MountConfiguration,
        _ limits: Evictor.Limits
    ) -> HydrationSettings {
        let policy: HydrationPlan.Policy =
            switch configuration.hydration {
            case .progressive: .progressive(limit: configuration.progressiveLimit)
            case .partial: .partial
            case .full: .full
            }
        var settings = HydrationPlan.Settings()
        settings.stallTimeout = configuration.readTimeout
        // One connection of a cloud is slow; many together fill the link (docs/benchmarks).
        settings.maximumParallelRequests = 24
        settings.shortestRequest = 1 << 20
        settings.largestWindow = 128 << 20
        return HydrationSettings(
            policy: policy,
            settings: settings,
            keptFree: limits.freeFloor
        )
    }

    static func provider(
        _ configuration: MountConfiguration,
        _ url: ContainerURL,
        _ catalog: Catalog,
        _ logger: Logger
    ) throws(CloudFSError) -> any CloudProvider {
        var provider: any CloudProvider
        switch url {
        case .s3(let bucket, let prefix):
            provider = try s3Provider(
                configuration,
                bucket: bucket,
                prefix: prefix,
                deviceID: try deviceID(in: catalog),
                logger: logger
            )
        case .local(let path):
            // A pool of its own: a slow cloud must not keep the engine's own work waiting.
            provider = EmbeddedProvider(
                root: path,
                deviceName: configuration.deviceName,
                pool: BlockingPool(name: "cloudfs-cloud", width: 8)
            )
        }
        let link = configuration.simulatedLink
        if link.isNeeded {
            provider = SimulatedLink(
                provider,
                conditions: LinkConditions(
                    latency: link.latency,
                    bytesPerSecond: link.bandwidth,
                    failureRate: link.failures
                ),
                seed: UInt64.random(in: .min ... .max)
            )
        }
        if configuration.uploadLimit != nil || configuration.downloadLimit != nil {
            provider = LimitedProvider(
                provider,
                upload: configuration.uploadLimit.map { BandwidthLimiter(bytesPerSecond: $0) },
                download: configuration.downloadLimit.map { BandwidthLimiter(bytesPerSecond: $0) }
            )
        }
        return provider
    }

    /// The bounds of local content; the first mount decides and writes down what was not given.
    static func limits(
        _ configuration: MountConfiguration,
        _ catalog: Catalog,
        _ store: ContentStore
    ) throws(CloudFSError) -> Evictor.Limits {
        let space = try store.space()
        let remembered = try catalog.read { try $0.setting("cache-size") }.flatMap { Int64($0) }
        let cacheSize = configuration.cacheSize ?? remembered ?? space.available / 2
        if remembered == nil {
            try catalog.write { try $0.setSetting("cache-size", to: String(space.available / 2)) }
        }
        return Evictor.Limits(
            cacheSize: cacheSize,
            freeFloor: configuration.freeFloor ?? max(2 << 30, space.total / 20)
        )
    }

    /// Goes on with a pause of the last mount.
    static func restorePause(
        of filesystem: Filesystem,
        from catalog: Catalog
    ) throws(CloudFSError) {
        guard let text = try catalog.read({ try $0.setting("paused") }) else { return }
        // Earlier versions noted that there is a pause, and not since when.
        let moment = Int64(text).flatMap { $0 > 1 ? Timestamp(nanoseconds: $0) : nil }
        filesystem.setPaused(since: moment ?? filesystem.clocks.now())
    }
}

// MARK: - Thumbnails

extension DriveParts {
    /// Who fills the desktop's cache; `nil` where there is none to fill.
    static func desktop(
        _ configuration: MountConfiguration,
        _ thumbnails: Thumbnails,
        _ watchers: WatcherNews
    ) -> DesktopThumbnails? {
        guard configuration.thumbnails != .off,
            case .folder(let root) = configuration.thumbnailCache
        else { return nil }
        return DesktopThumbnails(
            thumbnails,
            cache: DesktopCache(root: root),
            staging: configuration.stateDirectory + "/thumbnails.staging",
            announce: { watchers.notice($0.map { .attributes($0) }) },
            places: {
                let roots = MountTable.places(of: configuration.mountpoint)
                return DesktopThumbnails.Places(
                    roots: roots,
                    covered: MountTable.mountpoints(below: roots)
                )
            }
        )
    }
}

extension MountConfiguration.Thumbnails {
    var use: Thumbnails.Use {
        switch self {
        case .full: .full
        case .fetched: .fetched
        case .off: .off
        }
    }
}

extension DesktopThumbnails {
    /// What of the news matters to folders that somebody looks at.
    func notice(_ changes: [ItemChange]) {
        for change in changes {
            switch change {
            case .attributes(let id), .state(let id), .content(let id): noticeChanged(id)
            case .entryAppeared(let parent, _), .entryReplaced(let parent, _):
                noticeAppeared(in: parent)
            case .entryVanished(let parent, let name, let item, _, _):
                noticeVanished(name, from: parent, item: item)
            case .listed: continue
            }
        }
    }
}

extension ItemChange {
    /// The item whose content may be here now, or another.
    var changedItem: ItemID? {
        switch self {
        case .attributes(let id), .state(let id), .content(let id): id
        case .entryAppeared, .entryVanished, .entryReplaced, .listed: nil
        }
    }
}

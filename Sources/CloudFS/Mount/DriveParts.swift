import Glibc
import Logging
import ServiceLifecycle

/// Everything a drive is made of, put together.
final class DriveParts: Sendable {
    let containerURL: String
    let hub: ChangeHub
    let filesystem: Filesystem
    let control: DriveControl
    /// Turns at documents that other devices may want too.
    let leases: LeaseKeeper
    /// Events for programs that watch.
    private let watchers: WatcherNews
    private let catalog: Catalog
    private let files: OpenFiles
    private let pool: BlockingPool
    private let feed: ChangeFeed
    private let uploader: Uploader
    private let container: ContainerRecord
    private let logger: Logger

    /// Threads for what blocks: file copies, hashing, SQL.
    private static let blockingThreads = 8

    /// What a drive gets from outside: clocks, threads, a disk, and the cloud.
    struct Surroundings: Sendable {
        var clocks = Clocks.system
        var space: DiskSpace.Measure = DiskSpace.ofDisk
        var pool = BlockingPool(name: "cloudfs-disk", width: blockingThreads)
        /// `nil` for the one that the configuration names.
        var provider: (any CloudProvider)?
        /// `nil` for the types that the desktop has now, and those of the configuration.
        var contentTypes: ContentTypes?
    }

    /// Opens the state directory, recovers from whatever happened before, and builds the engine.
    init(
        _ configuration: MountConfiguration,
        in surroundings: Surroundings = Surroundings(),
        kept: KeptState,
        keeper: any DriveKeeper,
        logger: Logger,
        unmount: @escaping @Sendable (_ sending: Duration?) -> Void
    ) throws(CloudFSError) {
        guard let first = configuration.containers.first else {
            throw CloudFSError(.invalidArgument, "a drive needs a container")
        }
        let (clocks, pool) = (surroundings.clocks, surroundings.pool)
        let catalog = try Catalog(path: configuration.stateDirectory + "/catalog.sqlite")
        let (state, space) = (configuration.stateDirectory, surroundings.space)
        let store = try ContentStore(root: state, space: space)
        let limits = try Self.limits(configuration, catalog, store)
        let url = first.url.description
        let container = try Self.container(url, in: catalog, at: clocks.now())
        let files = OpenFiles(
            catalog: catalog,
            store: store,
            clocks: clocks,
            hydration: Self.hydration(configuration, limits),
            quietTime: configuration.quietTime,
            passthrough: Passthrough(isWanted: configuration.passthrough)
        )
        let handles = HandleTable(records: kept.handles, worker: kept.connection.worker)
        if let device = kept.connection.device {
            files.passthrough.adopt(
                handles.keptBackings,
                left: handles.leftBackings,
                device: device
            )
        }
        try Recovery(files: files, inUse: handles.keptItems, logger: logger).run()

        let plain =
            if let given = surroundings.provider {
                given
            } else {
                try Self.provider(configuration, first.url, catalog, logger)
            }
        let whole = AttributeSidecars(plain, logger: logger)
        let provider: any CloudProvider = configuration.remoteIDs ? whole : HiddenOwners(whole)
        let hub = ChangeHub()
        let connection = Connection(clocks: clocks)
        let news = Newsroom()
        let mutations = RemoteMutations()
        let promisedNames = PromisedNames()
        let coordinator = Coordinator(
            places: Self.places(of: files, promisedNames)
        ) { news.letGo() }
        let evictor = Evictor(
            files: files,
            hub: hub,
            coordinator: coordinator,
            limits: limits,
            logger: logger
        )
        let programs = ReadingPrograms(
            rules: configuration.programRules,
            elapsed: clocks.elapsed
        )
        let hydrator = Hydrator(
            files: files,
            provider: provider,
            pool: pool,
            hub: hub,
            mutations: mutations,
            evictor: evictor,
            programs: programs,
            connection: connection,
            logger: logger
        ) { id, told in await news.fetched(id, told) }
        let contentTypes =
            surroundings.contentTypes
            ?? ContentTypes(
                .installed(),
                declaring: configuration.types + configuration.packages.map(DeclaredType.package)
            )
        let packages = Packages(
            files: files,
            hydrator: hydrator,
            hub: hub,
            coordinator: coordinator,
            pool: pool,
            isPackageName: { contentTypes.isPackage($0) },
            logger: logger
        )
        let applier = RemoteApplier(
            files: files,
            provider: provider,
            pool: pool,
            hub: hub,
            mutations: mutations,
            hydrator: hydrator,
            packages: packages,
            coordinator: coordinator,
            deviceName: configuration.deviceName,
            logger: logger
        )
        let downloader = Downloader(
            hydrator: hydrator,
            connection: connection,
            pool: pool,
            logger: logger
        )
        let feed = ChangeFeed(
            applier: applier,
            connection: connection,
            container: container,
            listingAge: configuration.s3.listingAge,
            logger: logger
        ) { news.connected() }
        try Self.noteIgnored(configuration.ignore, in: catalog)
        try Self.noteOwners(areShown: configuration.remoteIDs, in: catalog)
        let patterns = IgnorePatterns(configuration.ignore)
        let isIgnored: @Sendable (ItemName, Bool) -> Bool = {
            patterns.ignores([$0], isFolder: $1)
        }
        let uploader = Uploader(
            applier: applier,
            feed: feed,
            connection: connection,
            coordinator: coordinator,
            isIgnored: isIgnored,
            logger: logger
        )
        let thumbnails = Thumbnails(
            Thumbnails.Surroundings(
                catalog: catalog,
                content: store,
                provider: provider,
                pool: pool,
                clocks: clocks,
                type: { contentTypes.type(of: .file, name: $0) },
                isOnline: { connection.isOnline },
                changed: { news.pictured($0) },
                fetched: { hydrator.noteFetched(bytes: $0) },
                logger: logger
            ),
            use: configuration.thumbnails.use,
            mayWrite: !configuration.readOnly,
            stateDirectory: configuration.stateDirectory
        )
        let announced = Self.announcedCalls(hasTakenOver: kept.connection.device != nil, clocks)
        let watchers = Self.watcherNews(
            configuration,
            catalog: catalog,
            hub: hub,
            calls: announced,
            pool: pool,
            logger: logger
        )
        let desktop = Self.desktop(configuration, thumbnails, watchers)
        let virtual = VirtualFolders(elapsed: clocks.elapsed)
        let recents = provider.sidecars.flatMap { sidecars in
            configuration.recents == .here
                ? nil
                : RecentUses(
                    files: files,
                    sidecars: sidecars,
                    pool: pool,
                    mayWrite: !configuration.readOnly,
                    isOnline: { connection.isOnline },
                    logger: logger
                ) { virtual.noteUse() }
        }
        let filesystem = Filesystem(
            files: files,
            hydrator: hydrator,
            feed: feed,
            uploader: uploader,
            evictor: evictor,
            downloader: downloader,
            siblings: SiblingFetcher(hydrator: hydrator, pool: pool, logger: logger),
            programs: programs,
            coordinator: coordinator,
            promisedNames: promisedNames,
            locks: LockCoordinator(region: kept.locks),
            handles: handles,
            announced: announced,
            hub: hub,
            connection: connection,
            contentTypes: contentTypes,
            thumbnails: thumbnails,
            desktop: desktop,
            virtual: virtual,
            recents: recents,
            options: Filesystem.Options(
                isReadOnly: configuration.readOnly,
                isCoordinationEnforced: configuration.coordination == .enforced,
                claimTimeout: configuration.claimTimeout,
                isIgnored: isIgnored,
                containerName: first.name ?? first.url.shortName
            ),
            logger: logger
        )
        news.deliver(to: feed, uploader, downloader, thumbnails, desktop, recents)
        try Self.restorePause(of: filesystem, from: catalog)
        try uploader.takeUpUnheard()
        try filesystem.adoptHandles()
        try filesystem.adoptLocks()
        self.watchers = watchers
        hub.subscribe { changes in
            watchers.notice(changes)
            files.caches.noteChanged(changes)
            for case .entryVanished(_, _, let item, _, _) in changes { coordinator.noteMoved(item) }
            let changed = changes.compactMap(\.changedItem)
            evictor.noticeUse(of: changed)
            // What programs change is looked at when it was sent.
            thumbnails.notice(changed)
        }
        hub.subscribeToAll { changes, _ in desktop?.notice(changes) }
        self.catalog = catalog
        self.files = files
        self.pool = pool
        self.feed = feed
        self.uploader = uploader
        self.container = container
        self.logger = logger
        self.hub = hub
        leases = LeaseKeeper(
            leases: { provider.leases },
            device: configuration.deviceName,
            instance: try Self.deviceNumber(in: catalog),
            logger: logger
        )
        self.filesystem = filesystem
        containerURL = url
        control = DriveControl(
            filesystem: filesystem,
            leases: leases,
            pool: pool,
            identity: DriveControl.Identity(
                mountpoint: configuration.mountpoint,
                containerURL: url,
                deviceName: configuration.deviceName,
                stateDirectory: configuration.stateDirectory,
                process: keeper.process,
                since: kept.connection.since ?? clocks.now()
            ),
            restart: { () throws(CloudFSError) in try await keeper.restart() },
            unmount: unmount
        )
    }

    // MARK: - Life

    /// Makes sure that the container is what the catalog says, where nothing is known yet.
    func meetContainer(within deadline: Duration) async throws(CloudFSError) {
        guard container.identity == nil else { return }
        do {
            try await withDeadline(
                deadline,
                or: CloudFSError(
                    .timedOut,
                    "\(containerURL) did not answer; try again when it does"
                )
            ) { try await self.connect() }
        } catch {
            throw error as? CloudFSError
                ?? CloudFSError(.cancelled, "mounting was interrupted", cause: error)
        }
    }

    /// A link that drops a request or two is no reason not to mount.
    private func connect() async throws {
        var failures = 0
        while let error = await attempt() {
            failures += 1
            guard error.isTransient, failures < 10 else { throw error }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private func attempt() async -> CloudFSError? {
        do throws(CloudFSError) {
            try await feed.connect()
            return nil
        } catch {
            return error
        }
    }

    /// Runs the engine and its control API until the task is cancelled.
    ///
    /// - Parameter failed: Called if the control API ends for another reason; the engine goes on.
    func run(
        _ server: ControlServer,
        failed: @escaping @Sendable (CloudFSError) -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.run() }
            group.addTask {
                guard let error = await self.serve(server) else { return }
                failed(error)
            }
        }
    }

    /// Runs the engine until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.feed.run() }
            group.addTask { await self.releaseMemory() }
            group.addTask { await self.uploader.run() }
            group.addTask { await self.filesystem.downloader.run() }
            group.addTask { await self.control.news.run() }
            group.addTask { await self.control.indexer.run() }
            group.addTask { await self.filesystem.replaced.run() }
            group.addTask { await self.filesystem.siblings.run() }
            group.addTask { await self.filesystem.watchOwnerFiles() }
            group.addTask { await self.filesystem.hydrator.keepRoomFree() }
            group.addTask { await self.leases.run() }
            if !self.filesystem.options.isReadOnly { group.addTask { await self.watchers.run() } }
            group.addTask { await self.filesystem.thumbnails.run() }
            if let recents = self.filesystem.recents { group.addTask { await recents.run() } }
            if let desktop = self.filesystem.desktop { group.addTask { await desktop.run() } }
            group.addTask {
                await Sweeper(files: self.files, pool: self.pool, logger: self.logger).run()
            }
            group.addTask {
                let catalog = self.filesystem.catalog
                await LogMover(catalog: catalog, pool: self.pool, logger: self.logger).run()
            }
            group.addTask {
                await WriterWatch(
                    files: self.files,
                    uploader: self.uploader,
                    pool: self.pool,
                    logger: self.logger
                ).run()
            }
        }
    }

    /// When memory is given back after a comparison: at once, and when all else has started too,
    /// which a small folder is compared before.
    private static let releases = [Duration.zero, .seconds(2)]

    /// Gives memory back each time when everything was compared.
    private func releaseMemory() async {
        while true {
            await feed.settled.wait()
            for pause in Self.releases {
                // Cancelled, it ends at once.
                try? await Task.sleep(for: pause)
                guard !Task.isCancelled else { return }
                await releaseMemoryNow()
            }
        }
    }

    private func releaseMemoryNow() async {
        do throws(CloudFSError) {
            try await pool.engine {
                try self.filesystem.catalog.releaseMemory()
                ProcessMemory.release()
            }
        } catch {
            logger.debug("memory is kept", metadata: ["error": "\(error)"])
        }
    }

    /// - Returns: Why it ended, unless the task was cancelled.
    private func serve(_ server: ControlServer) async -> CloudFSError? {
        do {
            try await server.run()
            return nil
        } catch {
            if Task.isCancelled { return nil }
            logger.error("the control API ended", metadata: ["error": "\(error)"])
            return error as? CloudFSError
                ?? CloudFSError(.internalFailure, "the control API ended: \(error)", cause: error)
        }
    }

    /// Stores what handles still hold: the kernel has let go of all of them, or the drive of the
    /// kernel, and programs may go on using them.
    func closeHandles() {
        filesystem.replaced.releaseAll()
        for handle in filesystem.handles.openFiles {
            files.noteOutlived(handle.file)
            filesystem.release(handle.number)
        }
    }

    /// Sends what waits until nothing is left or `deadline` is over.
    ///
    /// - Returns: How many changes are left; `nil` if the queue cannot be read.
    func drain(deadline: Duration) async -> Int? {
        do throws(CloudFSError) {
            return try await uploader.drain(within: deadline).left
        } catch {
            logger.error("the queue cannot be read", metadata: ["error": "\(error)"])
            return nil
        }
    }

    func close() {
        filesystem.hydrator.storeCompleted()
        do throws(CloudFSError) {
            try files.saveUses()
            try catalog.close()
        } catch {
            logger.error("the catalog was not closed", metadata: ["error": "\(error)"])
        }
    }
}

import Logging

extension DriveParts {
    /// Longer than a process of the worker before this one may announce.
    private static let afterTakingOver = Announcer.limit + .seconds(5)

    /// The answers to the announcing process, and to one that another worker has left.
    static func announcedCalls(hasTakenOver: Bool, _ clocks: Clocks) -> AnnouncedCalls {
        guard hasTakenOver else { return AnnouncedCalls() }
        let elapsed = clocks.elapsed
        let end = elapsed() + afterTakingOver
        return AnnouncedCalls { elapsed() < end && Announcer.isOne($0) }
    }

    /// Who tells programs that watch of what did not come through the kernel.
    static func watcherNews(
        _ configuration: MountConfiguration,
        catalog: Catalog,
        hub: ChangeHub,
        calls: AnnouncedCalls,
        pool: BlockingPool,
        logger: Logger
    ) -> WatcherNews {
        let mountpoint = configuration.mountpoint
        return WatcherNews(
            catalog: catalog,
            hub: hub,
            calls: calls,
            pool: pool,
            logger: logger
        ) { () throws(CloudFSError) in
            try MountTable.top(at: mountpoint).map {
                Announcer.Drive(mountpoint: mountpoint, device: $0.device)
            }
        }
    }
}

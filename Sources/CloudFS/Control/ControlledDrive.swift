import CloudFSControlAPI

/// What the control API needs of a drive; the mount implements it, tests have a fake.
///
/// Every method may be called from any task, several at once. Only `refresh`, `check`, `login`,
/// `bookmark`, `resolveBookmark` and `drain` wait for the network, and `drain` has a time limit of
/// its own; the server gives up on the others after a deadline and cancels the task, and a method
/// that cannot be cancelled ends unheard.
protocol ControlledDrive: CoordinatedDrive {
    func status() async throws(CloudFSError) -> DriveStatus

    /// One page of items; a path that cannot be shown is a failure of the page, not of the call.
    ///
    /// - Throws: `invalidArgument` for an `after` that this drive did not give.
    func items(_ query: ItemQuery) async throws(CloudFSError) -> ItemPage

    /// One page of what a query finds; it may have fewer items than were asked for.
    ///
    /// - Throws: `invalidArgument` for a text that is no query, or an `after` that this drive did
    ///   not give; `notFound` for a folder that is not there.
    func query(_ request: QueryRequest) async throws(CloudFSError) -> ItemPage

    /// Sets what is asked of one item; a pinned one begins to download.
    func setPolicy(_ policy: PinPolicy, at path: DrivePath) async throws(CloudFSError)

    /// Drops the local bytes of the files named, and with `recursive` of all files below.
    ///
    /// - Returns: One result for each file that has local bytes, and for each path refused.
    func evict(
        _ paths: [DrivePath],
        recursive: Bool
    ) async throws(CloudFSError) -> [ItemResult]

    /// Begins to download the files named and all files below the folders named.
    ///
    /// - Returns: One result for each path: whether its download was begun.
    func download(_ paths: [DrivePath]) async throws(CloudFSError) -> [ItemResult]

    /// How far the files at and below each path are; an unknown path is a failed file.
    func downloadProgress(_ paths: [DrivePath]) async throws(CloudFSError) -> [DownloadStatus]

    /// Compares the folders named with the cloud, and in the background all below them.
    ///
    /// For a file, the folder it is in.
    ///
    /// - Returns: One result for each path: whether it was compared.
    func refresh(_ paths: [DrivePath]) async throws(CloudFSError) -> [ItemResult]

    /// Verifies a page of what must hold, and repairs it if asked to.
    ///
    /// - Throws: `invalidArgument` for an `after` that no drive gives; `offline` and the like for
    ///   a page that needs the cloud.
    func check(_ request: CheckRequest) async throws(CloudFSError) -> CheckPage

    func outbox(_ page: PageRequest) async throws(CloudFSError) -> OutboxPage

    /// Sends what waits at once, and waits until nothing is left or all that is left failed.
    ///
    /// A `timeout` that is over is no error.
    ///
    /// - Returns: What is left.
    /// - Throws: What the catalog throws.
    func drain(timeout: Duration) async throws(CloudFSError) -> DrainResult

    /// Stops uploads and background downloads until `resume`; changes of others are still seen.
    func pause() async throws(CloudFSError)

    func resume() async throws(CloudFSError)

    func conflicts(_ page: PageRequest) async throws(CloudFSError) -> ConflictPage

    /// The document that an item is a version of, and all its versions.
    ///
    /// - Throws: `notFound`; `offline` if that is not known.
    func conflictVersions(_ request: ConflictQuery) async throws(CloudFSError) -> ConflictGroup

    /// Ends the conflict that an item is part of.
    ///
    /// - Throws: `notFound`; `remoteChanged` if there is a version that the caller does not know;
    ///   `claimed` where a program that coordinates is in the way.
    func resolve(
        _ request: ConflictResolution,
        for peer: ControlPeer
    ) async throws(CloudFSError) -> ConflictOutcome

    /// A bookmark of one item.
    ///
    /// - Throws: `notFound`; `offline` where its identity, or its folder, is not known yet.
    func bookmark(_ order: BookmarkOrder) async throws(CloudFSError) -> BookmarkStatus

    /// The item that a bookmark leads to.
    ///
    /// - Throws: `invalidArgument` for what is no bookmark; `denied` for one that this user has not
    ///   made; `crossContainer` for one of another container; `notFound`, `offline`.
    func resolveBookmark(_ query: BookmarkQuery) async throws(CloudFSError) -> BookmarkStatus

    /// Which programs had content brought here.
    func activity() async throws(CloudFSError) -> ActivityReport

    /// Keeps what proves to the cloud who asks, and connects; what is refused is not kept.
    ///
    /// - Throws: `unsupported` for a drive that needs none; why the cloud is not reached.
    func login(_ login: ProviderLogin) async throws(CloudFSError) -> DriveStatus

    /// Has another daemon take over, of the version that is installed now; programs do not notice.
    ///
    /// Returns when that is about to happen; the connection of whoever asked for it then breaks.
    ///
    /// - Throws: Why the present daemon goes on.
    func restart() async throws(CloudFSError)

    /// Begins to unmount and returns before the daemon ends; it does not drain first.
    ///
    /// - Parameter sending: How long it may go on sending once it is unmounted; `nil` for as long
    ///   as it does when it is not asked to unmount.
    /// - Throws: `claimed` if files are open and `force` is not given.
    /// - Returns: What stays in the outbox, as of now.
    func unmount(force: Bool, sending: Duration?) async throws(CloudFSError) -> OutboxCounts
}

import Glibc
import Synchronization

/// A directory of plain files as a cloud, used by other programs at the same time.
///
/// The reference implementation of `CloudProvider`. Its promises rest on three things of Linux:
/// file handles as identities, `renameat2` as the one step in which versions change places, and
/// looking at what was displaced, because a foreign program takes no lock.
///
/// - Source: docs/providers/local.md
public final class EmbeddedProvider: CloudProvider {
    public let capabilities: ProviderCapabilities = [
        .changeFeed, .hearsAll, .stableIDs, .digests, .conditionalUpload, .quota,
    ]

    /// What file systems have at least: ext4 has 4 KiB for all attributes of a file, our own too.
    public let attributeRoom = 2_048

    let gate: EmbeddedGate
    let device: EmbeddedDeviceName
    let pool: BlockingPool
    let listings = EmbeddedListings()
    let feeds: EmbeddedFeeds

    /// How long a change waits for other devices' changes.
    let lockDeadline: Duration

    /// How many bytes are copied or hashed in one piece of blocking work.
    static let pieceByteCount = 1 << 20
    /// How many bytes of content all fetches together are to hold in memory, and one at least.
    private static let (fetchedByteCount, smallestPiece) = (16 << 20, 64 << 10)

    /// How many fetches run.
    let fetching = Atomic<Int>(0)

    /// How many bytes a fetch reads in one piece: fewer where many run, as each holds its piece
    /// until the link and the disk have taken it.
    var fetchedPieceByteCount: Int {
        let share = Self.fetchedByteCount / max(1, fetching.load(ordering: .relaxed))
        return min(Self.pieceByteCount, max(Self.smallestPiece, share))
    }

    /// - Parameters:
    ///   - root: The path of the cloud directory; symlinks in it are followed.
    ///   - deviceName: What distinguishes this device's unfinished work from that of others.
    ///   - pool: Where all file I/O runs.
    ///   - lockDeadline: How long a change waits for those of other devices.
    public init(
        root: String,
        deviceName: String,
        pool: BlockingPool,
        lockDeadline: Duration = .seconds(10)
    ) {
        gate = EmbeddedGate(path: root)
        device = EmbeddedDeviceName(deviceName)
        self.pool = pool
        self.lockDeadline = lockDeadline
        feeds = EmbeddedFeeds(gate: gate)
    }

    deinit {
        feeds.stop()
    }

    public func connect(
        expecting: ContainerExpectation
    ) async throws(CloudFSError) -> String {
        let root = try await blocking(.root) { [gate] in try gate.connect(expecting: expecting) }
        let hasRoom = try await blocking(.root) { try root.hasRoom() }
        if hasRoom {
            do {
                try await changing(.root) { [device] root, room in
                    try room.removeLeftovers(of: device)
                }
            } catch
                where error.code == .timedOut || error.code == .readOnly
                || error.code == .denied || error.code == .quotaExceeded
            {
                // Leftovers only take space; the next connect tries again. The container itself
                // can be reached, and read-only ones are containers too.
            }
        }
        return root.identity
    }

    public func quota() async throws(CloudFSError) -> Quota? {
        try await inside(.root) { root in
            var space = statvfs()
            try EmbeddedSystem.check("fstatvfs") { fstatvfs(root.descriptor.rawValue, &space) }
            let unit = Int64(space.f_frsize)
            return Quota(
                total: Int64(space.f_blocks) * unit,
                free: Int64(space.f_bfree) * unit,
                available: Int64(space.f_bavail) * unit
            )
        }
    }

    public func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        // The root is looked at by every call, because nobody tells when a path leads elsewhere.
        try await inside(.root) { _ in }
        return try await feeds.changes(after: anchor)
    }

    // MARK: - Running

    /// Runs `work` on a thread that may block, and gives every failure its meaning for `path`.
    func blocking<Value: Sendable>(
        _ path: RemotePath,
        _ work: @escaping @Sendable () throws -> Value
    ) async throws(CloudFSError) -> Value {
        guard !Task.isCancelled else { throw Self.cancelled(path) }
        do {
            return try await pool.run(work)
        } catch let error as CloudFSError {
            throw error
        } catch let failure as EmbeddedFailure {
            throw failure.error(at: path)
        } catch is CancellationError {
            throw Self.cancelled(path)
        } catch {
            throw CloudFSError(.internalFailure, "\"\(path)\": unexpected failure", cause: error)
        }
    }

    /// Runs `work` with the container's root, once that is known to be the right one.
    func inside<Value: Sendable>(
        _ path: RemotePath,
        _ work: @escaping @Sendable (EmbeddedRoot) throws -> Value
    ) async throws(CloudFSError) -> Value {
        try await blocking(path) { [gate] in try work(try gate.enter()) }
    }

    /// Runs a short `work` under the lock that all CloudFS devices change the directory under.
    ///
    /// - Throws: `timedOut` when others held it until the deadline.
    func changing<Value: Sendable>(
        _ path: RemotePath,
        _ work: @escaping @Sendable (EmbeddedRoot, EmbeddedRoom) throws -> Value
    ) async throws(CloudFSError) -> Value {
        let deadline = ContinuousClock.now + lockDeadline
        var delay = Duration.milliseconds(1)
        while true {
            let result: Value? = try await inside(path) { root in
                let room = try root.openRoom()
                guard let lock = try room.tryLock() else { return nil }
                return try withExtendedLifetime(lock) { try work(root, room) }
            }
            if let result { return result }
            guard ContinuousClock.now < deadline else {
                throw CloudFSError(.timedOut, "another device kept the cloud directory locked")
            }
            do {
                try await Task.sleep(for: delay * Double.random(in: 0.5...1))
            } catch {
                throw Self.cancelled(path)
            }
            delay = min(delay * 2, .milliseconds(50))
        }
    }

    static func cancelled(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.cancelled, "\"\(path)\": cancelled")
    }

    static func changed(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.remoteChanged, "\"\(path)\" is another version in the cloud directory")
    }
}

import Collections
import Logging
import Synchronization

/// Has programs that watch with inotify hear of changes that did not come through the kernel: of
/// what other devices did, and of what this drive did by itself.
///
/// Nothing is done where nobody watches, which is looked up when something has changed.
final class WatcherNews: Sendable {
    private let changes = Mutex<OrderedSet<ItemChange>>([])
    private let wake = Signal()
    private let catalog: Catalog
    private let hub: ChangeHub
    private let calls: AnnouncedCalls
    private let pool: BlockingPool
    /// A thread that waits for processes which this drive has to answer.
    private let announcers: BlockingPool
    private let drive: @Sendable () throws(CloudFSError) -> Announcer.Drive?
    private let logger: Logger

    /// How long changes are collected, and how much longer than looking for watchers takes.
    private static let interval = Duration.milliseconds(200)
    private static let patience = 20
    /// Of more at a time nobody hears.
    private static let mostChanges = 4_096

    /// - Parameter drive: Where it is mounted now; asked on a thread that may block.
    init(
        catalog: Catalog,
        hub: ChangeHub,
        calls: AnnouncedCalls,
        pool: BlockingPool,
        logger: Logger,
        drive: @escaping @Sendable () throws(CloudFSError) -> Announcer.Drive?
    ) {
        self.catalog = catalog
        self.hub = hub
        self.calls = calls
        self.pool = pool
        announcers = pool.another(name: "cloudfs-notices", width: 1)
        self.logger = logger
        self.drive = drive
    }

    /// Something is so now that the kernel did not do; does not block.
    func notice(_ changes: [ItemChange]) {
        let isNew = self.changes.withLock { waiting in
            let before = waiting.count
            for change in changes where change.isSeen {
                guard waiting.count < Self.mostChanges else { break }
                waiting.append(change)
            }
            return waiting.count > before
        }
        if isNew { wake.raise() }
    }

    func run() async {
        while !Task.isCancelled {
            await wake.wait()
            let began = ContinuousClock.now
            do {
                try await Task.sleep(for: Self.interval)
                let spent = try await tell()
                try await Task.sleep(until: began + spent * Self.patience)
            } catch is CancellationError {
                return
            } catch {
                logger.warning(
                    "who watches with inotify is not told of changes",
                    metadata: ["error": "\(error)"]
                )
            }
        }
    }

    /// - Returns: How long it took to find out who watches.
    private func tell() async throws -> Duration {
        let changes = changes.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        let began = ContinuousClock.now
        guard let drive = try await pool.engine({ try self.drive() }) else { return .zero }
        let watched = try await pool.engine { InotifyWatches.inodes(onDevice: drive.device) }
        let spent = began.duration(to: .now)
        guard !watched.isEmpty else { return spent }
        let events = try await pool.engine { try self.events(of: changes, watched) }
        try await announce(events, on: drive)
        return spent
    }

    private func announce(_ events: [WatchEvent], on drive: Announcer.Drive) async throws {
        // What has been looked at meanwhile would not be made. Folders are left: who works in one
        // would lose the path to it.
        hub.tellAgain(
            events.compactMap { event in
                guard case .appeared(let kind) = event.kind, kind != .folder else { return nil }
                return .entryAppeared(parent: event.place.folder, name: event.place.name)
            }
        )
        await hub.settled()
        var rest = try await pool.engine {
            try self.catalog.read { reader in
                try events.compactMap { event in
                    try reader.path(of: event.place.folder).map { (event, $0) }
                }
            }
        }
        while !rest.isEmpty {
            let events = rest
            let count = try await announcers.engine { [calls] in
                defer { calls.end() }
                return try Announcer.announce(events, on: drive) { process in
                    calls.begin(events.map(\.0), by: process)
                }
            }
            rest.removeFirst(count)
        }
    }

    // MARK: - What is told

    private func events(
        of changes: OrderedSet<ItemChange>,
        _ watched: Set<UInt64>
    ) throws(CloudFSError) -> [WatchEvent] {
        try catalog.read { reader in
            var seen = WatchedChanges()
            for change in changes { try note(change, in: &seen, watched, reader) }
            return try seen.events { place in
                try reader.child(place.name.bytes, of: place.folder)?.item.shownKind
            }
        }
    }

    private func note(
        _ change: ItemChange,
        in seen: inout WatchedChanges,
        _ watched: Set<UInt64>,
        _ reader: CatalogReader
    ) throws {
        func isWatched(_ id: ItemID) -> Bool { watched.contains(UInt64(bitPattern: id.rawValue)) }
        // What waits for its place has a name that nobody is to see.
        func isHidden(_ name: [UInt8], _ id: ItemID) -> Bool {
            DisplacedName.original(of: name, id) != nil
        }
        switch change {
        case .entryAppeared(let folder, let name):
            if isWatched(folder) { seen.appeared(at: WatchEvent.Place(folder: folder, name: name)) }
        case .entryVanished(let folder, let name, let item, let isFolder, _):
            guard isWatched(folder), !isHidden(name.bytes, item) else { return }
            seen.vanished(at: WatchEvent.Place(folder: folder, name: name), isFolder: isFolder)
        case .entryReplaced(let folder, let name):
            if isWatched(folder) { seen.written(at: WatchEvent.Place(folder: folder, name: name)) }
        case .attributes(let id), .content(let id):
            guard let name = try reader.name(of: id), isWatched(id) || isWatched(name.parent),
                !isHidden(name.name, id)
            else { return }
            let place = WatchEvent.Place(folder: name.parent, name: try ItemName(name.name))
            if case .content = change { seen.written(at: place) } else { seen.changed(at: place) }
        case .state, .listed: return
        }
    }
}

extension ItemChange {
    /// Whether a program that watches could see it.
    fileprivate var isSeen: Bool {
        switch self {
        case .state, .listed: false
        case .attributes, .content, .entryAppeared, .entryVanished, .entryReplaced: true
        }
    }
}

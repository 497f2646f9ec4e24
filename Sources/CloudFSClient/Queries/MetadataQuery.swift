import CloudFSControlAPI
public import Foundation
import Synchronization

/// A list of items that meet a condition, and stays as the drive is, as `NSMetadataQuery`.
///
/// Items whose bytes are in the cloud count like local ones, and a file that a program makes is
/// there at once, whatever the cloud knows of it. Nothing is downloaded, and nothing waits for the
/// network: what is not listed yet comes as an update. The condition is looked at in this process,
/// item by item.
public final class MetadataQuery: Sendable {
    /// How the results have changed.
    public struct Update: Sendable, Hashable {
        public var added: [MetadataItem] = []
        public var changed: [MetadataItem] = []
        /// As they were last known.
        public var removed: [MetadataItem] = []

        public var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
    }

    private struct State {
        var found: [DrivePath: MetadataItem] = [:]
        var events: [DriveEvent] = []
    }

    private let scope: URL
    private let batchingInterval: Duration
    private let predicate: @Sendable (MetadataItem) -> Bool
    private let state = Mutex(State())

    /// A query that does nothing until its updates are listened to.
    ///
    /// - Parameters:
    ///   - searchScope: The folder whose items are meant, however deep they lie.
    ///   - batchingInterval: How long changes are gathered before they are told together.
    ///   - predicate: Which items are.
    public init(
        searchScope: URL,
        batchingInterval: Duration = .milliseconds(50),
        predicate: @escaping @Sendable (MetadataItem) -> Bool
    ) {
        scope = searchScope
        self.batchingInterval = batchingInterval
        self.predicate = predicate
    }

    /// What meets the condition, in the order of paths, as of the last update.
    public var results: [MetadataItem] {
        state.withLock { $0.found.values.sorted { $0.url.path < $1.url.path } }
    }

    /// What is there, as the first update, and from then on what changes; for one listener, for as
    /// long as it listens.
    ///
    /// It goes on over a restart of the drive's daemon.
    public func updates() -> AsyncThrowingStream<Update, any Error> {
        AsyncThrowingStream { continuation in
            let task = Task {
                do {
                    try await self.follow { continuation.yield($0) }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    // MARK: - Following the drive

    /// Each of them is looked for among all results.
    private static let mostGone = 64
    /// How many events are kept while the drive is asked about others.
    private static let mostEvents = 10_000
    /// How long a daemon may be away that is replaced.
    private static let patience = Duration.seconds(30)

    private func follow(_ tell: @escaping @Sendable (Update) -> Void) async throws {
        let place = try DriveLocator.current().location(of: scope.path(percentEncoded: false))
        let reader = Reader(client: DriveClient(place.drive), scope: place.path)
        var end = ContinuousClock.now + Self.patience
        var isFirst = true
        while !Task.isCancelled {
            do {
                try await follow(reader) { update in
                    end = .now + Self.patience
                    if isFirst || !update.isEmpty { tell(update) }
                    isFirst = false
                }
            } catch let error as DriveClientError {
                // A stream that was read too slowly ends as well: everything is looked at again.
                guard ContinuousClock.now < end else { throw error }
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Follows one stream of events until it ends.
    private func follow(_ reader: Reader, _ tell: (Update) -> Void) async throws {
        state.withLock { $0.events = [] }
        let (arrivals, arrived) = AsyncStream.makeStream(
            of: Void.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        // Read as they come: who is slow is let go by the drive.
        let listener = Task {
            defer { arrived.finish() }
            for try await event in reader.client.events() {
                state.withLock { state in
                    // So many are told faster by looking at everything.
                    let isFull = state.events.count == Self.mostEvents
                    if isFull { state.events = [DriveEvent(.overflow)] }
                    state.events.append(event)
                }
                arrived.yield()
            }
        }
        defer { listener.cancel() }
        for await _ in arrivals {
            try await Task.sleep(for: batchingInterval)
            let events = state.withLock { state in
                defer { state.events = [] }
                return state.events
            }
            tell(try await apply(events, reader))
        }
        try await listener.value
    }

    private func apply(_ events: [DriveEvent], _ reader: Reader) async throws -> Update {
        guard !events.contains(where: { $0.kind == .listening || $0.kind == .overflow }) else {
            return take(try await reader.all())
        }
        let gone = events.compactMap { event in
            event.kind == .vanished ? event.path : event.from
        }
        guard gone.count <= Self.mostGone else { return take(try await reader.all()) }
        let paths = Set(events.filter { $0.kind != .vanished }.compactMap(\.path))
        let items = try await reader.items(paths)
        let moved = Set(events.filter { $0.kind == .moved }.compactMap(\.path))
        // Everything in a folder that was moved has another path.
        guard !items.contains(where: { $0.kind == .folder && moved.contains($0.path) }) else {
            return take(try await reader.all())
        }
        var found = state.withLock { $0.found }
        for path in gone {
            found = found.filter { !$0.key.names.starts(with: path.names) }
        }
        for path in paths { found[path] = nil }
        for item in items { found[item.path] = MetadataItem(item, of: reader.client.drive) }
        return take(found)
    }

    /// Makes what is there the results, and tells how they have changed.
    private func take(_ items: [DrivePath: MetadataItem]) -> Update {
        let now = items.filter { predicate($0.value) }
        let before = state.withLock { state in
            defer { state.found = now }
            return state.found
        }
        var update = Update()
        for (path, item) in now {
            guard let old = before[path] else {
                update.added.append(item)
                continue
            }
            if old != item { update.changed.append(item) }
        }
        update.removed = before.filter { now[$0.key] == nil }.map(\.value)
        return update.sorted
    }
}

extension MetadataQuery.Update {
    fileprivate var sorted: MetadataQuery.Update {
        func inOrder(_ items: [MetadataItem]) -> [MetadataItem] {
            items.sorted { $0.url.path < $1.url.path }
        }
        return MetadataQuery.Update(
            added: inOrder(added),
            changed: inOrder(changed),
            removed: inOrder(removed)
        )
    }
}

/// What a query asks its drive.
private struct Reader: Sendable {
    let client: DriveClient
    let scope: DrivePath

    /// Everything in the scope; not the scope itself.
    func all() async throws(DriveClientError) -> [DrivePath: MetadataItem] {
        var found: [DrivePath: MetadataItem] = [:]
        try await client.forEachItem([scope], depth: .all) { page in
            for item in page.items where isInside(item.path) {
                found[item.path] = MetadataItem(item, of: client.drive)
            }
        }
        return found
    }

    /// Those of the paths where something is.
    func items(_ paths: Set<DrivePath>) async throws(DriveClientError) -> [ItemStatus] {
        let inside = paths.filter(isInside)
        var found: [ItemStatus] = []
        guard !inside.isEmpty else { return found }
        try await client.forEachItem(Array(inside)) { found += $0.items }
        return found
    }

    private func isInside(_ path: DrivePath) -> Bool {
        path.names.count > scope.names.count && path.names.starts(with: scope.names)
    }
}

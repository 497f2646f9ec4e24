public import CloudFSControlAPI
public import Foundation
import Synchronization

/// A list of items that meet a condition, and stays as the drive is, as `NSMetadataQuery`.
///
/// Items whose bytes are in the cloud count like local ones, and a file that a program makes is
/// there at once, whatever the cloud knows of it. Nothing is downloaded, and nothing waits for the
/// network: what is not listed yet comes as an update. The drive answers the query; a condition in
/// Swift is looked at in this process, among what the drive has found.
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
        /// By their numbers on this machine.
        var found: [Int64: MetadataItem] = [:]
        var events: [QueryEvent] = []
    }

    private let scope: URL
    private let searchScope: QueryScope
    private let query: String
    private let batchingInterval: Duration
    private let predicate: @Sendable (MetadataItem) -> Bool
    private let state = Mutex(State())

    /// A query that does nothing until its updates are listened to.
    ///
    /// - Parameters:
    ///   - query: In the language of `docs/query.md`, such as `type:image tag:red`; the empty one
    ///     finds everything.
    ///   - searchScope: The folder whose items are meant, however deep they lie.
    ///   - part: Which part of the drive that is about.
    ///   - batchingInterval: How long changes are gathered before they are told together.
    ///   - predicate: Which of the items that the query finds are meant.
    public init(
        _ query: String = "",
        searchScope: URL,
        part: QueryScope = .all,
        batchingInterval: Duration = .milliseconds(50),
        predicate: @escaping @Sendable (MetadataItem) -> Bool = { _ in true }
    ) {
        self.query = query
        scope = searchScope
        self.searchScope = part
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

    private func follow(_ tell: @escaping @Sendable (Update) -> Void) async throws {
        let place = try DriveLocator.current().location(of: scope.path(percentEncoded: false))
        try await follow(place, DaemonAbsence(), tell)
    }

    /// Follows a drive, also over a restart of its daemon.
    ///
    /// - Parameters:
    ///   - place: Where the items are looked for.
    ///   - absence: Ends it when the daemon is away for too long.
    ///   - tell: Hears of what is there, and then of how that changes.
    func follow(
        _ place: DriveLocator.Location,
        _ absence: DaemonAbsence,
        _ tell: @escaping @Sendable (Update) -> Void
    ) async throws {
        let client = DriveClient(place.drive)
        let request = QueryRequest(query: query, scope: searchScope, below: place.path)
        var absence = absence
        var isFirst = true
        while !Task.isCancelled {
            do {
                try await follow(client, request, &absence) { update in
                    if isFirst || !update.isEmpty { tell(update) }
                    isFirst = false
                }
            } catch let error as DriveClientError {
                // What the drive refuses it would refuse again. A stream that was read too slowly
                // ends as well: everything is looked at again.
                guard !error.isRefusal, !absence.isTooLong() else { throw error }
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Follows one stream of events until it ends.
    private func follow(
        _ client: DriveClient,
        _ request: QueryRequest,
        _ absence: inout DaemonAbsence,
        _ tell: (Update) -> Void
    ) async throws {
        state.withLock { $0.events = [] }
        let (arrivals, arrived) = AsyncStream.makeStream(
            of: Void.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        // Read as they come: who is slow is let go by the drive.
        let listener = Task {
            defer { arrived.finish() }
            for try await event in client.follow(request) {
                state.withLock { $0.events.append(event) }
                arrived.yield()
            }
        }
        defer { listener.cancel() }
        // Nothing is told before all that is there was found.
        var gathered: [Int64: MetadataItem] = [:]
        var isGathered = false
        for await _ in arrivals {
            try await Task.sleep(for: batchingInterval)
            let events = state.withLock { state in
                defer { state.events = [] }
                return state.events
            }
            for event in events {
                absence.end()
                for number in event.removed { gathered[number] = nil }
                for status in event.added + event.changed {
                    let item = MetadataItem(status, of: client.drive)
                    gathered[status.itemID] = predicate(item) ? item : nil
                }
                isGathered = isGathered || event.kind != .found
            }
            if isGathered { tell(take(gathered)) }
        }
        try await listener.value
    }

    /// Makes what is there the results, and tells how they have changed.
    private func take(_ now: [Int64: MetadataItem]) -> Update {
        let before = state.withLock { state in
            defer { state.found = now }
            return state.found
        }
        var update = Update()
        for (number, item) in now {
            guard let old = before[number] else {
                update.added.append(item)
                continue
            }
            // An item with another path is another one to whoever knows it by that.
            if old.url != item.url {
                update.removed.append(old)
                update.added.append(item)
            } else if old != item {
                update.changed.append(item)
            }
        }
        update.removed += before.filter { now[$0.key] == nil }.map(\.value)
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

extension DriveClientError {
    /// Whether the drive understood what was asked, and will say no again.
    public var isRefusal: Bool {
        guard case .failure(let failure) = self else { return false }
        return ["invalidArgument", "tooLarge", "unsupported"].contains(failure.code)
    }
}

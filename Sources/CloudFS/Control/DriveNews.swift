import CloudFSControlAPI
import Logging
import Synchronization

/// Tells programs what happens to items: watchers hear of everything, presenters of what they
/// present.
///
/// The one channel of changes names items by numbers; here they get their paths, off the threads
/// that made the changes. While nobody listens, nothing is done.
final class DriveNews: Sendable {
    typealias Watcher = @Sendable (DriveEvent) -> Void

    private struct Batch: Sendable {
        var changes: [ItemChange]
        var origin: ChangeHub.Origin
    }

    private struct State {
        var watchers: [UInt64: Watcher] = [:]
        var next: UInt64 = 1
        /// Whether something was left out.
        var hasOverflown = false
    }

    private let filesystem: Filesystem
    private let pool: BlockingPool
    private let state = Mutex(State())
    private let batches: AsyncStream<Batch>
    private let inbox: AsyncStream<Batch>.Continuation

    /// How many events of one batch are told one by one.
    private static let mostAtOnce = 256
    /// How many batches may wait to be told.
    private static let mostWaiting = 4_096

    init(filesystem: Filesystem, pool: BlockingPool) {
        self.filesystem = filesystem
        self.pool = pool
        (batches, inbox) = AsyncStream.makeStream(
            bufferingPolicy: .bufferingOldest(Self.mostWaiting)
        )
        _ = filesystem.hub.subscribeToAll { [weak self] in self?.take($0, by: $1) }
    }

    func addWatcher(_ watcher: @escaping Watcher) -> UInt64 {
        state.withLock { state in
            defer { state.next += 1 }
            state.watchers[state.next] = watcher
            return state.next
        }
    }

    func removeWatcher(_ token: UInt64) {
        state.withLock { _ = $0.watchers.removeValue(forKey: token) }
    }

    private func take(_ changes: [ItemChange], by origin: ChangeHub.Origin) {
        let hasWatchers = state.withLock { !$0.watchers.isEmpty }
        guard hasWatchers || !filesystem.board.isEmpty else { return }
        guard case .dropped = inbox.yield(Batch(changes: changes, origin: origin)) else { return }
        state.withLock { $0.hasOverflown = true }
    }

    /// Tells the news until the task is cancelled.
    func run() async {
        for await batch in batches {
            if state.withLock({ state in
                defer { state.hasOverflown = false }
                return state.hasOverflown
            }) {
                tellWatchers([DriveEvent(.overflow)])
            }
            do throws(CloudFSError) {
                let stories = try await pool.engine { try self.stories(of: batch) }
                // So much at once would look like a watcher that is slow.
                let isMuch = stories.count > Self.mostAtOnce
                tellWatchers(isMuch ? [DriveEvent(.overflow)] : stories.map(\.event))
                tellPresenters(stories, batch.origin)
            } catch {
                filesystem.logger.error(
                    "what changed could not be told",
                    metadata: ["error": "\(error)"]
                )
                tellWatchers([DriveEvent(.overflow)])
            }
        }
    }

    // MARK: - From numbers to paths

    /// What happened to one item.
    struct Story: Sendable {
        var event: DriveEvent
        var item: ItemID
        /// All folders around it.
        var folders: Set<ItemID>
        /// The document that it is a conflict version of.
        var original: ItemID?
        /// Whether what lost one name has another: it took a document's place.
        var goesOn = false
    }

    private func stories(of batch: Batch) throws(CloudFSError) -> [Story] {
        try filesystem.catalog.read { reader in
            var gone: [ItemID: DrivePath] = [:]
            for case .entryVanished(let parent, let name, let item) in batch.changes {
                gone[item] = try Self.path(of: parent, name, reader)
            }
            let moved = gone
            var stories: [Story] = []
            for change in batch.changes {
                guard var story = try Self.story(of: change, &gone, reader) else { continue }
                if story.event.kind == .appeared { story.event.from = moved[story.item] }
                if story.event.from != nil { story.event.kind = .moved }
                story.event.origin = batch.origin == .engine ? .cloud : .local
                if case .program(let process) = batch.origin { story.event.process = process }
                stories.append(story)
            }
            // What came to another place is told there.
            let arrived = Set(stories.filter { $0.event.kind == .moved }.map(\.item))
            return stories.filter { $0.event.kind != .vanished || !arrived.contains($0.item) }
        }
    }

    private static func story(
        of change: ItemChange,
        _ gone: inout [ItemID: DrivePath],
        _ reader: CatalogReader
    ) throws -> Story? {
        switch change {
        case .attributes(let id): return try story(.attributes, of: id, reader)
        case .content(let id): return try story(.changed, of: id, reader)
        case .entryAppeared(let parent, let name):
            let item = try reader.child(name.bytes, of: parent)
            return try item.flatMap { try story(.appeared, of: $0.id, reader) }
        case .entryReplaced(let parent, let name):
            let item = try reader.child(name.bytes, of: parent)
            return try item.flatMap { try story(.changed, of: $0.id, reader) }
        case .entryVanished(let parent, _, let item):
            guard let path = gone[item] else { return nil }
            let folders = try reader.folders(around: parent).union([parent])
            return Story(
                event: DriveEvent(.vanished, path: path),
                item: item,
                folders: folders,
                goesOn: try reader.name(of: item) != nil
            )
        }
    }

    private static func story(
        _ kind: DriveEvent.Kind,
        of id: ItemID,
        _ reader: CatalogReader
    ) throws -> Story? {
        guard let names = try reader.path(of: id), let record = try reader.item(id) else {
            return nil
        }
        let document = kind == .appeared ? record.conflictOf : nil
        return Story(
            event: DriveEvent(kind, path: DrivePath(names: names)),
            item: id,
            folders: try reader.folders(around: id),
            original: try document.flatMap { try reader.item(withDocument: $0)?.id }
        )
    }

    private static func path(
        of parent: ItemID,
        _ name: ItemName,
        _ reader: CatalogReader
    ) throws -> DrivePath? {
        try reader.path(of: parent).flatMap { DrivePath(names: $0 + [name.bytes]) }
    }

    // MARK: - Telling

    private func tellWatchers(_ events: [DriveEvent]) {
        let watchers = state.withLock { Array($0.watchers.values) }
        for event in events {
            for watcher in watchers { watcher(event) }
        }
    }

    private func tellPresenters(_ stories: [Story], _ origin: ChangeHub.Origin) {
        let presenters = filesystem.board.presenters
        guard !presenters.isEmpty else { return }
        var family: Set<Int32> = []
        if case .program(let process) = origin { family = Set(ProcessTree.ancestors(of: process)) }
        // Whoever did it knows it.
        for presenter in presenters where !family.contains(presenter.claimant.process) {
            for story in stories {
                if let kind = story.message(for: presenter.item) {
                    filesystem.board.tell(presenter.id, kind, about: story.item)
                }
                if story.original == presenter.item {
                    filesystem.board.tell(presenter.id, .didGainVersion, about: story.item)
                }
            }
        }
    }
}

extension DriveNews.Story {
    /// What the presenter of an item hears of it.
    func message(for presented: ItemID) -> PresenterMessage.Kind? {
        let isItself = presented == item
        guard isItself || folders.contains(presented), !goesOn else { return nil }
        return switch event.kind {
        case .appeared: isItself ? nil : .subitemDidAppear
        case .vanished: isItself ? .wasDeleted : .subitemWasDeleted
        case .moved: isItself ? .didMove : .subitemDidMove
        case .changed: isItself ? .didChange : .subitemDidChange
        case .attributes: isItself ? .didChangeAttributes : nil
        case .listening, .overflow: nil
        }
    }
}

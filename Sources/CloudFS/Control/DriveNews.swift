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
    static let mostAtOnce = 256
    /// How many batches may wait to be told.
    private static let mostWaiting = 4_096

    init(filesystem: Filesystem, pool: BlockingPool) {
        self.filesystem = filesystem
        self.pool = pool
        (batches, inbox) = AsyncStream.makeStream(
            bufferingPolicy: .bufferingOldest(Self.mostWaiting)
        )
        filesystem.hub.subscribeToAll { [weak self] in self?.take($0, by: $1) }
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
        var telling = Telling()
        for await batch in batches {
            if state.withLock({ state in
                defer { state.hasOverflown = false }
                return state.hasOverflown
            }) {
                tellOverflow()
            }
            do throws(CloudFSError) {
                let stories = try await pool.engine { try self.stories(of: batch) }
                // Whoever looks when it is told must not find what was there before.
                if !batch.origin.isKnownToKernel {
                    await filesystem.hub.settled()
                }
                tellWatchers(telling.events(of: stories))
                tellPresenters(stories, batch.origin)
            } catch {
                filesystem.logger.error(
                    "what changed could not be told",
                    metadata: ["error": "\(error)"]
                )
                tellOverflow()
            }
        }
    }

    /// Something was not told: whoever listens is to look.
    private func tellOverflow() {
        tellWatchers([DriveEvent(.overflow)])
        for presenter in filesystem.board.presenters {
            filesystem.board.tell(presenter.id, .didChange, about: presenter.item)
        }
    }

    // MARK: - From numbers to paths

    /// What happened to one item.
    struct Story: Sendable {
        var event: DriveEvent
        var item: ItemID
        /// All folders around it.
        var folders: Set<ItemID>
        /// The document that it has become a conflict version of.
        var gainedBy: ItemID?
        /// The document that it was a conflict version of.
        var lostBy: ItemID?
        /// Whether what lost one name has another: it took a document's place.
        var goesOn = false
        /// Presented items that moved with the folder.
        var carried: Set<ItemID> = []
    }

    private func stories(of batch: Batch) throws(CloudFSError) -> [Story] {
        try filesystem.catalog.read { reader in
            var gone: [ItemID: DrivePath] = [:]
            var originals: [ItemID: ItemID] = [:]
            for case .entryVanished(let parent, let name, let item, _, _) in batch.changes {
                gone[item] = try Self.path(of: parent, name, reader)
                let original = try ConflictNaming.original(of: name)
                    .flatMap { try reader.child($0.bytes, of: parent)?.id }
                if let original { originals[item] = original }
            }
            var stories: [Story] = []
            for change in batch.changes {
                guard var story = try Self.story(of: change, gone, reader) else { continue }
                if story.event.kind == .appeared { story.event.from = gone[story.item] }
                if story.event.from != nil { story.event.kind = .moved }
                story.lostBy = originals[story.item]
                story.event.origin = batch.origin == .engine ? .cloud : .local
                story.event.process = batch.origin.process
                stories.append(story)
            }
            try noteCarried(&stories, reader)
            // What came to another place is told there.
            let arrived = Set(stories.filter { $0.event.kind == .moved }.map(\.item))
            return stories.filter { $0.event.kind != .vanished || !arrived.contains($0.item) }
        }
    }

    private func noteCarried(_ stories: inout [Story], _ reader: CatalogReader) throws {
        guard stories.contains(where: { $0.event.kind == .moved }) else { return }
        for presented in Set(filesystem.board.presenters.map(\.item)) {
            let around = try reader.folders(around: presented)
            for index in stories.indices
            where stories[index].event.kind == .moved && around.contains(stories[index].item) {
                stories[index].carried.insert(presented)
            }
        }
    }

    private static func story(
        of change: ItemChange,
        _ gone: [ItemID: DrivePath],
        _ reader: CatalogReader
    ) throws -> Story? {
        switch change {
        case .listed: return nil
        case .attributes(let id), .state(let id):
            return try story(.attributes, of: id, reader)
        case .content(let id): return try story(.changed, of: id, reader)
        case .entryAppeared(let parent, let name):
            let item = try reader.child(name.bytes, of: parent)
            return try item.flatMap { try story(.appeared, of: $0.id, reader) }
        case .entryReplaced(let parent, let name):
            let item = try reader.child(name.bytes, of: parent)
            return try item.flatMap { try story(.changed, of: $0.id, reader) }
        case .entryVanished(let parent, _, let item, _, _):
            let folders = try reader.folders(around: parent).union([parent])
            return Story(
                event: DriveEvent(.vanished, path: gone[item]),
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
        guard let names = try reader.path(of: id), try reader.item(id) != nil else { return nil }
        var story = Story(
            event: DriveEvent(kind, path: DrivePath(names: names)),
            item: id,
            folders: try reader.folders(around: id)
        )
        if kind == .appeared, let name = try reader.name(of: id) {
            story.gainedBy = try reader.document(of: name)?.item
        }
        return story
    }

    private static func path(
        of parent: ItemID,
        _ name: ItemName,
        _ reader: CatalogReader
    ) throws -> DrivePath? {
        try reader.path(of: parent).flatMap { DrivePath(names: $0 + [name.bytes]) }
    }

    // MARK: - Telling

    /// What watchers hear, batch by batch.
    struct Telling {
        /// Whether the last that they heard is that something was left out.
        private var hasLeftOut = false

        mutating func events(of stories: [Story]) -> [DriveEvent] {
            // So much at once would look like a watcher that is slow.
            guard stories.count <= DriveNews.mostAtOnce else {
                hasLeftOut = true
                return [DriveEvent(.overflow)]
            }
            // Of what vanished in a folder that is gone by now nobody knows the path. It comes in
            // many pieces, which all mean one look: the folder's own end is told.
            let known = stories.map(\.event).filter { $0.path != nil }
            let lacksPath = known.count < stories.count
            let isNews = lacksPath && !(known.isEmpty && hasLeftOut)
            if !stories.isEmpty { hasLeftOut = lacksPath }
            return isNews ? known + [DriveEvent(.overflow)] : known
        }
    }

    private func tellWatchers(_ events: [DriveEvent]) {
        let watchers = state.withLock { Array($0.watchers.values) }
        for event in events {
            for watcher in watchers { watcher(event) }
        }
    }

    private func tellPresenters(_ stories: [Story], _ origin: ChangeHub.Origin) {
        if origin == .engine { passDocuments(stories) }
        let presenters = filesystem.board.presenters
        guard !presenters.isEmpty else { return }
        var family: Set<Int32> = []
        if let process = origin.process { family = Set(ProcessTree.ancestors(of: process)) }
        // Whoever did it knows it.
        for presenter in presenters where !family.contains(presenter.claimant.process) {
            for story in stories {
                if let kind = story.message(for: presenter.item) {
                    filesystem.board.tell(presenter.id, kind, about: story.item)
                }
                if story.carried.contains(presenter.item) {
                    filesystem.board.tell(presenter.id, .didMove, about: presenter.item)
                }
                if story.gainedBy == presenter.item {
                    filesystem.board.tell(presenter.id, .didGainVersion, about: story.item)
                }
                if story.lostBy == presenter.item {
                    filesystem.board.tell(presenter.id, .didResolveVersion, about: story.item)
                }
            }
        }
    }
}

extension DriveNews {
    /// In a conflict our file goes on as a version of the document: who presents the document
    /// presents what has its name from then on.
    private func passDocuments(_ stories: [Story]) {
        for story in stories where story.event.kind == .appeared {
            if let document = story.gainedBy { filesystem.board.pass(story.item, to: document) }
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

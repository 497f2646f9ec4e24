import CloudFSControlAPI
import Synchronization

/// A query that is followed: what it finds, and then how that changes.
///
/// Changes are heard from before anything is looked for, by the numbers of items. An item that
/// changed is judged anew, on the catalog as it is then: whatever happened in between, the client
/// ends with what is there.
final class LiveQuery: Sendable {
    typealias Describe = @Sendable (ItemID, CatalogReader) throws -> ItemStatus?

    /// What is to be looked at again.
    private struct Pending {
        var items: Set<ItemID> = []
        /// Folders that came, went or moved: what is in them may have another path.
        var folders: Set<ItemID> = []
        var names: [(parent: ItemID, name: ItemName)] = []
        var isEverything = false
        /// Whether what is in folders became known.
        var isListing = false

        var count: Int { items.count + names.count }
    }

    private let plan: QueryPlan
    private let isEmpty: Bool
    private let filesystem: Filesystem
    private let pool: BlockingPool
    private let describe: Describe
    private let pending = Mutex(Pending())
    private let wake = Signal()
    private let isWaking = Atomic(false)

    /// Most results of one query.
    static let mostResults = 500_000
    /// So many changes at once are found faster by looking for everything.
    private static let mostPending = 2_000
    /// How many items are looked at in one transaction.
    private static let page = 250
    /// How long changes are gathered before they are told together.
    private static let batching = Duration.milliseconds(20)

    init(
        _ plan: QueryPlan,
        isEmpty: Bool,
        filesystem: Filesystem,
        pool: BlockingPool,
        describe: @escaping Describe
    ) {
        self.plan = plan.inOrderOfNames
        self.isEmpty = isEmpty
        self.filesystem = filesystem
        self.pool = pool
        self.describe = describe
    }

    /// Tells until the task is cancelled, or nobody listens any more; from before it is called,
    /// changes must be noted.
    ///
    /// - Throws: `tooLarge` for more results than are followed.
    func follow(_ tell: @escaping @Sendable (QueryEvent) -> Bool) async throws(CloudFSError) {
        var known = Results()
        try await gather { change throws(CloudFSError) in
            let told = try known.take(change)
            return told.isEmpty || told.events(.found).allSatisfy(tell)
        }
        guard tell(QueryEvent(.gathered)) else { return }
        while !Task.isCancelled {
            await wake.wait(atMost: nil)
            // Cancelled, the loop ends.
            try? await Task.sleep(for: Self.batching)
            let told = try await update(&known)
            // Nobody hears of what is not to be seen in the drive yet.
            if !told.isEmpty { await filesystem.hub.settled() }
            guard told.events(.updated).allSatisfy(tell) else { return }
        }
    }

    // MARK: - Hearing

    /// Notes what is to be looked at again; it must not block.
    func note(_ changes: [ItemChange]) {
        pending.withLock { pending in
            for change in changes {
                switch change {
                case .listed: pending.isListing = true
                case .attributes(let id), .state(let id), .content(let id):
                    pending.items.insert(id)
                case .entryAppeared(let parent, let name), .entryReplaced(let parent, let name):
                    pending.names.append((parent, name))
                case .entryVanished(let parent, let name, let id, _, _):
                    pending.items.insert(id)
                    pending.folders.insert(id)
                    // The end of a conflict, for the document.
                    if let document = ConflictNaming.original(of: name) {
                        pending.names.append((parent, document))
                    }
                }
            }
            if pending.count > Self.mostPending {
                pending = Pending(isEverything: true)
            }
        }
        if changes.allSatisfy({ if case .listed = $0 { true } else { false } }) {
            wakeLater()
        } else {
            wake.raise()
        }
    }

    /// Folders that become known are many in a row, and each has all looked for again.
    private func wakeLater() {
        guard !isWaking.exchange(true, ordering: .relaxed) else { return }
        Task {
            // Never cancelled: nobody holds the task.
            try? await Task.sleep(for: Self.listingPause)
            isWaking.store(false, ordering: .relaxed)
            wake.raise()
        }
    }

    private static let listingPause = Duration.milliseconds(500)

    private func takePending() -> Pending {
        pending.withLock { pending in
            defer { pending = Pending() }
            return pending
        }
    }

    // MARK: - Looking

    /// What is there of some items now: `nil` for those that do not belong to the results.
    typealias Change = [ItemID: ItemStatus?]

    /// Looks for everything, page by page, until `take` answers `false`.
    private func gather(
        _ take: (Change) throws(CloudFSError) -> Bool
    ) async throws(CloudFSError) {
        guard !isEmpty else { return }
        let plan = try await pool.engine {
            try self.filesystem.catalog.read { try $0.decided(self.plan) }
        }
        var position: QueryPosition?
        repeat {
            let from = position
            let (change, next) = try await pool.engine { [describe] in
                try self.filesystem.catalog.read { reader in
                    let found = try reader.find(plan, after: from, limit: Self.page)
                    var change: Change = [:]
                    for id in found.items { change[id] = try describe(id, reader) }
                    return (change, found.next)
                }
            }
            position = next
            guard try take(change) else { return }
        } while position != nil && !Task.isCancelled
    }

    private func update(_ known: inout Results) async throws(CloudFSError) -> Told {
        let pending = takePending()
        guard !pending.isEverything, !pending.isListing else { return try await updateAll(&known) }
        let change = try await pool.engine { [known] in try self.judge(pending, known) }
        guard let change else { return try await updateAll(&known) }
        return try known.take(change)
    }

    private func updateAll(_ known: inout Results) async throws(CloudFSError) -> Told {
        var now: Change = [:]
        try await gather { change throws(CloudFSError) in
            now.merge(change) { $1 }
            try Results.check(now.count)
            return true
        }
        for id in known.items where now[id] == nil { now.updateValue(nil, forKey: id) }
        return try known.take(now)
    }

    /// Judges what has changed; `nil` if everything is to be looked for.
    private func judge(_ pending: Pending, _ known: Results) throws -> Change? {
        guard !isEmpty else { return [:] }
        return try filesystem.catalog.read { reader in
            var (items, folders) = (pending.items, pending.folders)
            for (parent, name) in pending.names {
                // Whoever had the name may have lost it.
                if let folder = try reader.path(of: parent),
                    let path = DrivePath(names: folder + [name.bytes]),
                    let id = known.item(at: path)
                {
                    items.insert(id)
                }
                guard let id = try reader.child(name.bytes, of: parent)?.id else { continue }
                items.insert(id)
                folders.insert(id)
            }
            if plan.query.condition.dependsOnFolders { folders.formUnion(items) }
            for folder in folders where try reader.hasChildren(folder) { return nil }
            var change: Change = [:]
            let found = try reader.items(Array(items), matching: plan)
            for id in items {
                change.updateValue(found.contains(id) ? try describe(id, reader) : nil, forKey: id)
            }
            try judgeVersions(items, reader, &change)
            return change
        }
    }

    /// A conflict begins and ends for a document when its version comes and goes.
    private func judgeVersions(
        _ items: Set<ItemID>,
        _ reader: CatalogReader,
        _ change: inout Change
    ) throws {
        for id in items {
            guard let name = try reader.name(of: id),
                let document = try reader.document(of: name)?.item, change[document] == nil
            else { continue }
            let isFound = try reader.items([document], matching: plan).contains(document)
            change.updateValue(isFound ? try describe(document, reader) : nil, forKey: document)
        }
    }

    // MARK: - Results

    /// What the client was told, by a mark of each item's state.
    private struct Results {
        /// What tells one state of an item from another, instead of all of it.
        private struct Mark {
            var state: Int
            var path: Int
        }

        private var marks: [ItemID: Mark] = [:]
        private var byPath: [Int: ItemID] = [:]

        var items: [ItemID] { Array(marks.keys) }

        /// The result that was last told with that path.
        func item(at path: DrivePath) -> ItemID? { byPath[path.hashValue] }

        /// Notes how items are now.
        ///
        /// - Returns: What of that the client does not know.
        mutating func take(_ change: Change) throws(CloudFSError) -> Told {
            var told = Told()
            for (id, status) in change {
                let old = marks[id]
                if let old, byPath[old.path] == id { byPath[old.path] = nil }
                guard let status else {
                    if marks.removeValue(forKey: id) != nil { told.removed.append(id.rawValue) }
                    continue
                }
                let mark = Mark(state: status.hashValue, path: status.path.hashValue)
                marks[id] = mark
                byPath[mark.path] = id
                if old == nil { told.added.append(status) }
                if let old, old.state != mark.state { told.changed.append(status) }
            }
            try Self.check(marks.count)
            return told
        }

        static func check(_ count: Int) throws(CloudFSError) {
            guard count > LiveQuery.mostResults else { return }
            throw CloudFSError(
                .tooLarge,
                "the query finds more than \(LiveQuery.mostResults) items; narrow it"
            )
        }
    }

    /// What a client is to be told.
    private struct Told {
        var added: [ItemStatus] = []
        var changed: [ItemStatus] = []
        var removed: [Int64] = []

        var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }

        /// Most bytes of paths in one event: a client reads events of up to 1 MiB.
        private static let mostBytes = 256 << 10
        /// Most items of one event.
        private static let mostItems = 200

        /// Events of a size that every client can read.
        func events(_ kind: QueryEvent.Kind) -> [QueryEvent] {
            var events: [QueryEvent] = []
            func add(_ items: [ItemStatus], _ list: WritableKeyPath<QueryEvent, [ItemStatus]>) {
                var event = QueryEvent(kind)
                var bytes = 0
                for item in items.sorted(by: { $0.itemID < $1.itemID }) {
                    // A byte of a path can take three, and an error is text of its own.
                    let size = item.path.text.utf8.count + (item.error?.utf8.count ?? 0)
                    if bytes + size > Self.mostBytes || event[keyPath: list].count == Self.mostItems
                    {
                        events.append(event)
                        (event, bytes) = (QueryEvent(kind), 0)
                    }
                    event[keyPath: list].append(item)
                    bytes += size
                }
                if !event[keyPath: list].isEmpty { events.append(event) }
            }
            // What has gone may have made room for what came.
            for start in stride(from: 0, to: removed.count, by: 10_000) {
                let part = removed[start..<min(start + 10_000, removed.count)]
                events.append(QueryEvent(kind, removed: part.sorted()))
            }
            add(changed, \.changed)
            add(added, \.added)
            return events
        }
    }
}

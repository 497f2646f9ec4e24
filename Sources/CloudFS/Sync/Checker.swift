/// What must hold between catalog, content, cloud, and what programs see.
enum Invariant: String, Sendable, CaseIterable {
    /// The database is whole, and every row that another names is there.
    case catalogIntact = "catalog-intact"
    /// Every name hangs below the root, and what the cloud has and nobody removed has one.
    case nameReachable = "name-reachable"
    /// An item has a name, or the cloud has it, or a program has it open.
    case itemKnown = "item-known"
    /// What the cloud does not have yet waits in the outbox.
    case changeQueued = "change-queued"
    /// The content that an item names is there.
    case contentPresent = "content-present"
    /// The content of a file that is all here is as long as the file.
    case contentLength = "content-length"
    /// The disk lost no byte, and what an unchanged file has is that of its version in the cloud.
    case contentSound = "content-sound"
    /// Every content file belongs to an item.
    case contentNamed = "content-named"
    /// A folder here is as a listing of it says, but for what is being changed.
    case cloudAgrees = "cloud-agrees"
}

/// Something that does not hold.
struct Violation: Sendable {
    var invariant: Invariant
    var item: ItemID?
    /// What is wrong, and what was or can be done: a sentence without a full stop.
    var text: String
    var isRepaired = false
}

/// Verifies the invariants of a drive that is in use, a page at a time, and repairs what can be.
///
/// Bytes that exist nowhere else are never deleted: the worst that becomes of them is a place in
/// `lost+found`.
struct Checker: Sendable {
    let feed: ChangeFeed
    let hydrator: Hydrator
    let uploader: Uploader

    /// How much is looked at.
    struct Options: Sendable {
        var repairs = false
        /// Leaves out what reads whole files or asks the cloud.
        var isQuick = false
    }

    /// Where a page begins; clients keep it as a text.
    enum Position: Sendable, Equatable {
        case catalog
        case items(after: ItemID)
        case content
        case folders(after: ItemID)
    }

    struct Page: Sendable {
        var findings: [Violation] = []
        /// How many items, content files or folders were looked at.
        var checked = 0
        /// How many files were left out, as programs or the engine have them open.
        var inUse = 0
        /// The items that were looked at, if any.
        var items: [ItemRecord] = []
        /// `nil` when this was the last one.
        var next: Position?
    }

    var applier: RemoteApplier { feed.applier }
    var files: OpenFiles { applier.files }
    var catalog: Catalog { applier.catalog }
    var pool: BlockingPool { applier.pool }

    /// How many items one page looks at.
    static let itemCount = 100
    /// How many folders one page compares with the cloud.
    static let folderCount = 16

    func page(from position: Position, _ options: Options) async throws(CloudFSError) -> Page {
        switch position {
        case .catalog: try await begin(options)
        case .items(let last): try await checkItems(after: last, options)
        case .content: try await checkStore(options)
        case .folders(let last): try await checkFolders(after: last, options)
        }
    }

    /// Whoever asks now is told whether the cloud can be reached now, not when it was tried last.
    private func begin(_ options: Options) async throws(CloudFSError) -> Page {
        if !options.isQuick, !feed.connection.isOnline { try await feed.connect() }
        return try await checkCatalog(options)
    }

    private func checkCatalog(_ options: Options) async throws(CloudFSError) -> Page {
        let problems = try await pool.engine {
            try self.catalog.read { try $0.problems(isQuick: options.isQuick) }
        }
        let findings = problems.map { problem in
            Violation(
                invariant: .catalogIntact,
                text: "\(problem); keep a copy of the state directory before anything else"
            )
        }
        return Page(findings: findings, checked: 1, next: .items(after: ItemID(0)))
    }

    private func checkItems(
        after last: ItemID,
        _ options: Options
    ) async throws(CloudFSError) -> Page {
        let records = try await pool.engine {
            try self.catalog.read { try $0.items(after: last, limit: Self.itemCount) }
        }
        var page = Page(items: records)
        for record in records {
            guard files.live(record.id) == nil else {
                page.inUse += 1
                continue
            }
            page.checked += 1
            do throws(CloudFSError) {
                page.findings += try await checkTies(of: record, options)
                page.findings += try await checkContent(of: record, options)
            } catch  where error.code == .notFound {
                // Removed meanwhile: then nothing has to hold of it.
                continue
            }
        }
        page.next = records.last.map { .items(after: $0.id) } ?? .content
        return page
    }

    // MARK: - Names and the outbox

    /// What is being removed right now has lost its name, and is gone a moment later.
    private static let removalTime = Duration.milliseconds(500)

    private func checkTies(
        of record: ItemRecord,
        _ options: Options
    ) async throws(CloudFSError) -> [Violation] {
        let first = try await pool.engine {
            try self.checkTies(of: record, options, trustsNameless: false)
        }
        if let first { return first }
        // Cancelled, it is looked at the sooner.
        try? await Task.sleep(for: Self.removalTime)
        return try await pool.engine {
            try self.checkTies(of: record, options, trustsNameless: true) ?? []
        }
    }

    /// - Returns: `nil` for an item that nothing leads to, unless that is to be trusted.
    private func checkTies(
        of record: ItemRecord,
        _ options: Options,
        trustsNameless: Bool
    ) throws(CloudFSError) -> [Violation]? {
        guard record.id != .root, files.live(record.id) == nil else { return [] }
        let (ties, current) = try catalog.read { reader in
            (try reader.ties(of: record.id), try reader.item(record.id))
        }
        guard let current else { return [] }
        if ties.name == nil, ties.base == nil, !ties.isUnheard {
            // What is being unpacked gets its names at the end; what was removed while it was
            // being sent is erased when that has ended.
            let isUnpacked = current.item.package.map { files.live($0) != nil } ?? false
            guard !isUnpacked, !uploader.active.contains(record.id) else { return [] }
            return trustsNameless ? [try keepNameless(current, options)] : nil
        }
        if ties.name != nil, !ties.isReachable { return [try bringBack(current, options)] }
        if let base = ties.base, ties.isLost {
            return [try bringBack(current, to: base, options)]
        }
        let differs =
            ties.isElsewhere || ties.isUnheard || current.hasChangedMetadata
            || current.item.content.cleanliness != .clean
        guard differs, !ties.isQueued, !ties.isExcluded, current.item.kind.isSynced else {
            return []
        }
        var finding = Violation(
            invariant: .changeQueued,
            item: record.id,
            text: "it differs from the cloud, and nothing waits to be sent"
        )
        if options.repairs {
            try catalog.write { try $0.enqueue(record.id, notBefore: files.clocks.now()) }
            finding.isRepaired = true
        }
        return [finding]
    }

    /// An item that nothing leads to; bytes that only it has go where a person can find them.
    private func keepNameless(
        _ record: ItemRecord,
        _ options: Options
    ) throws(CloudFSError) -> Violation {
        var finding = Violation(
            invariant: .itemKnown,
            item: record.id,
            text: "nothing leads to it: neither a name, nor the cloud, nor a program"
        )
        guard options.repairs else { return finding }
        let content = record.item.content
        if content.cleanliness != .clean {
            try files.store.moveToLostAndFound(record.id, generation: content.generation)
            finding.text += "; its bytes are in lost+found of the state directory"
        }
        try files.eraseIfUnused(record.id)
        finding.isRepaired = true
        return finding
    }

    /// Gives an item a name whose folder is gone, or whose own name is though nobody removed it:
    /// the one that it has in the cloud, or where that is not to be had one in the root.
    private func bringBack(
        _ record: ItemRecord,
        to base: BaseRecord? = nil,
        _ options: Options
    ) throws(CloudFSError) -> Violation {
        var finding = Violation(
            invariant: .nameReachable,
            item: record.id,
            text: base == nil ? "its folder is gone" : "it has no name, and nobody removed it"
        )
        guard options.repairs else { return finding }
        let now = files.clocks.now()
        let spare = try ItemName("recovered-\(record.id)")
        let place = try catalog.write { writer in
            let place = try base.flatMap { try writer.reader.freePlace(of: $0) } ?? (.root, spare)
            try writer.moveName(of: record.id, to: place.name.bytes, in: place.parent)
            try writer.enqueue(record.id, notBefore: now)
            try writer.touchFolder(place.parent, at: now)
            return place
        }
        applier.hub.publish([.entryAppeared(parent: place.parent, name: place.name)])
        let folder = place.parent == .root ? "the root" : "its folder"
        finding.text += "; it is \"\(place.name)\" in \(folder) now"
        finding.isRepaired = true
        return finding
    }
}

extension Checker.Position: LosslessStringConvertible {
    init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 1)
        let last = parts.count == 2 ? Int64(parts[1]).map { ItemID($0) } : nil
        switch (parts.first, last) {
        case ("catalog", nil): self = .catalog
        case ("items", let last?): self = .items(after: last)
        case ("content", nil): self = .content
        case ("folders", let last?): self = .folders(after: last)
        default: return nil
        }
    }

    var description: String {
        switch self {
        case .catalog: "catalog"
        case .items(let last): "items:\(last.rawValue)"
        case .content: "content"
        case .folders(let last): "folders:\(last.rawValue)"
        }
    }
}

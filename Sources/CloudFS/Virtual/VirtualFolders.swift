import Synchronization

/// Finds what virtual folders hold.
///
/// Nothing is kept but listings of the last moment: a program that lists a folder asks for each of
/// its names next.
final class VirtualFolders: Sendable {
    private struct Kept {
        var listing: VirtualListing
        var changes: UInt64
        /// Until when it is shown again.
        var end: Duration
    }

    private let elapsed: @Sendable () -> Duration
    private let kept = Mutex<[VirtualNode: Kept]>([:])
    private let changes = Atomic<UInt64>(0)
    private let uses = Atomic<UInt64>(0)
    /// Folders of queries that were used since one was added, the latest last.
    private let searches = Mutex<[Int64]>([])

    /// The most links of a folder, and the most folders of tags.
    static let capacity = 1_000
    private static let mostKept = 8
    /// How many queries have folders.
    static let mostSearches = 256
    /// A listing is not believed for longer, whatever is heard of changes: of those that another
    /// device made to attributes nothing is heard.
    private static let memory = Duration.seconds(1)

    init(elapsed: @escaping @Sendable () -> Duration) {
        self.elapsed = elapsed
    }

    /// Notes that any listing may have changed.
    func noteChanged() { changes.add(1, ordering: .relaxed) }

    /// Notes that a file was opened.
    func noteUse() { uses.add(1, ordering: .relaxed) }

    /// Which state of things a listing is of: others are made anew.
    private func state(for node: VirtualNode) -> UInt64 {
        let changes = changes.load(ordering: .relaxed)
        return node.showsUses ? changes &+ uses.load(ordering: .relaxed) : changes
    }

    /// The links of a folder; none for one that has no links.
    ///
    /// - Parameter plan: How the query that a text means is answered.
    /// - Throws: `notFound` for the folder of a tag that nothing has, or of a forgotten query.
    func listing(
        of node: VirtualNode,
        in catalog: Catalog,
        plan: (String) throws(CloudFSError) -> QueryPlan
    ) throws(CloudFSError) -> VirtualListing {
        let (now, current) = (elapsed(), state(for: node))
        let known = kept.withLock { kept -> VirtualListing? in
            guard let own = kept[node], own.changes == current, now < own.end
            else { return nil }
            return own.listing
        }
        if let known { return known }
        let members = try catalog.read { try Self.members(of: node, $0, plan) }
        let listing = VirtualListing(members)
        kept.withLock { kept in
            if kept.count >= Self.mostKept { kept = [:] }
            // From now on, and for as long as it took: whoever goes through it looks up each name.
            let end = elapsed()
            let rest = max(Self.memory, end - now)
            kept[node] = Kept(listing: listing, changes: current, end: end + rest)
        }
        return listing
    }

    private static func members(
        of node: VirtualNode,
        _ reader: CatalogReader,
        _ plan: (String) throws(CloudFSError) -> QueryPlan
    ) throws -> [VirtualMember] {
        switch node {
        case .folder(.recents): return try reader.recentItems(limit: capacity)
        case .folder(.favorites): return try reader.favoriteItems(limit: capacity)
        case .folder(.pinned): return try reader.pinnedItems(limit: capacity)
        case .folder(.conflicts): return try reader.itemsInConflict(limit: capacity)
        case .tag(let tag):
            guard try reader.tag(tag) != nil else {
                throw CloudFSError(.notFound, "nothing has that tag any more", item: node.id)
            }
            return try reader.items(withTag: tag, limit: capacity)
        case .search(let search):
            guard let text = try reader.search(search) else { throw Self.forgotten(node.id) }
            return try reader.items(found: try plan(text), limit: capacity)
        case .top, .folder(.tags), .folder(.byID), .folder(.search), .link: return []
        }
    }

    static func forgotten(_ id: ItemID) -> CloudFSError {
        CloudFSError(
            .notFound,
            "the folder of that query was forgotten; look it up again",
            item: id
        )
    }

    /// What has a name in a virtual folder.
    ///
    /// - Parameter plan: How the query that a text means is answered.
    func find(
        _ name: ItemName,
        in folder: VirtualNode,
        of catalog: Catalog,
        plan: (String) throws(CloudFSError) -> QueryPlan
    ) throws(CloudFSError) -> VirtualNode? {
        switch folder {
        case .top: return VirtualFolder(name: name).map { .folder($0) }
        case .folder(.tags):
            guard let tag = EscapedName.text(of: name) else { return nil }
            return try catalog.readFew { try $0.tag(named: tag) }.map { .tag($0) }
        case .folder(.byID):
            guard let text = String(validating: name.bytes, as: UTF8.self),
                let document = DocumentID(text), document.description == text
            else { return nil }
            let item = try catalog.readFew { try $0.namedItem(withDocument: document) }
            return item.map { .link($0, depth: 2) }
        case .folder(.search):
            guard let text = EscapedName.text(of: name) else { return nil }
            return try search(for: text, in: catalog, plan)
        case .folder, .tag, .search:
            return try listing(of: folder, in: catalog, plan: plan).item(named: name.bytes)
                .map { .link($0, depth: folder.depthOfLinks) }
        case .link: return nil
        }
    }

    /// The folder of a query, which is written down when its text is new.
    ///
    /// - Throws: `invalidArgument` for what is no query; `readOnly` when the catalog cannot be
    ///   written.
    private func search(
        for text: String,
        in catalog: Catalog,
        _ plan: (String) throws(CloudFSError) -> QueryPlan
    ) throws(CloudFSError) -> VirtualNode {
        if let known = try catalog.readFew({ try $0.search(for: text) }) {
            searches.withLock { used in
                used.removeAll { $0 == known }
                used.append(known)
                if used.count > Self.mostSearches { used.removeFirst() }
            }
            return .search(known)
        }
        // A text that no query has is never stored.
        _ = try plan(text)
        let used = searches.withLock { $0 }
        do throws(CloudFSError) {
            let added = try catalog.write {
                try $0.addSearch(text, used: used, keeping: Self.mostSearches)
            }
            searches.withLock { $0.removeAll(where: used.contains) }
            return .search(added)
        } catch {
            throw CloudFSError(.readOnly, "the query cannot be written down", cause: error)
        }
    }
}

@testable import CloudFS

/// What a simulated cloud has, and every version that it ever had.
///
/// Pure: each request is one call that happens or throws, whole. What lies between a device and
/// this is `SimulatedProvider`'s doing.
struct CloudTree {
    /// In what clouds differ.
    struct Traits: Sendable {
        var hasStableIDs = true
        var hasDigests = true
        var hearsAll = true
        /// Whether a version can still be read that was overwritten in the middle of a fetch.
        var keepsOpenVersions = true
        /// Whether a move makes another version.
        var moveChangesVersion = false
        /// Whether names that differ in case or in normal form only are one.
        var foldsNames = false
        var pageSize = 1_000
    }

    struct Node {
        var number: Int
        var document: DocumentID
        var name: ItemName
        var kind: ItemKind
        var metadata: ItemMetadata
        var bytes: [UInt8] = []
        var linkTarget: [UInt8]?
        var attributes: [String: [UInt8]] = [:]
        var version: ItemVersion
        var parent: Int?
        var children: [[UInt8]: Int] = [:]
    }

    let traits: Traits
    private(set) var nodes: [Int: Node] = [:]
    /// The bytes of every version of a file that there ever was.
    private(set) var history: [String: [UInt8]] = [:]
    /// Where something changed, in order.
    private(set) var news: [RemotePath] = []
    private var counter = 0

    static let root = 1
    private static let owner: UInt32 = 1_000

    init(_ traits: Traits) {
        self.traits = traits
        let metadata = ItemMetadata(
            permissions: 0o755,
            userID: Self.owner,
            groupID: Self.owner,
            modified: Timestamp(nanoseconds: 0)
        )
        _ = add(.folder, named: .reserved, in: nil, DocumentID(high: 0, low: 0), metadata)
    }

    // MARK: - Looking

    func node(at path: RemotePath) throws(CloudFSError) -> Node {
        var current = Self.root
        for (depth, name) in path.names.enumerated() {
            if depth == 0, name == .reserved { throw Self.missing(path) }
            guard let child = nodes[current]?.children[name.bytes] else { throw Self.missing(path) }
            current = child
        }
        guard let node = nodes[current] else { throw Self.missing(path) }
        return node
    }

    func item(at path: RemotePath) throws(CloudFSError) -> RemoteItem {
        item(try node(at: path), at: path)
    }

    func children(
        of path: RemotePath,
        after page: PageToken?
    ) throws(CloudFSError) -> ListingPage {
        let folder = try self.folder(at: path)
        let names = folder.children.keys.sorted { $0.lexicographicallyPrecedes($1) }
        let rest = page.map { page in
            names.filter { Self.key($0).lexicographicallyPrecedes(page.rawValue) == false }
        }
        let found = (rest ?? names).prefix(traits.pageSize)
        var items: [RemoteItem] = []
        for name in found {
            guard let node = folder.children[name].flatMap({ nodes[$0] }) else { continue }
            items.append(item(node, at: path.appending(node.name)))
        }
        let isMore = (rest ?? names).count > found.count
        let next = isMore ? found.last.map { PageToken(Self.key($0) + "0") } : nil
        return ListingPage(items: items, next: next)
    }

    /// A name as digits: one that goes before another does so as digits too.
    private static func key(_ name: [UInt8]) -> String {
        name.map { String(UnicodeScalar($0 >> 4 + 97)) + String(UnicodeScalar($0 & 15 + 97)) }
            .joined()
    }

    private func folder(at path: RemotePath) throws(CloudFSError) -> Node {
        let folder = try node(at: path)
        guard folder.kind == .folder else {
            throw CloudFSError(.notDirectory, "\(path) is no folder")
        }
        return folder
    }

    /// The folder that is to get an item named by `path`.
    private func room(for path: RemotePath) throws(CloudFSError) -> (folder: Node, name: ItemName) {
        guard let name = path.name, path.names.first != .reserved else {
            throw CloudFSError(.denied, "\(path) belongs to the provider")
        }
        let folder = try node(at: path.parent)
        guard folder.kind == .folder else { throw Self.missing(path) }
        return (folder, name)
    }

    /// - Parameter moved: What is to be moved there: its own name, spelt otherwise, is free for it.
    private func freeRoom(
        for path: RemotePath,
        movedFrom moved: Int? = nil
    ) throws(CloudFSError) -> (folder: Node, name: ItemName) {
        let room = try room(for: path)
        let children = room.folder.children
        let isTaken =
            children[room.name.bytes] != nil
            || (traits.foldsNames
                && children.contains { name, number in
                    number != moved && Self.folded(name) == Self.folded(room.name.bytes)
                })
        guard !isTaken else { throw CloudFSError(.exists, "\(path) exists already") }
        return room
    }

    /// Strings in two normal forms are equal.
    private static func folded(_ name: [UInt8]) -> String {
        String(decoding: name, as: UTF8.self).lowercased()
    }

    /// - Returns: The item at `path`, if it is the version that is meant; of a folder, the folder.
    private func node(
        at path: RemotePath,
        in version: ItemVersion
    ) throws(CloudFSError) -> Node {
        let node = try node(at: path)
        let isMeant =
            node.kind == .folder
            ? node.version.content == version.content : node.version == version
        guard isMeant else { throw CloudFSError(.remoteChanged, "\(path) is another version") }
        return node
    }

    func item(_ node: Node, at path: RemotePath) -> RemoteItem {
        RemoteItem(
            id: RemoteID(traits.hasStableIDs ? "n\(node.number)" : "p\(path)"),
            documentID: node.document,
            name: node.name,
            kind: node.kind,
            size: node.kind == .file
                ? Int64(node.bytes.count) : Int64(node.linkTarget?.count ?? 0),
            metadata: node.metadata,
            version: node.version,
            linkTarget: node.linkTarget,
            attributes: node.attributes
        )
    }

    private static func missing(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.notFound, "\(path) does not exist")
    }

    // MARK: - Changing

    mutating func upload(
        _ bytes: [UInt8],
        to path: RemotePath,
        replacing base: ItemVersion?,
        document: DocumentID,
        metadata: ItemMetadata,
        attributes: [String: [UInt8]]
    ) throws(CloudFSError) -> RemoteItem {
        var node: Node
        if let base {
            node = try self.node(at: path, in: base)
            guard node.kind == .file else {
                throw CloudFSError(.remoteChanged, "\(path) is no file")
            }
        } else {
            let (folder, name) = try freeRoom(for: path)
            node = add(.file, named: name, in: folder.number, document, metadata)
        }
        node.document = document
        node.metadata = Self.merged(metadata, over: node.metadata)
        node.attributes = attributes
        node.bytes = bytes
        node.version = ItemVersion(content: "c\(next())", metadata: "m\(next())")
        history[node.version.content] = bytes
        nodes[node.number] = node
        news.append(path.parent)
        return item(node, at: path)
    }

    mutating func create(
        _ kind: ItemKind,
        at path: RemotePath,
        document: DocumentID,
        metadata: ItemMetadata,
        target: [UInt8]? = nil
    ) throws(CloudFSError) -> RemoteItem {
        let (folder, name) = try freeRoom(for: path)
        var node = add(kind, named: name, in: folder.number, document, metadata)
        node.linkTarget = target
        nodes[node.number] = node
        news.append(path.parent)
        return item(node, at: path)
    }

    mutating func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) throws(CloudFSError) -> RemoteItem {
        var node = try node(at: path)
        guard node.version == base else {
            throw CloudFSError(.remoteChanged, "\(path) is another version")
        }
        if let metadata = update.metadata {
            node.metadata = Self.merged(metadata, over: node.metadata)
        }
        if let attributes = update.attributes { node.attributes = attributes }
        node.version.metadata = "m\(next())"
        nodes[node.number] = node
        news.append(path.parent)
        return item(node, at: path)
    }

    mutating func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) throws(CloudFSError) -> RemoteItem {
        var node = try node(at: source, in: base)
        if destination.names.starts(with: source.names), destination != source {
            throw CloudFSError(.invalidArgument, "\(source) cannot be moved into itself")
        }
        let (folder, name) = try freeRoom(for: destination, movedFrom: node.number)
        guard let parent = node.parent else {
            throw CloudFSError(.denied, "the root cannot be moved")
        }
        nodes[parent]?.children[node.name.bytes] = nil
        nodes[folder.number]?.children[name.bytes] = node.number
        node.name = name
        node.parent = folder.number
        if traits.moveChangesVersion { node.version.metadata = "m\(next())" }
        nodes[node.number] = node
        news += [source.parent, destination.parent]
        return item(node, at: destination)
    }

    mutating func delete(_ path: RemotePath, base: ItemVersion) throws(CloudFSError) {
        let node = try node(at: path, in: base)
        guard node.children.isEmpty else { throw CloudFSError(.notEmpty, "\(path) is not empty") }
        guard let parent = node.parent else {
            throw CloudFSError(.denied, "the root cannot be deleted")
        }
        nodes[parent]?.children[node.name.bytes] = nil
        nodes[node.number] = nil
        news.append(path.parent)
    }

    private mutating func next() -> Int {
        counter += 1
        return counter
    }

    private mutating func add(
        _ kind: ItemKind,
        named name: ItemName,
        in parent: Int?,
        _ document: DocumentID,
        _ metadata: ItemMetadata
    ) -> Node {
        let number = next()
        let node = Node(
            number: number,
            document: document,
            name: name,
            kind: kind,
            metadata: Self.merged(metadata, over: nil),
            version: ItemVersion(content: "v\(number)", metadata: "m\(number)"),
            parent: parent
        )
        nodes[number] = node
        if let parent { nodes[parent]?.children[name.bytes] = number }
        return node
    }

    private static func merged(
        _ new: ItemMetadata,
        over old: ItemMetadata?
    ) -> ItemMetadata {
        var merged = new
        merged.permissions = new.permissions & 0o777
        if new.userID == ItemMetadata.keptID { merged.userID = old?.userID ?? owner }
        if new.groupID == ItemMetadata.keptID { merged.groupID = old?.groupID ?? owner }
        return merged
    }
}

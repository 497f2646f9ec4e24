import Glibc

/// What a POSIX file system is supposed to do, in memory and without a clock.
///
/// A value: copies are snapshots. Errors are the errno that Linux gives for root.
public struct ReferenceFilesystem: Sendable {
    /// An item, the same for as long as it lives, whatever its name.
    public typealias NodeID = Int

    public struct Node: Sendable {
        public var kind: FileStatus.Kind
        public var mode: UInt32
        public var parent: NodeID
        /// Whether it still has a name.
        public var isLinked = true
        public var bytes: [UInt8] = []
        public var children: [String: NodeID] = [:]
        public var target = ""
        public var attributes: [String: [UInt8]] = [:]
        /// Nanoseconds; `nil` after a change whose time is the system's.
        public var modified: Int64?
    }

    struct Handle: Sendable {
        var node: NodeID
        var access: Operation.Access
    }

    /// How a path ended: in which folder, under which name, and what is there.
    struct Location {
        var parent: NodeID
        var name: String
        var node: NodeID?
    }

    static let symlinkLimit = 40

    public private(set) var nodes: [NodeID: Node]
    private var next = 1
    var handles: [Int: Handle] = [:]

    public static let root: NodeID = 0

    public init() {
        nodes = [
            Self.root: Node(kind: .folder, mode: 0o755, parent: Self.root)
        ]
    }

    func node(_ id: NodeID) -> Node {
        guard let node = nodes[id] else { preconditionFailure("no node \(id)") }
        return node
    }

    /// Changes a node where it is, without copying its bytes.
    mutating func change<Value>(
        _ id: NodeID,
        _ body: (inout Node) throws -> Value
    ) rethrows -> Value {
        guard nodes[id] != nil else { preconditionFailure("no node \(id)") }
        return try body(&nodes[id, default: Node(kind: .other, mode: 0, parent: id)])
    }

    // MARK: - Paths

    /// Follows `path`, also through symlinks, and at its end too if `following`.
    func locate(_ path: String, following: Bool) throws(SystemError) -> Location {
        var rest = Array(path.split(separator: "/").map(String.init).reversed())
        var location = Location(parent: Self.root, name: "", node: Self.root)
        var links = 0
        while let name = rest.popLast() {
            guard let current = location.node else { throw SystemError("path", ENOENT) }
            guard node(current).kind == .folder else { throw SystemError("path", ENOTDIR) }
            let child = node(current).children[name]
            location = Location(parent: current, name: name, node: child)
            guard let child, node(child).kind == .symlink, following || !rest.isEmpty else {
                continue
            }
            links += 1
            guard links <= Self.symlinkLimit else { throw SystemError("path", ELOOP) }
            location.node = current
            rest += node(child).target.split(separator: "/").map(String.init).reversed()
        }
        return location
    }

    func find(_ path: String, following: Bool = true) throws(SystemError) -> NodeID {
        guard let id = try locate(path, following: following).node else {
            throw SystemError("path", ENOENT)
        }
        return id
    }

    func file(_ path: String) throws(SystemError) -> NodeID {
        let id = try find(path)
        guard node(id).kind != .folder else { throw SystemError("path", EISDIR) }
        return id
    }

    // MARK: - The tree

    mutating func add(_ node: Node, at location: Location) -> NodeID {
        let id = next
        next += 1
        nodes[id] = node
        change(location.parent) {
            $0.children[location.name] = id
            $0.modified = nil
        }
        return id
    }

    mutating func removeName(_ name: String, from parent: NodeID) {
        let removed = change(parent) { parent in
            parent.modified = nil
            return parent.children.removeValue(forKey: name)
        }
        guard let removed else { return }
        change(removed) { $0.isLinked = false }
        forgetIfUnused(removed)
    }

    mutating func putName(_ name: String, of id: NodeID, in parent: NodeID) {
        change(parent) {
            $0.children[name] = id
            $0.modified = nil
        }
        change(id) { $0.parent = parent }
    }

    /// An item without name and handle is gone.
    mutating func forgetIfUnused(_ id: NodeID) {
        guard let node = nodes[id], !node.isLinked else { return }
        if !handles.values.contains(where: { $0.node == id }) { nodes[id] = nil }
    }

    /// Whether `id` is `descendant` or one of the folders above it.
    func isAbove(_ id: NodeID, _ descendant: NodeID) -> Bool {
        var current = descendant
        while current != id {
            guard current != Self.root else { return false }
            current = node(current).parent
        }
        return true
    }

    // MARK: - For generators and comparisons

    /// Every path with its node, folders before what they hold.
    public func tree() -> [(path: String, id: NodeID, node: Node)] {
        var found: [(path: String, id: NodeID, node: Node)] = []
        var waiting: [(String, NodeID)] = [("", Self.root)]
        while let (path, id) = waiting.popLast() {
            let node = node(id)
            found.append((path, id, node))
            for (name, child) in node.children.sorted(by: { $0.key > $1.key }) {
                waiting.append((path.isEmpty ? name : "\(path)/\(name)", child))
            }
        }
        return found
    }

    /// What `lstat` says of `path`.
    public func status(_ path: String) -> Outcome {
        do {
            return .status(status(of: try find(path, following: false)))
        } catch {
            return .failed(error.code)
        }
    }

    public func node(at path: String) -> NodeID? {
        try? find(path, following: false)
    }

    /// The item that an open handle is of.
    public func node(ofHandle slot: Int) -> NodeID? { handles[slot]?.node }

    func status(of id: NodeID) -> Outcome.Status {
        let node = node(id)
        let isFolder = node.kind == .folder
        let size = node.kind == .symlink ? node.target.utf8.count : node.bytes.count
        return Outcome.Status(
            kind: node.kind,
            size: isFolder ? nil : Int64(size),
            mode: node.kind == .symlink ? 0o777 : node.mode,
            links: isFolder ? nil : (node.isLinked ? 1 : 0),
            modified: node.modified
        )
    }
}

/// Which watch stands for which folder, kept right through renames.
///
/// Nodes know their parent and their name, not their path: renaming a folder of a million
/// folders changes one node.
struct EmbeddedFolderTree {
    private struct Node {
        var parent: Int32
        var name: ItemName?
        var children: [ItemName: Int32] = [:]
    }

    private var nodes: [Int32: Node] = [:]
    private(set) var root: Int32?

    var watches: some Sequence<Int32> { nodes.keys }
    var count: Int { nodes.count }

    mutating func setRoot(_ watch: Int32) {
        root = watch
        nodes[watch] = Node(parent: watch, name: nil)
    }

    func contains(_ watch: Int32) -> Bool { nodes[watch] != nil }

    func child(of watch: Int32, named name: ItemName) -> Int32? {
        nodes[watch]?.children[name]
    }

    /// Puts a folder at a place.
    ///
    /// If it was at another it moves, with everything below it.
    mutating func place(_ watch: Int32, named name: ItemName, in parent: Int32) {
        guard nodes[parent] != nil, watch != root, !isInside(parent, watch) else { return }
        detach(watch)
        nodes[watch, default: Node(parent: parent, name: name)].parent = parent
        nodes[watch]?.name = name
        nodes[parent]?.children[name] = watch
    }

    /// Takes a folder and everything below it out, and tells their watches.
    mutating func remove(_ watch: Int32) -> [Int32] {
        guard nodes[watch] != nil else { return [] }
        detach(watch)
        var removed: [Int32] = []
        var pending = [watch]
        while let next = pending.popLast() {
            guard let node = nodes.removeValue(forKey: next) else { continue }
            removed.append(next)
            pending += node.children.values
        }
        if let root, nodes[root] == nil { self.root = nil }
        return removed
    }

    /// Where the folder is now; `nil` for a watch that stands for none.
    func path(of watch: Int32) -> RemotePath? {
        var names: [ItemName] = []
        var current = watch
        while current != root {
            guard let node = nodes[current], let name = node.name else { return nil }
            names.append(name)
            current = node.parent
        }
        return root == nil ? nil : RemotePath(names.reversed())
    }

    private func isInside(_ watch: Int32, _ ancestor: Int32) -> Bool {
        var current = watch
        while current != root {
            if current == ancestor { return true }
            guard let node = nodes[current] else { return false }
            current = node.parent
        }
        return current == ancestor
    }

    private mutating func detach(_ watch: Int32) {
        guard let node = nodes[watch], let name = node.name,
            nodes[node.parent]?.children[name] == watch
        else { return }
        nodes[node.parent]?.children[name] = nil
    }
}

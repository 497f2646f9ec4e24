import GRDB

/// Packages: files of the cloud that are shown as folders.
///
/// What is in one has rows as other items have, with the package's number, and is never sent
/// itself. A package's own content is made of its tree when it is to be sent, and its tree of its
/// content when somebody looks into it. `tree_changes` counts what happened to the tree here.
extension CatalogReader {
    /// The package that an item is in; `nil` for packages themselves.
    func package(of id: ItemID) throws -> ItemID? {
        let package: Int64? = try DatabaseRow.value(
            compiled("SELECT package FROM item WHERE id = ?"),
            arguments: [id.rawValue]
        )
        return package.map { ItemID($0) }
    }

    /// Whether something can be put into a folder, or changed in it: not into a package whose tree
    /// is not here, as nobody would ever make its content of that.
    func hasTree(around item: Item) throws -> Bool {
        guard let package = item.enclosingPackage else { return true }
        return try existing(package).isListed
    }

    /// Everything that belongs to a package, also what has lost its name and is still open.
    func members(of package: ItemID) throws -> [ItemID] {
        try Int64.fetchAll(
            compiled("SELECT id FROM item WHERE package = ?"),
            arguments: [package.rawValue]
        ).map { ItemID($0) }
    }

    /// The tree of a package, each folder before what is in it, in the order of the names' bytes.
    func tree(of package: ItemID) throws -> [TreeEntry] {
        var entries: [TreeEntry] = []
        var folders: [(id: ItemID, path: [[UInt8]])] = [(package, [])]
        while let folder = folders.popLast() {
            for name in try names(in: folder.id) {
                let record = try existing(name.item)
                let path = folder.path + [name.name]
                entries.append(TreeEntry(path: path, record: record))
                if record.item.isFolder { folders.append((name.item, path)) }
            }
        }
        return entries.sorted { first, second in
            first.path.lexicographicallyPrecedes(second.path) { $0.lexicographicallyPrecedes($1) }
        }
    }

    private func names(in folder: ItemID) throws -> [NameRecord] {
        try DatabaseRow.all(
            compiled(
                "SELECT parent, name, item FROM name WHERE parent = ? ORDER BY name"
            ),
            arguments: [folder.rawValue]
        ) { NameRecord(parent: ItemID($0[0]), name: $0.bytes(1), item: ItemID($0[2])) }
    }
}

/// An item of a package's tree.
struct TreeEntry: Sendable {
    /// The names that lead to it from the package, as bytes.
    var path: [[UInt8]]
    var record: ItemRecord
}

extension CatalogWriter {
    /// Notes that something in a package was changed, or opened to be: its content is to be made
    /// anew.
    func noteTreeChange(of package: ItemID, notBefore: Timestamp) throws {
        // What was in it before its content was replaced is no part of it any more.
        try execute(
            "UPDATE item SET tree_changes = tree_changes + 1 WHERE id = ? AND is_listed = 1",
            [package.rawValue]
        )
        guard database.changesCount > 0 else { return }
        try queue(package, notBefore: notBefore)
    }

    /// The same for the package that an item is in, if it is in one.
    func noteTreeChange(around id: ItemID, notBefore: Timestamp) throws {
        guard let package = try reader.package(of: id) else { return }
        try noteTreeChange(of: package, notBefore: notBefore)
    }

    /// Notes that a package's content was made of its tree.
    ///
    /// - Parameter changes: How often that had been changed before; more since count anew.
    func notePacked(_ package: ItemID, at changes: Int64) throws {
        try execute(
            "UPDATE item SET packed_changes = ? WHERE id = ?",
            [changes, package.rawValue]
        )
    }

    /// A file of a name that packages have turned out to be none.
    func setPackage(_ isPackage: Bool, of id: ItemID) throws {
        try execute("UPDATE item SET is_package = ? WHERE id = ?", [isPackage, id.rawValue])
    }

    /// Makes a package of a folder that only this machine knows, with all that is in it.
    ///
    /// - Returns: What is in it.
    /// - Throws: `crossContainer` if the cloud has, or may have, something of it.
    func makePackage(of id: ItemID, notBefore: Timestamp) throws -> [ItemID] {
        let tree = try reader.tree(of: id)
        for item in [id] + tree.map(\.record.id) {
            guard try reader.base(of: item) == nil, try reader.sent(of: item) == nil else {
                throw CloudFSError(.crossContainer, "the cloud has it as a folder", item: id)
            }
        }
        guard !tree.contains(where: { $0.record.item.isPackage }) else {
            throw CloudFSError(.crossContainer, "there is a package in it", item: id)
        }
        try execute(
            "UPDATE item SET kind = ?, is_package = 1 WHERE id = ?",
            [ItemKind.file.rawValue, id.rawValue]
        )
        for entry in tree {
            try execute(
                "UPDATE item SET package = ? WHERE id = ?",
                [id.rawValue, entry.record.id.rawValue]
            )
            try dequeue(entry.record.id)
        }
        try noteTreeChange(of: id, notBefore: notBefore)
        return tree.map(\.record.id)
    }
}

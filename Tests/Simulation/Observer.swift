@testable import CloudFS

/// What can be seen of a drive at one instant, without asking it for anything.
struct Observer {
    let filesystem: Filesystem
    let cloud: any SimulatedCloud

    private var catalog: Catalog { filesystem.catalog }

    /// What has the name at this instant.
    func item(named name: ItemName, in folder: ItemID) throws -> ItemID? {
        try catalog.read { try $0.child(name.bytes, of: folder)?.id }
    }

    /// What a program can know of a file's bytes.
    ///
    /// Those that are here, and those of the version that they belong to; none of a file without a
    /// name.
    func tokens(of id: ItemID) throws -> Set<Token> {
        guard try catalog.read({ try $0.name(of: id) }) != nil else { return [] }
        return Token.content(of: try bytes(of: id) ?? []).tokens
    }

    /// The bytes that a file shows or would show if it was all here; `nil` if some cannot come.
    func bytes(of id: ItemID) throws -> [UInt8]? {
        let (record, base, ranges) = try catalog.read { reader in
            (try reader.item(id), try reader.base(of: id), try reader.ranges(of: id))
        }
        guard let record, record.item.kind == .file else { return nil }
        let live = filesystem.files.live(id).flatMap { file in
            file.state.withLock { Self.extent(of: $0) }
        }
        let extent =
            live
            ?? Extent(
                size: record.item.size,
                generation: record.item.content.generation,
                isResident: record.item.content.residency == .resident,
                present: ranges
            )
        let here = try content(of: id, extent)
        if extent.isResident { return here }
        // What it lacks of a version that is gone is in no other one, as that of a place it got.
        let old =
            record.isBaseLost ? nil : base.flatMap { cloud.bytes(ofVersion: $0.version.content) }
        var bytes = [UInt8](repeating: 0, count: Int(extent.size))
        for index in bytes.indices.prefix(old?.count ?? 0) { bytes[index] = old?[index] ?? 0 }
        for range in extent.present {
            for index in Int(range.lowerBound)..<Int(range.upperBound)
            where index < bytes.count && index < here.count {
                bytes[index] = here[index]
            }
        }
        // What was written beyond the base is here, whatever the plan of the base says.
        for index in bytes.indices.dropFirst(old?.count ?? 0) where index < here.count {
            bytes[index] = here[index]
        }
        return bytes
    }

    private static func extent(of state: borrowing OpenFile.State) -> Extent? {
        guard state.isLoaded else { return nil }
        return Extent(
            size: state.size,
            generation: state.generation,
            isResident: state.plan == nil,
            present: state.plan?.present.ranges ?? []
        )
    }

    private struct Extent {
        var size: Int64
        var generation: Int64
        var isResident: Bool
        var present: [Range<Int64>]
    }

    private func content(of id: ItemID, _ extent: Extent) throws -> [UInt8] {
        guard extent.generation != 0 else { return [] }
        let file = try filesystem.files.store.open(id, generation: extent.generation)
        return try file.read(at: 0, count: Int(extent.size))
    }

    // MARK: - Trees

    /// A name as text that differs where its bytes do: strings in two normal forms are equal.
    static func text(_ name: [UInt8]) -> String {
        name.map { byte in
            (0x20..<0x7f).contains(byte)
                ? String(UnicodeScalar(byte)) : "%" + String(byte, radix: 16)
        }
        .joined()
    }

    /// One item as it is shown somewhere.
    struct Shown: Equatable, Sendable {
        var kind: ItemKind
        var size: Int64
        var permissions: UInt16
        /// Of files only: a folder keeps a time of its own on each machine.
        var modified: Timestamp?
        var linkTarget: [UInt8]?
        var attributes: [String: [UInt8]]
        /// The version of a file's content, where it is one of the cloud's.
        var version: String?
    }

    /// Everything that this device shows, by its path.
    func tree() throws -> [String: Shown] {
        try catalog.read { reader in
            var tree: [String: Shown] = [:]
            var folders: [(ItemID, String)] = [(.root, "")]
            while let (folder, path) = folders.popLast() {
                for child in try reader.children(of: folder, after: 0, limit: 10_000) {
                    let record = child.record
                    let name = path + "/" + Self.text(child.name)
                    let isFile = record.item.kind == .file
                    let base = try reader.base(of: record.id)
                    tree[name] = Shown(
                        kind: record.item.kind,
                        size: record.item.kind == .folder ? 0 : record.item.size,
                        permissions: record.item.metadata.permissions & 0o777,
                        modified: isFile ? record.item.metadata.modified : nil,
                        linkTarget: record.item.linkTarget,
                        attributes: try reader.attributes(of: record.id),
                        version: isFile ? base?.version.content : nil
                    )
                    if record.item.kind == .folder { folders.append((record.id, name)) }
                }
            }
            return tree
        }
    }

    /// Items that wait to be sent, but for those that never can be.
    func queued() throws -> [String] {
        try catalog.read { reader in
            try reader.outbox(offset: 0, limit: 1_000).compactMap { row in
                guard let record = try reader.item(row.item), !record.isBaseLost else {
                    return nil
                }
                let name = try reader.name(of: row.item).map {
                    Self.text($0.name)
                }
                let error = row.errorCode.map { ", after \($0)" } ?? ""
                return "\(row.item) \(name ?? "without name")\(error)"
            }
        }
    }
}

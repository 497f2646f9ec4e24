import Logging
import Synchronization

extension RemoteApplier {
    /// Takes away what a complete listing proved to be gone from the cloud, except edits.
    ///
    /// - Parameter candidates: Items whose folder was listed completely without them. One that was
    ///   found elsewhere meanwhile has another place in its base and is left alone.
    func remove(_ candidates: [ItemID], from folder: ItemID) async throws(CloudFSError) {
        for id in candidates {
            _ = try await remove(id, ifIn: folder)
        }
        if !candidates.isEmpty { files.discards.raise() }
    }

    /// How many items would go, counting what is in folders.
    func count(_ candidates: [ItemID]) async throws(CloudFSError) -> Int {
        try await pool.engine {
            try self.catalog.read { reader in
                try candidates.reduce(0) { try $0 + reader.descendants(of: $1).count }
            }
        }
    }

    /// An item that may be gone, with what the cloud had in it.
    private struct Candidate: Sendable {
        var kind: ItemKind
        var children: [ItemID]
    }

    /// - Returns: Whether nothing of the item is left under its name.
    private func remove(_ id: ItemID, ifIn folder: ItemID) async throws(CloudFSError) -> Bool {
        let found = try await pool.engine { () throws -> Candidate? in
            try self.catalog.read { reader in
                guard let base = try reader.base(of: id), base.parent == folder,
                    try reader.effectivePolicy(of: id) != .excluded
                else { return nil }
                let kind = try reader.existing(id).item.kind
                let children = kind == .folder ? try reader.bases(in: id).map(\.item) : []
                return Candidate(kind: kind, children: children)
            }
        }
        guard let found, !mutations.isActive(id) else { return false }
        if found.kind == .file { return try await removeFile(id) }
        for child in found.children { _ = try await remove(child, ifIn: id) }
        let changes = try await pool.engine { try self.removeFolderOrLink(id) }
        hub.publish(changes ?? [])
        return changes != nil
    }

    private func removeFile(_ id: ItemID) async throws(CloudFSError) -> Bool {
        let (changes, isGone) = try await pool.engine { () throws -> ([ItemChange], Bool) in
            guard let claim = try self.claimToReplace(id) else { return ([], false) }
            defer { claim.end() }
            let file = try self.files.acquire(id)
            defer { self.releaseQuietly(file) }
            return try file.state.withLock { state throws(CloudFSError) in
                try self.files.observe(&state, id)
                let local = Reconciler.Local(
                    isDirty: state.isDirty && !state.hasNothingToSend(beside: state.base),
                    isInUse: state.isInUse,
                    isDeleted: state.isUnlinked
                )
                switch Reconciler.decide(base: state.base?.version, local: local, remote: nil) {
                case .keepAsNew:
                    return (try self.keepAsNew(&state, id), false)
                case .remove, .removeAfterClose, .forget:
                    return (try self.unlink(&state, id), true)
                case .nothing, .adopt, .acceptVersion, .applyMetadata, .replaceContent,
                    .recordNewer, .compareOrKeepBoth, .restore:
                    return ([], false)
                }
            }
        }
        hub.publish(changes)
        return isGone
    }

    /// Deleted there, edited here: what is here is sent as a new item.
    private func keepAsNew(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> [ItemChange] {
        let isPartial = state.plan != nil
        let now = files.clocks.now()
        try catalog.write { writer in
            try writer.removeBase(of: id)
            if isPartial { try writer.setBaseLost(id) }
            try writer.enqueue(id, notBefore: now)
        }
        state.base = nil
        state.isBaseLost = isPartial
        return [.attributes(id)]
    }

    /// Takes the name away now; the row and the content go with the last use.
    private func unlink(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> [ItemChange] {
        let name = try catalog.write { writer in
            let name = try writer.reader.name(of: id)
            try writer.removeName(of: id)
            try writer.removeBase(of: id)
            try writer.dequeue(id)
            return name
        }
        state.isUnlinked = true
        state.base = nil
        guard let name else { return [] }
        return [
            .entryVanished(parent: name.parent, name: try ItemName(name.name), item: id)
        ]
    }

    /// - Returns: `nil` if the folder stays, because something in it exists only here.
    private func removeFolderOrLink(_ id: ItemID) throws(CloudFSError) -> [ItemChange]? {
        let now = files.clocks.now()
        return try catalog.write { writer -> [ItemChange]? in
            let name = try writer.reader.name(of: id)
            try writer.removeBase(of: id)
            if try writer.reader.hasChildren(id) {
                try writer.enqueue(id, notBefore: now)
                return nil
            }
            try writer.removeName(of: id)
            try writer.dequeue(id)
            try writer.erase(id)
            guard let name else { return [] }
            return [
                .entryVanished(parent: name.parent, name: try ItemName(name.name), item: id)
            ]
        }
    }
}

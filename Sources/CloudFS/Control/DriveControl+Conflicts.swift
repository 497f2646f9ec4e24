import CloudFSControlAPI

extension DriveControl {
    func conflicts(_ page: PageRequest) async throws(CloudFSError) -> ConflictPage {
        let start = try Self.number(page.after)
        return try await pool.engine {
            try self.catalog.read { try self.conflictPage(after: start, page.limit, $0) }
        }
    }

    private func conflictPage(
        after start: Int64,
        _ limit: Int,
        _ reader: CatalogReader
    ) throws -> ConflictPage {
        var groups: [DrivePath: ConflictGroup] = [:]
        var order: [DrivePath] = []
        let found = try reader.conflicts(after: start, limit: limit)
        for (_, version, document) in found {
            guard let document, let key = try path(of: document.item, reader),
                let shown = try self.version(version, reader)
            else { continue }
            if groups[key] == nil { order.append(key) }
            groups[key, default: ConflictGroup(path: key, versions: [])].versions.append(shown)
        }
        return ConflictPage(
            conflicts: order.compactMap { groups[$0] },
            next: found.count == limit ? found.last.map { String($0.position) } : nil
        )
    }

    func conflictVersions(
        _ request: ConflictQuery
    ) async throws(CloudFSError) -> ConflictGroup {
        await reach([request.path])
        return try await pool.engine {
            try self.catalog.read { reader in
                let id = try self.find(request.path, reader).id
                var group = ConflictGroup(path: request.path, versions: [])
                // The root has no name, and no versions.
                guard let named = try reader.name(of: id) else { return group }
                let document = try reader.document(of: named) ?? named
                group.path = try self.path(of: document.item, reader) ?? request.path
                group.versions = try reader.conflictVersions(of: document)
                    .compactMap { try self.version($0, reader) }
                return group
            }
        }
    }

    private func version(
        _ name: NameRecord,
        _ reader: CatalogReader
    ) throws -> ConflictGroup.Version? {
        guard let path = try path(of: name.item, reader), let item = try reader.item(name.item)
        else { return nil }
        return ConflictGroup.Version(
            path: path,
            device: ConflictNaming.device(of: try ItemName(name.name)),
            modified: item.item.metadata.modified.wire,
            size: item.item.size
        )
    }

    func resolve(
        _ request: ConflictResolution,
        for peer: ControlPeer
    ) async throws(CloudFSError) -> ConflictOutcome {
        await reach([request.path])
        return try await pool.engine {
            let (id, known) = try self.catalog.read { reader in
                (
                    try self.find(request.path, reader).id,
                    try request.versions?.compactMap { try reader.item(at: $0.names)?.id }
                )
            }
            let caller = Caller(
                userID: peer.user,
                groupID: peer.group,
                processID: peer.process,
                umask: 0
            )
            let resolved = try self.filesystem.resolve(
                id,
                request.keep == .this ? .keepThis : .keepAll,
                knowing: known.map { Set($0) },
                for: caller
            )
            return try self.catalog.read { reader in
                ConflictOutcome(
                    path: try self.path(of: resolved.kept, reader) ?? request.path,
                    removed: try resolved.removed.compactMap { try self.path(of: $0, reader) },
                    renamed: try resolved.renamed.compactMap { try self.path(of: $0, reader) }
                )
            }
        }
    }

    private func path(
        of place: Filesystem.Resolved.Place,
        _ reader: CatalogReader
    ) throws -> DrivePath? {
        try reader.path(of: place.parent).flatMap { DrivePath(names: $0 + [place.name.bytes]) }
    }
}

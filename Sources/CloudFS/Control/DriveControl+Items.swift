import CloudFSControlAPI

extension DriveControl {
    func items(_ query: ItemQuery) async throws(CloudFSError) -> ItemPage {
        let position = try ItemPosition(query.after, in: query.paths)
        // Those before it are done with.
        await reach(Array(query.paths[position.path...]))
        return try await pool.engine { try self.page(query, from: position) }
    }

    private func page(
        _ query: ItemQuery,
        from start: ItemPosition
    ) throws(CloudFSError) -> ItemPage {
        try catalog.read { reader in
            var page = ItemPage(items: [])
            var position = start
            while position.path < query.paths.count {
                guard page.items.count < query.limit else {
                    page.next = position.text
                    break
                }
                try add(&page, query, &position, reader)
            }
            return page
        }
    }

    /// Adds what there is room for of the path whose turn it is.
    private func add(
        _ page: inout ItemPage,
        _ query: ItemQuery,
        _ position: inout ItemPosition,
        _ reader: CatalogReader
    ) throws {
        let path = query.paths[position.path]
        let record: ItemRecord
        do throws(CloudFSError) {
            record = try find(path, reader)
        } catch {
            page.failures.append(.refused(path, error))
            position = ItemPosition(path: position.path + 1)
            return
        }
        let room = query.limit - page.items.count
        // One more tells whether this was all.
        let ids = try ids(of: record, query.depth, reader, skip: position.offset, limit: room + 1)
        for id in ids.prefix(room) {
            if let item = try item(id, reader, withTotals: true) { page.items.append(item) }
        }
        if ids.count > room {
            position.offset += room
        } else {
            position = ItemPosition(path: position.path + 1)
        }
    }

    private func ids(
        of record: ItemRecord,
        _ depth: ItemQuery.Depth,
        _ reader: CatalogReader,
        skip: Int,
        limit: Int
    ) throws -> [ItemID] {
        let all: [ItemID]
        switch depth {
        case .named: all = [record.id]
        case .children where record.item.isFolder:
            all = try reader.children(of: record.id, after: 0, limit: skip + limit)
                .map(\.record.id)
        case .children: all = [record.id]
        case .all:
            all =
                [record.id]
                + (try reader.subtree(of: record.id, offset: 0, limit: skip + limit))
        }
        return Array(all.dropFirst(skip).prefix(limit))
    }

    /// - Parameter withTotals: Whether a folder has the sums of everything in it.
    func item(
        _ id: ItemID,
        _ reader: CatalogReader,
        withTotals: Bool
    ) throws -> ItemStatus? {
        guard let record = try reader.item(id), let path = try path(of: id, reader) else {
            return nil
        }
        var facts = try filesystem.facts(of: record, reader)
        // Of many items names tell enough.
        if withTotals { filesystem.lookInto(&facts) }
        var status = ItemStatus(
            path: path,
            itemID: id.rawValue,
            documentID: record.item.documentID.description,
            kind: ItemStatus.Kind(record.item.shownKind),
            size: facts.size,
            localBytes: facts.localBytes,
            modified: record.item.metadata.modified.wire,
            status: ItemStatus.State(facts.status),
            percentDownloaded: facts.percentDownloaded,
            percentUploaded: facts.percentUploaded,
            pin: PinState(
                own: PinPolicy(record.item.content.policy),
                effective: PinPolicy(facts.effectivePolicy)
            ),
            error: facts.error,
            hasConflicts: facts.hasConflicts,
            contentType: facts.contentType
        )
        if withTotals, record.item.kind == .folder {
            add(try reader.totals(below: id), to: &status)
        }
        return status
    }

    private func add(_ totals: SubtreeTotals, to status: inout ItemStatus) {
        status.totals = FolderTotals(
            items: totals.items,
            files: totals.files,
            bytes: totals.bytes,
            localBytes: totals.localBytes,
            dirty: totals.dirty,
            errors: totals.errors
        )
        guard status.status == .local else { return }
        if totals.errors > 0 {
            status.status = .error
        } else if totals.dirty > 0 {
            status.status = .modified
        } else if totals.files > 0, totals.residentFiles < totals.files {
            status.status = totals.localBytes > 0 ? .partial : .cloud
        }
    }

    // MARK: - What can be asked of items

    func setPolicy(_ policy: PinPolicy, at path: DrivePath) async throws(CloudFSError) {
        await reach([path])
        try await pool.engine {
            let record = try self.catalog.read { try self.find(path, $0) }
            try self.filesystem.setPolicy(policy.contentPolicy, of: record.id)
        }
    }

    func evict(
        _ paths: [DrivePath],
        recursive: Bool
    ) async throws(CloudFSError) -> [ItemResult] {
        await reach(paths)
        return try await pool.engine {
            var results: [ItemResult] = []
            for path in paths { results += self.evict(path, recursive: recursive) }
            return results
        }
    }

    private func evict(_ path: DrivePath, recursive: Bool) -> [ItemResult] {
        do throws(CloudFSError) {
            let record = try catalog.read { try find(path, $0) }
            guard record.item.kind == .folder else { return [evict(record.id, path)] }
            guard recursive else {
                throw CloudFSError(.isDirectory, "it is a folder; use --recursive")
            }
            let below = try catalog.read { reader in
                try reader.localFiles(below: record.id).map { ($0, try self.path(of: $0, reader)) }
            }
            return below.compactMap { id, path in path.map { evict(id, $0) } }
        } catch {
            return [.refused(path, error)]
        }
    }

    private func evict(_ id: ItemID, _ path: DrivePath) -> ItemResult {
        do throws(CloudFSError) {
            try filesystem.evictor.evict(id)
            return .done(path)
        } catch {
            return .refused(path, error)
        }
    }

    func download(_ paths: [DrivePath]) async throws(CloudFSError) -> [ItemResult] {
        await reach(paths, isFetching: true)
        return try await pool.engine {
            paths.map { path in
                do throws(CloudFSError) {
                    let record = try self.catalog.read { try self.find(path, $0) }
                    _ = try self.filesystem.download(record.id)
                    return .done(path)
                } catch {
                    return .refused(path, error)
                }
            }
        }
    }

    func downloadProgress(
        _ paths: [DrivePath]
    ) async throws(CloudFSError) -> [DownloadStatus] {
        try await pool.engine {
            try self.catalog.read { reader in try paths.map { try self.progress($0, reader) } }
        }
    }

    private func progress(_ path: DrivePath, _ reader: CatalogReader) throws -> DownloadStatus {
        let record: ItemRecord
        do throws(CloudFSError) {
            record = try find(path, reader)
        } catch {
            return DownloadStatus(
                path: path,
                files: 1,
                filesDone: 0,
                bytes: 0,
                localBytes: 0,
                filesWanted: 1,
                filesFailed: 1,
                error: error.message
            )
        }
        let totals = try reader.totals(below: record.id)
        var status = DownloadStatus(
            path: path,
            files: totals.files,
            filesDone: totals.residentFiles,
            bytes: totals.bytes,
            localBytes: totals.localBytes,
            filesWanted: totals.wantedFiles
        )
        for (id, failure) in try filesystem.downloader.failures(reader)
        where try reader.isInside(id, of: record.id) {
            status.filesFailed += 1
            status.error = failure.message
        }
        if record.item.kind == .file {
            status.localBytes = try filesystem.facts(of: record, reader).localBytes
        } else {
            status.localBytes += try bytesOnTheWay(to: record.id, reader)
        }
        return status
    }

    /// How many bytes have come of files that are being fetched: the catalog hears of them when a
    /// file is whole.
    private func bytesOnTheWay(to folder: ItemID, _ reader: CatalogReader) throws -> Int64 {
        try filesystem.downloader.filesOnTheWay.reduce(0) { sum, id in
            guard try reader.isInside(id, of: folder), let file = try reader.item(id) else {
                return sum
            }
            let known = file.item.content.residency == .placeholder ? 0 : file.localBytes
            return sum + max(0, try filesystem.facts(of: file, reader).localBytes - known)
        }
    }
}

/// Where a page of items begins: with one of the paths asked for, and how many of its items were
/// shown before.
///
/// It counts within the path, as what is below those before it can change between two pages.
struct ItemPosition: Sendable, Equatable {
    /// Which of the paths; their count behind the last.
    var path: Int
    var offset = 0

    var text: String { "\(path)/\(offset)" }
}

extension ItemPosition {
    /// The position that a page named as the next.
    ///
    /// - Throws: `invalidArgument` for what no page of these paths has named.
    init(_ after: String?, in paths: [DrivePath]) throws(CloudFSError) {
        guard let after else {
            self.init(path: 0)
            return
        }
        let parts = after.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { throw CloudFSError(.invalidArgument, "no such page") }
        let path = try DriveControl.offset(String(parts[0]))
        let offset = try DriveControl.offset(String(parts[1]))
        guard path < paths.count else { throw CloudFSError(.invalidArgument, "no such page") }
        self.init(path: path, offset: offset)
    }
}

extension ItemStatus.State {
    init(_ word: ItemStatusWord) {
        switch word {
        case .cloud: self = .cloud
        case .downloading: self = .downloading
        case .partial: self = .partial
        case .local: self = .local
        case .modified: self = .modified
        case .uploading: self = .uploading
        case .conflict: self = .conflict
        case .error: self = .error
        case .excluded: self = .excluded
        }
    }
}

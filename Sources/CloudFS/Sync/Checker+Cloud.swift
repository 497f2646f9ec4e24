/// Whether folders are as the cloud has them.
extension Checker {
    func checkFolders(
        after last: ItemID,
        _ options: Options
    ) async throws(CloudFSError) -> Page {
        let folders = try await pool.engine {
            try self.catalog.read { reader in
                try reader.listedFolders(
                    after: last,
                    through: ItemID(.max),
                    limit: Self.folderCount
                )
            }
        }
        var page = Page(checked: folders.count)
        for folder in folders { page.findings += try await checkFolder(folder) }
        page.next = folders.last.map { .folders(after: $0) }
        return page
    }

    /// What differs after the folder was compared, and does so again.
    ///
    /// News that nobody heard of is no violation.
    private func checkFolder(_ folder: ItemID) async throws(CloudFSError) -> [Violation] {
        var differing: Set<[UInt8]> = []
        for attempt in 1...2 {
            do throws(CloudFSError) {
                try await feed.refresh(folder)
                let found = try await differences(in: folder)
                differing = attempt == 1 ? found : differing.intersection(found)
            } catch  where [.notFound, .notDirectory, .denied, .unsupported].contains(error.code) {
                // Gone, closed to us, or hidden: nothing of it can be compared.
                return []
            } catch  where error.code == .internalFailure {
                let text = "the cloud cannot list it: \(error.message)"
                return [Violation(invariant: .cloudAgrees, item: folder, text: text)]
            }
            if differing.isEmpty { return [] }
        }
        return differing.sorted { $0.lexicographicallyPrecedes($1) }.map { name in
            let text = String(decoding: name, as: UTF8.self)
            return Violation(
                invariant: .cloudAgrees,
                item: folder,
                text: "\"\(text)\" in it is otherwise in the cloud"
            )
        }
    }

    /// The names under which the cloud has something else than was agreed on.
    private func differences(in folder: ItemID) async throws(CloudFSError) -> Set<[UInt8]> {
        let mark = applier.mutations.beginListing()
        defer { applier.mutations.endListing() }
        let path = try await pool.engine {
            try self.catalog.read { try $0.remotePath(of: folder) }
        }
        guard let path else { return [] }
        var there: [[UInt8]: RemoteItem] = [:]
        var hidden: Set<[UInt8]> = []
        var hasUnreadable = false
        var token: PageToken?
        repeat {
            let page = try await applier.provider.children(of: path, after: token)
            for item in page.items { there[item.name.bytes] = item }
            hidden.formUnion((page.hidden + page.unreadable).map(\.bytes))
            if !page.unreadable.isEmpty { hasUnreadable = true }
            token = page.next
        } while token != nil
        let (found, isAllSeen) = (there, !hasUnreadable)
        return try await pool.engine {
            try self.catalog.read {
                try self.differences(in: folder, found, isAllSeen, since: mark, $0)
            }
        }.subtracting(hidden)
    }

    private func differences(
        in folder: ItemID,
        _ there: [[UInt8]: RemoteItem],
        _ isAllSeen: Bool,
        since mark: UInt64,
        _ reader: CatalogReader
    ) throws -> Set<[UInt8]> {
        var names = Set(there.keys)
        for base in try reader.bases(in: folder) {
            let isSame = there[base.name].map { $0.isUnchanged(since: base.version) } ?? false
            let isOurs = try isBeingChanged(base.item, reader)
            // It may have got a name that cannot be looked at.
            let isUnsure = there[base.name] == nil && !isAllSeen
            if isSame || isOurs || isUnsure {
                names.remove(base.name)
            } else {
                names.insert(base.name)
            }
        }
        return names.filter { name in
            let place = NamePlace(parent: folder, name: name)
            return !applier.mutations.blurs(place, since: mark)
        }
    }

    /// Whether both sides may differ for a while: something is to be sent, or to be taken over.
    private func isBeingChanged(_ id: ItemID, _ reader: CatalogReader) throws -> Bool {
        try reader.outboxEntry(of: id) != nil || reader.newer(of: id) != nil
            || reader.effectivePolicy(of: id) == .excluded
    }
}

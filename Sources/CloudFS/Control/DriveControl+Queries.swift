import CloudFSControlAPI

/// What a query of a client means on this drive, and a page of its answer.
extension DriveControl {
    func query(_ request: QueryRequest) async throws(CloudFSError) -> ItemPage {
        let plan = try plan(for: request)
        let (taken, position) = try Self.place(request.after)
        let left = min(request.limit, (plan.query.limit ?? .max) - taken)
        guard left > 0, request.scope != .external else { return ItemPage(items: []) }
        let (page, isBehind) = try await pool.engine {
            try self.catalog.read { reader in
                try self.requireFolder(request, reader)
                let found = try reader.find(plan, after: position, limit: left)
                var page = try self.page(of: found, by: plan.query, reader)
                let total = taken + found.items.count
                if let next = found.next, total < plan.query.limit ?? .max {
                    page.next = "\(total)/\(next.text)"
                }
                return (page, try reader.hasUnindexedNames())
            }
        }
        if isBehind { indexer.request() }
        return page
    }

    private func page(
        of found: QueryFound,
        by query: Query,
        _ reader: CatalogReader
    ) throws -> ItemPage {
        // When items were added is told by numbers of this drive's own.
        var page = ItemPage(items: [], keys: query.order == .added ? nil : [])
        for (id, key) in zip(found.items, found.keys) {
            guard let item = try item(id, reader, withTotals: false) else { continue }
            page.items.append(item)
            page.keys?.append(key.digits(isDescending: query.isDescending))
        }
        return page
    }

    func follow(
        _ request: QueryRequest,
        tell: @escaping @Sendable (QueryEvent) -> Bool
    ) async throws(CloudFSError) {
        let plan = try plan(for: request)
        guard plan.query.limit == nil, request.after == nil else {
            throw CloudFSError(.invalidArgument, "a query that is followed has no limit")
        }
        let isBehind = try await pool.engine {
            try self.catalog.read { reader in
                try self.requireFolder(request, reader)
                return try reader.hasUnindexedNames()
            }
        }
        if isBehind { indexer.request() }
        let live = LiveQuery(
            plan,
            isEmpty: request.scope == .external,
            filesystem: filesystem,
            pool: pool
        ) { try self.item($0, $1, withTotals: false) }
        let token = queries.add(live)
        defer { queries.remove(token) }
        try await live.follow(tell)
    }

    private func plan(for request: QueryRequest) throws(CloudFSError) -> QueryPlan {
        var bounds: [QueryCondition] = []
        if let below = request.below, !below.isRoot { bounds.append(.below(below.names)) }
        let documents = QueryCondition.below([Array("Documents".utf8)])
        switch request.scope {
        case .all, .external: break
        case .documents: bounds.append(documents)
        case .data: bounds.append(.not(documents))
        }
        return try filesystem.plan(for: request.query, within: bounds)
    }

    /// Fails for a folder that is not there; the cloud is not asked.
    private func requireFolder(
        _ request: QueryRequest,
        _ reader: CatalogReader
    ) throws {
        if let below = request.below { _ = try find(below, reader) }
    }

    /// How many results there were, and where the next are.
    private static func place(
        _ after: String?
    ) throws(CloudFSError) -> (taken: Int, position: QueryPosition?) {
        guard let after else { return (0, nil) }
        let parts = after.split(separator: "/", maxSplits: 1)
        guard parts.count == 2, let taken = Int(parts[0]), (0...Int(Int32.max)).contains(taken),
            let position = QueryPosition(String(parts[1]))
        else { throw CloudFSError(.invalidArgument, "no such page") }
        return (taken, position)
    }
}

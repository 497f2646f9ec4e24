import CloudFSClient
import CloudFSControlAPI

/// What a query finds in one drive, page by page.
private struct DriveResults {
    let client: DriveClient
    private var request: QueryRequest
    private var page = ItemPage(items: [])
    private var position = 0
    private var hasMore = true

    init(_ client: DriveClient, _ request: QueryRequest) {
        self.client = client
        self.request = request
    }

    /// What the next item is ordered by; `nil` for an order that only this drive knows.
    var key: String? { page.keys.map { $0[position] } }

    /// Asks for pages until there is an item to take.
    ///
    /// - Parameter most: How many are wanted.
    /// - Returns: `false` if that was all.
    mutating func prepare(atMost most: Int) async throws -> Bool {
        while position == page.items.count {
            guard hasMore else { return false }
            request.limit = min(most, ControlAPI.maximumPageCount)
            page = try await client.query(request)
            position = 0
            guard page.keys.map({ $0.count == page.items.count }) ?? true,
                page.next == nil || page.next != request.after
            else { throw DriveClientError.badAnswer("a page without an order or an end") }
            request.after = page.next
            hasMore = page.next != nil
        }
        return true
    }

    mutating func take() -> ItemStatus {
        defer { position += 1 }
        return page.items[position]
    }
}

/// What a query finds in several drives, in one order.
struct QueryResults {
    private var drives: [DriveResults]
    /// How many are still wanted.
    private var left: Int

    init(_ searches: [(client: DriveClient, request: QueryRequest)], atMost most: Int?) {
        drives = searches.map { DriveResults($0.client, $0.request) }
        left = most ?? .max
    }

    mutating func next() async throws -> (ItemStatus, of: DriveAddress)? {
        guard left > 0 else { return nil }
        var first: Int?
        var index = 0
        while index < drives.count {
            guard try await drives[index].prepare(atMost: left) else {
                drives.remove(at: index)
                continue
            }
            if let best = first, let key = drives[index].key, let least = drives[best].key {
                if key < least { first = index }
            } else if first == nil {
                first = index
            }
            index += 1
        }
        guard let first else { return nil }
        left -= 1
        return (drives[first].take(), drives[first].client.drive)
    }
}

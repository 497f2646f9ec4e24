/// Which part of a drive a query looks into, as the scopes of `NSMetadataQuery`.
public enum QueryScope: String, Codable, Sendable, Hashable, CaseIterable {
    /// Everything.
    case all
    /// What is below the folder `Documents`.
    case documents
    /// Everything else.
    case data
    /// Documents of other containers.
    case external
}

/// The body of `POST /v1/query` and `POST /v1/query/live`.
public struct QueryRequest: Codable, Sendable, Hashable {
    /// In the language of `docs/query.md`; the empty text finds everything.
    public var query: String
    public var scope: QueryScope
    /// The folder below which items are looked for; `nil` for the whole drive.
    public var below: DrivePath?
    /// The most items of this page; 1 to `ControlAPI.maximumPageCount`.
    ///
    /// A live query has no pages.
    public var limit: Int
    /// `next` of the page before, with all else the same; `nil` for the first page.
    public var after: String?

    public init(
        query: String,
        scope: QueryScope = .all,
        below: DrivePath? = nil,
        limit: Int = ControlAPI.maximumPageCount,
        after: String? = nil
    ) {
        self.query = query
        self.scope = scope
        self.below = below
        self.limit = limit
        self.after = after
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        query = try container.decode(String.self, forKey: .query)
        scope = try container.decodeIfPresent(QueryScope.self, forKey: .scope) ?? .all
        below = try container.decodeIfPresent(DrivePath.self, forKey: .below)
        limit =
            try container.decodeIfPresent(Int.self, forKey: .limit) ?? ControlAPI.maximumPageCount
        after = try container.decodeIfPresent(String.self, forKey: .after)
    }
}

/// One event of `POST /v1/query/live`.
public struct QueryEvent: Codable, Sendable, Hashable {
    public enum Kind: String, Codable, Sendable, Hashable, CaseIterable {
        /// Some of what is there: `added` has it.
        case found
        /// That was all; from here on it is told how it changes.
        case gathered
        /// What came, changed and went.
        case updated
    }

    public var kind: Kind
    public var added: [ItemStatus]
    /// As they are now; also items that were renamed or moved.
    public var changed: [ItemStatus]
    /// The numbers (`itemID`) of items that are gone, or do not meet the condition any more.
    public var removed: [Int64]

    public init(
        _ kind: Kind,
        added: [ItemStatus] = [],
        changed: [ItemStatus] = [],
        removed: [Int64] = []
    ) {
        self.kind = kind
        self.added = added
        self.changed = changed
        self.removed = removed
    }
}

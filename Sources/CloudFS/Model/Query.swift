/// Which items are looked for, and in which order they are wanted.
struct Query: Sendable, Equatable {
    /// What results are ordered by.
    enum Order: String, Sendable, CaseIterable {
        /// When the item got its name on this machine, the oldest first.
        case added
        case modified
        case name
        case size
        case used
    }

    var condition: QueryCondition
    var order = Order.added
    var isDescending = false
    /// The most results; `nil` for all.
    var limit: Int?
}

/// A condition that an item meets or not.
indirect enum QueryCondition: Sendable, Equatable {
    case all([QueryCondition])
    case any([QueryCondition])
    case not(QueryCondition)
    case name(NamePattern)
    /// Of a type or of a kind of it; see `TypeMatch`.
    case type(String)
    case kind(ItemKind)
    /// Has the tag, without regard to case; `nil` for any tag.
    case tag(FoldedName?)
    case comment(NamePattern)
    case favorite
    case status(QueryStatus)
    /// Bytes of content, of a file.
    case size(ClosedRange<Int64>)
    /// Nanoseconds since 1970.
    case modified(ClosedRange<Int64>)
    /// When a person's program last opened it, in nanoseconds since 1970.
    case used(ClosedRange<Int64>)
    /// The item at a path, and everything below it.
    case path([[UInt8]])
    /// Everything below the item at a path.
    case below([[UInt8]])

    /// What every item meets.
    static let everything = QueryCondition.all([])
}

/// What can be asked of an item's state, as the catalog knows it.
///
/// `modified` is all that waits to be sent, also what is on its way; `downloading` what was asked
/// for as a whole and is not here yet.
enum QueryStatus: String, Sendable, CaseIterable {
    case cloud
    case downloading
    case partial
    case local
    case modified
    case conflict
    case error
    case excluded
}

/// Which items are of a type or of a kind of it.
struct TypeMatch: Sendable {
    /// Those that are no files.
    var kinds: Set<ItemKind> = []
    /// What the names of all such files have, each one of these; `nil` if they have nothing in
    /// common.
    var needles: [NameNeedle]?
    /// Whether an item is.
    let matches: @Sendable (ItemKind, String) -> Bool

    init(matches: @escaping @Sendable (ItemKind, String) -> Bool) {
        self.matches = matches
    }
}

extension RemoteAttribute {
    /// What a person noted of an item.
    static let comment = "user.xdg.comment"
}

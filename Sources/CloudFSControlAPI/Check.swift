/// The body of `POST /v1/check`: which page of a check is wanted.
public struct CheckRequest: Codable, Sendable, Hashable {
    /// `next` of the page before; `nil` for the first page.
    public var after: String?
    /// Whether what is wrong is repaired, where that is possible without losing anything.
    public var repair: Bool
    /// Whether to leave out what reads whole files or asks the cloud.
    public var quick: Bool

    public init(after: String? = nil, repair: Bool = false, quick: Bool = false) {
        self.after = after
        self.repair = repair
        self.quick = quick
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        after = try container.decodeIfPresent(String.self, forKey: .after)
        repair = try container.decodeIfPresent(Bool.self, forKey: .repair) ?? false
        quick = try container.decodeIfPresent(Bool.self, forKey: .quick) ?? false
    }
}

/// A page of a check.
public struct CheckPage: Codable, Sendable, Hashable {
    /// Something that does not hold.
    public struct Finding: Codable, Sendable, Hashable {
        /// The invariant's name, as `content-sound`; a client must expect names it does not know.
        public var invariant: String
        /// The item it is about, if it is one that has a path.
        public var path: DrivePath?
        /// What is wrong, and what was or can be done: a sentence without a full stop.
        public var text: String
        public var repaired: Bool

        public init(invariant: String, path: DrivePath?, text: String, repaired: Bool = false) {
            self.invariant = invariant
            self.path = path
            self.text = text
            self.repaired = repaired
        }
    }

    /// What programs must see of an item.
    public struct Shown: Codable, Sendable, Hashable {
        public var path: DrivePath
        /// What `stat` calls the inode number.
        public var inode: Int64
        public var kind: ItemStatus.Kind
        /// In bytes; `nil` where programs may be changing it.
        public var size: Int64?

        public init(path: DrivePath, inode: Int64, kind: ItemStatus.Kind, size: Int64?) {
            self.path = path
            self.inode = inode
            self.kind = kind
            self.size = size
        }
    }

    public var findings: [Finding]
    /// How many items, content files or folders were looked at.
    public var checked: Int
    /// How many more files were left out: they are in use, or on their way.
    public var inUse: Int
    public var shown: [Shown]
    /// What `after` must be for the next page; `nil` on the last one.
    public var next: String?

    public init(
        findings: [Finding],
        checked: Int,
        inUse: Int = 0,
        shown: [Shown] = [],
        next: String? = nil
    ) {
        self.findings = findings
        self.checked = checked
        self.inUse = inUse
        self.shown = shown
        self.next = next
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        findings = try container.decode([Finding].self, forKey: .findings)
        checked = try container.decode(Int.self, forKey: .checked)
        // A drive of an older program does not tell.
        inUse = try container.decodeIfPresent(Int.self, forKey: .inUse) ?? 0
        shown = try container.decode([Shown].self, forKey: .shown)
        next = try container.decodeIfPresent(String.self, forKey: .next)
    }
}

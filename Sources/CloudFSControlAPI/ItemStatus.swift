/// One item: what it is, how much of it is here, and whether the cloud has it.
public struct ItemStatus: Codable, Sendable, Hashable {
    /// What an item is.
    public enum Kind: String, Codable, Sendable, Hashable {
        case file
        case folder
        case symlink
        case fifo
        case socket
    }

    /// The one word for a person; for a folder the most urgent one of what it holds.
    public enum State: String, Codable, Sendable, Hashable {
        case cloud
        case downloading
        case partial
        case local
        case modified
        case uploading
        case conflict
        case error
        case excluded
    }

    public var path: DrivePath
    /// The inode number on this machine.
    public var itemID: Int64
    public var documentID: String
    public var kind: Kind
    /// Bytes of content; 0 for a folder, whose sum is in `totals`.
    public var size: Int64
    /// Bytes of content that are on this machine.
    public var localBytes: Int64
    public var modified: WireTime
    public var status: State
    /// 0 to 100.
    public var percentDownloaded: Double
    /// 0 to 100 while the item is being sent.
    public var percentUploaded: Double?
    public var pin: PinState
    public var error: String?
    public var hasConflicts: Bool
    /// The MIME type.
    public var contentType: String?
    /// Sums of everything below, for a folder.
    public var totals: FolderTotals?

    public init(
        path: DrivePath,
        itemID: Int64,
        documentID: String,
        kind: Kind,
        size: Int64,
        localBytes: Int64,
        modified: WireTime,
        status: State,
        percentDownloaded: Double,
        percentUploaded: Double? = nil,
        pin: PinState,
        error: String? = nil,
        hasConflicts: Bool = false,
        contentType: String? = nil,
        totals: FolderTotals? = nil
    ) {
        self.path = path
        self.itemID = itemID
        self.documentID = documentID
        self.kind = kind
        self.size = size
        self.localBytes = localBytes
        self.modified = modified
        self.status = status
        self.percentDownloaded = percentDownloaded
        self.percentUploaded = percentUploaded
        self.pin = pin
        self.error = error
        self.hasConflicts = hasConflicts
        self.contentType = contentType
        self.totals = totals
    }
}

/// What the user can ask of an item; the values of the attribute `user.cloudfs.pin`.
public enum PinPolicy: String, Codable, Sendable, Hashable, CaseIterable {
    case inherit
    case onDemand = "on-demand"
    case pinned
    case excluded
}

/// What was asked of an item, and what follows from it and its folders.
public struct PinState: Codable, Sendable, Hashable {
    public var own: PinPolicy
    /// Never `inherit`.
    public var effective: PinPolicy

    public init(own: PinPolicy, effective: PinPolicy) {
        self.own = own
        self.effective = effective
    }
}

/// Sums of everything below a folder, the folder itself not counted.
public struct FolderTotals: Codable, Sendable, Hashable {
    public var items: Int64
    public var files: Int64
    public var bytes: Int64
    public var localBytes: Int64
    public var dirty: Int64
    public var errors: Int64

    public init(
        items: Int64,
        files: Int64,
        bytes: Int64,
        localBytes: Int64,
        dirty: Int64,
        errors: Int64
    ) {
        self.items = items
        self.files = files
        self.bytes = bytes
        self.localBytes = localBytes
        self.dirty = dirty
        self.errors = errors
    }
}

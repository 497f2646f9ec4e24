/// A drive as a whole: what is mounted, whether the cloud answers, what is here and what waits.
public struct DriveStatus: Codable, Sendable, Hashable {
    public var apiVersion: Int
    public var mountpoint: String
    public var containerURL: String
    public var containerDisplayName: String
    public var deviceName: String
    public var stateDirectory: String
    /// The daemon's process: it ends the drive by SIGTERM.
    public var pid: Int32
    /// The process that serves the drive now, which may change while it is mounted.
    public var worker: Int32
    /// The daemon's version of CloudFS.
    public var version: String
    /// When the drive was mounted.
    public var since: WireTime
    public var connection: Connection
    public var isReadOnly: Bool
    public var mode: Mode
    public var cache: CacheStatus
    public var counts: ItemCounts
    public var listing: ListingProgress
    public var outbox: OutboxCounts
    public var fetches: FetchCounts
    /// What is worth knowing about the server, by short names; `nil` where there is nothing.
    public var server: [String: String]?

    public init(
        apiVersion: Int = ControlAPI.version,
        mountpoint: String,
        containerURL: String,
        containerDisplayName: String,
        deviceName: String,
        stateDirectory: String,
        pid: Int32,
        worker: Int32,
        version: String = ControlAPI.productVersion,
        since: WireTime,
        connection: Connection,
        isReadOnly: Bool,
        mode: Mode,
        cache: CacheStatus,
        counts: ItemCounts,
        listing: ListingProgress,
        outbox: OutboxCounts,
        fetches: FetchCounts = FetchCounts(requests: 0, bytes: 0),
        server: [String: String]? = nil
    ) {
        self.apiVersion = apiVersion
        self.mountpoint = mountpoint
        self.containerURL = containerURL
        self.containerDisplayName = containerDisplayName
        self.deviceName = deviceName
        self.stateDirectory = stateDirectory
        self.pid = pid
        self.worker = worker
        self.version = version
        self.since = since
        self.connection = connection
        self.isReadOnly = isReadOnly
        self.mode = mode
        self.cache = cache
        self.counts = counts
        self.listing = listing
        self.outbox = outbox
        self.fetches = fetches
        self.server = server
    }
}

/// What was fetched from the cloud since the drive was mounted.
public struct FetchCounts: Codable, Sendable, Hashable {
    public var requests: Int64
    /// Bytes of content.
    public var bytes: Int64

    public init(requests: Int64, bytes: Int64) {
        self.requests = requests
        self.bytes = bytes
    }
}

extension DriveStatus {
    /// Whether the drive speaks with its cloud.
    public struct Connection: Codable, Sendable, Hashable {
        public enum State: String, Codable, Sendable, Hashable {
            case online
            case offline
            case paused
        }

        public var state: State
        /// Why the cloud is not reached, if it is not.
        public var reason: String?
        /// Since when it is so, if it is not `online`.
        public var since: WireTime?

        private init(_ state: State, reason: String?, since: WireTime?) {
            self.state = state
            self.reason = reason
            self.since = since
        }

        public static let online = Connection(.online, reason: nil, since: nil)

        public static func offline(reason: String, since: WireTime) -> Connection {
            Connection(.offline, reason: reason, since: since)
        }

        public static func paused(since: WireTime) -> Connection {
            Connection(.paused, reason: nil, since: since)
        }
    }

    /// How the kernel gets the bytes of resident files, and why in this way.
    public struct Mode: Codable, Sendable, Hashable {
        /// `passthrough` or `splice`.
        public var name: String
        /// Why not the faster one, in a sentence; empty for the fastest.
        public var reason: String

        public init(name: String, reason: String) {
            self.name = name
            self.reason = reason
        }
    }
}

/// Space on the local disk, in bytes.
public struct CacheStatus: Codable, Sendable, Hashable {
    public var usedBytes: Int64
    /// What evictable content may use.
    public var limitBytes: Int64
    /// What stays free on the disk whatever `limitBytes` allows.
    public var freeFloorBytes: Int64
    /// What is free on the disk now.
    public var freeBytes: Int64

    public init(usedBytes: Int64, limitBytes: Int64, freeFloorBytes: Int64, freeBytes: Int64) {
        self.usedBytes = usedBytes
        self.limitBytes = limitBytes
        self.freeFloorBytes = freeFloorBytes
        self.freeBytes = freeBytes
    }
}

/// How many items a drive knows, and how many of them are in each state.
public struct ItemCounts: Codable, Sendable, Hashable {
    public var items: Int64
    public var resident: Int64
    public var partial: Int64
    public var dirty: Int64
    public var conflicts: Int64
    public var errors: Int64

    public init(
        items: Int64,
        resident: Int64,
        partial: Int64,
        dirty: Int64,
        conflicts: Int64,
        errors: Int64
    ) {
        self.items = items
        self.resident = resident
        self.partial = partial
        self.dirty = dirty
        self.conflicts = conflicts
        self.errors = errors
    }
}

/// How far the first listing of the container is.
public struct ListingProgress: Codable, Sendable, Hashable {
    public var isComplete: Bool
    /// Items listed so far.
    public var items: Int64
    /// Folders known and not yet listed.
    public var foldersLeft: Int64

    public init(isComplete: Bool, items: Int64, foldersLeft: Int64) {
        self.isComplete = isComplete
        self.items = items
        self.foldersLeft = foldersLeft
    }
}

/// What waits to be sent.
public struct OutboxCounts: Codable, Sendable, Hashable {
    public var waiting: Int64
    public var uploading: Int64
    /// Changes that need somebody's doing; the others are retried by themselves.
    public var failed: Int64
    /// Bytes of content in all of them.
    public var bytes: Int64

    public init(waiting: Int64, uploading: Int64, failed: Int64, bytes: Int64) {
        self.waiting = waiting
        self.uploading = uploading
        self.failed = failed
        self.bytes = bytes
    }

    public static let none = OutboxCounts(waiting: 0, uploading: 0, failed: 0, bytes: 0)

    public var total: Int64 { waiting + uploading + failed }
}

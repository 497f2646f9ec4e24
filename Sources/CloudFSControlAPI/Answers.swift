/// A page of items; the order is that of the paths asked for.
public struct ItemPage: Codable, Sendable, Hashable {
    public var items: [ItemStatus]
    /// The paths that could not be shown, with the reason: each on the page where its turn came.
    public var failures: [ItemResult]
    /// What `after` must be for the next page; `nil` on the last one.
    public var next: String?
    /// For a query with an order that several drives share: one text for each item, whose bytes
    /// have this order, so that the pages of several drives can be merged.
    public var keys: [String]?

    public init(
        items: [ItemStatus],
        failures: [ItemResult] = [],
        next: String? = nil,
        keys: [String]? = nil
    ) {
        self.items = items
        self.failures = failures
        self.next = next
        self.keys = keys
    }
}

/// What became of one item of a request that names several.
public struct ItemResult: Codable, Sendable, Hashable {
    public var path: DrivePath
    public var done: Bool
    /// The name of a `CloudFSError.Code`, if it was not done.
    public var code: String?
    /// Why it was not done, in a sentence without a full stop.
    public var reason: String?

    private init(path: DrivePath, done: Bool, code: String?, reason: String?) {
        self.path = path
        self.done = done
        self.code = code
        self.reason = reason
    }

    public static func done(_ path: DrivePath) -> ItemResult {
        ItemResult(path: path, done: true, code: nil, reason: nil)
    }

    public static func refused(_ path: DrivePath, code: String, reason: String) -> ItemResult {
        ItemResult(path: path, done: false, code: code, reason: reason)
    }
}

/// One result for each path, or each file below it where the request was recursive.
public struct ItemResults: Codable, Sendable, Hashable {
    public var results: [ItemResult]

    public init(results: [ItemResult]) {
        self.results = results
    }
}

/// How far the downloads below one path are.
public struct DownloadStatus: Codable, Sendable, Hashable {
    public var path: DrivePath
    public var files: Int64
    public var filesDone: Int64
    public var bytes: Int64
    public var localBytes: Int64
    /// Files that are still to come, or failed; daemons of before do not tell.
    public var filesWanted: Int64?
    /// Files whose download ended with an error.
    public var filesFailed: Int64
    /// The error of one of them.
    public var error: String?

    public init(
        path: DrivePath,
        files: Int64,
        filesDone: Int64,
        bytes: Int64,
        localBytes: Int64,
        filesWanted: Int64,
        filesFailed: Int64 = 0,
        error: String? = nil
    ) {
        self.path = path
        self.files = files
        self.filesWanted = filesWanted
        self.filesDone = filesDone
        self.bytes = bytes
        self.localBytes = localBytes
        self.filesFailed = filesFailed
        self.error = error
    }

    /// Whether nothing more will come without a new request.
    ///
    /// What has come may have made room for the rest, and not be here any more.
    public var isFinished: Bool { filesWanted ?? (files - filesDone) <= filesFailed }
}

/// The answer to `POST /v1/download/progress`, in the order of the request.
public struct DownloadProgress: Codable, Sendable, Hashable {
    public var downloads: [DownloadStatus]

    public init(downloads: [DownloadStatus]) {
        self.downloads = downloads
    }
}

/// A page of the outbox, oldest change first.
public struct OutboxPage: Codable, Sendable, Hashable {
    /// One local change that the cloud does not have yet.
    public struct Entry: Codable, Sendable, Hashable {
        /// What has to be done in the cloud.
        public enum Operation: String, Codable, Sendable, Hashable {
            case createFolder = "create-folder"
            case createSymlink = "create-symlink"
            case upload
            case update
            case move
            case delete
        }

        /// Where the change is on its way.
        public enum State: String, Codable, Sendable, Hashable {
            /// It is not its turn, or the file is still being written.
            case waiting
            case uploading
            /// It failed and is tried again at `nextAttempt`.
            case retrying
            /// It needs somebody's doing; `lastError` says what.
            case failed
        }

        public var path: DrivePath
        public var operation: Operation
        public var bytes: Int64
        public var sentBytes: Int64
        public var state: State
        public var attempts: Int
        public var nextAttempt: WireTime?
        public var lastError: String?

        public init(
            path: DrivePath,
            operation: Operation,
            bytes: Int64,
            sentBytes: Int64 = 0,
            state: State,
            attempts: Int,
            nextAttempt: WireTime? = nil,
            lastError: String? = nil
        ) {
            self.path = path
            self.operation = operation
            self.bytes = bytes
            self.sentBytes = sentBytes
            self.state = state
            self.attempts = attempts
            self.nextAttempt = nextAttempt
            self.lastError = lastError
        }
    }

    public var counts: OutboxCounts
    public var entries: [Entry]
    public var next: String?

    public init(counts: OutboxCounts, entries: [Entry], next: String? = nil) {
        self.counts = counts
        self.entries = entries
        self.next = next
    }
}

/// The answer to `POST /v1/drain`: what is still in the outbox.
public struct DrainResult: Codable, Sendable, Hashable {
    public var remaining: OutboxCounts
    /// Whether waiting longer would send nothing more.
    public var isOver: Bool

    public init(remaining: OutboxCounts, isOver: Bool) {
        self.remaining = remaining
        self.isOver = isOver
    }
}

/// The answer to `POST /v1/unmount`: what is in the outbox when it begins.
public struct UnmountResult: Codable, Sendable, Hashable {
    public var remaining: OutboxCounts

    public init(remaining: OutboxCounts) {
        self.remaining = remaining
    }
}

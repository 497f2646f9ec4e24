/// Which items `POST /v1/items` shows.
public struct ItemQuery: Codable, Sendable, Hashable {
    /// How far below each path the answer reaches.
    public enum Depth: String, Codable, Sendable, Hashable {
        /// The items named.
        case named
        /// The items named, and of a folder its children instead of itself.
        case children
        /// The items named and everything below them, folders before their content.
        case all
    }

    public var paths: [DrivePath]
    public var depth: Depth
    /// The most items of this page; 1 to `ControlAPI.maximumPageCount`.
    public var limit: Int
    /// `next` of the page before, with the same `paths` and `depth`; `nil` for the first page.
    public var after: String?

    public init(
        paths: [DrivePath],
        depth: Depth = .named,
        limit: Int = ControlAPI.maximumPageCount,
        after: String? = nil
    ) {
        self.paths = paths
        self.depth = depth
        self.limit = limit
        self.after = after
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        paths = try container.decode([DrivePath].self, forKey: .paths)
        depth = try container.decodeIfPresent(Depth.self, forKey: .depth) ?? .named
        limit =
            try container.decodeIfPresent(Int.self, forKey: .limit) ?? ControlAPI.maximumPageCount
        after = try container.decodeIfPresent(String.self, forKey: .after)
    }
}

/// Which page of a list is wanted.
public struct PageRequest: Codable, Sendable, Hashable {
    /// The most entries; 1 to `ControlAPI.maximumPageCount`.
    public var limit: Int
    /// `next` of the page before; `nil` for the first page.
    public var after: String?

    public init(limit: Int = ControlAPI.maximumPageCount, after: String? = nil) {
        self.limit = limit
        self.after = after
    }
}

/// The body of `POST /v1/policy`.
public struct PolicyRequest: Codable, Sendable, Hashable {
    public var paths: [DrivePath]
    public var policy: PinPolicy

    public init(paths: [DrivePath], policy: PinPolicy) {
        self.paths = paths
        self.policy = policy
    }
}

/// The body of `POST /v1/evict`.
public struct EvictRequest: Codable, Sendable, Hashable {
    public var paths: [DrivePath]
    /// Whether a folder means everything below it; without it a folder is refused.
    public var recursive: Bool

    public init(paths: [DrivePath], recursive: Bool) {
        self.paths = paths
        self.recursive = recursive
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        paths = try container.decode([DrivePath].self, forKey: .paths)
        recursive = try container.decodeIfPresent(Bool.self, forKey: .recursive) ?? false
    }
}

/// The body of `POST /v1/download`, `POST /v1/download/progress` and `POST /v1/refresh`; a folder
/// is all below it.
public struct PathsRequest: Codable, Sendable, Hashable {
    public var paths: [DrivePath]

    public init(paths: [DrivePath]) {
        self.paths = paths
    }
}

/// The body of `POST /v1/login`: what proves to the drive's cloud who asks.
///
/// Its description and its mirror hide both, so that no log or crash report shows them.
public struct LoginRequest: Codable, Sendable, Hashable {
    /// The access key.
    public var name: String
    /// The secret key.
    public var secret: String

    public init(name: String, secret: String) {
        self.name = name
        self.secret = secret
    }
}

extension LoginRequest: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "a login" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The body of `POST /v1/drain`.
public struct DrainRequest: Codable, Sendable, Hashable {
    /// How long to wait for the queue to empty; cut at `ControlAPI.longestWait`.
    public var timeoutSeconds: Double

    public init(timeoutSeconds: Double) {
        self.timeoutSeconds = timeoutSeconds
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        timeoutSeconds = try container.decodeIfPresent(Double.self, forKey: .timeoutSeconds) ?? 0
    }
}

/// The body of `POST /v1/unmount`.
public struct UnmountRequest: Codable, Sendable, Hashable {
    /// Whether open files are no reason to refuse.
    public var force: Bool
    /// How long the drive may go on sending what waits once it is unmounted, in seconds; 10, which
    /// is also the most, if it is not said.
    public var sendingSeconds: Double?

    public init(force: Bool, sendingSeconds: Double? = nil) {
        self.force = force
        self.sendingSeconds = sendingSeconds
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        force = try container.decodeIfPresent(Bool.self, forKey: .force) ?? false
        sendingSeconds = try container.decodeIfPresent(Double.self, forKey: .sendingSeconds)
    }
}

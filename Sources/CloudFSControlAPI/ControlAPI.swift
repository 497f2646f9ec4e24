/// The control API in numbers and names: what daemon and client must agree on.
///
/// A client ignores fields it does not know. A new value in a closed set of names, or a field
/// with another meaning, is a new `version` under a new path prefix.
public enum ControlAPI {
    /// The version of the API, also the first component of every path.
    public static let version = 1

    /// The version of CloudFS that daemon and command were built as.
    public static let productVersion = "0.1.0"

    /// The largest body a request may have, in bytes.
    public static let maximumRequestByteCount = 1 << 20

    /// The largest body that `POST /v1/login` may have, in bytes.
    public static let maximumLoginByteCount = 8_192

    /// The largest body an answer may have, in bytes.
    public static let maximumAnswerByteCount = 64 << 20

    /// The most paths one request may name; a client splits longer lists.
    public static let maximumPathCount = 1_000

    /// The most items one claim may name.
    public static let maximumIntentCount = 64

    /// The longest name of a purpose, in bytes.
    public static let maximumPurposeByteCount = 256

    /// The most entries of one page.
    public static let maximumPageCount = 1_000

    /// How long `drain` holds a request at most; a client asks again.
    ///
    /// Short, so that a daemon that hangs is told from a queue that is long.
    public static let longestWait = Duration.seconds(20)

    /// The paths of the API.
    public enum Route: String, Sendable, CaseIterable {
        case drive = "/v1/drive"
        case items = "/v1/items"
        case policy = "/v1/policy"
        case evict = "/v1/evict"
        case download = "/v1/download"
        case downloadProgress = "/v1/download/progress"
        case refresh = "/v1/refresh"
        case query = "/v1/query"
        case liveQuery = "/v1/query/live"
        case outbox = "/v1/outbox"
        case drain = "/v1/drain"
        case pause = "/v1/pause"
        case resume = "/v1/resume"
        case conflicts = "/v1/conflicts"
        case conflictVersions = "/v1/conflicts/versions"
        case resolveConflict = "/v1/conflicts/resolve"
        case activity = "/v1/activity"
        case bookmarks = "/v1/bookmarks"
        case resolveBookmark = "/v1/bookmarks/resolve"
        case claims = "/v1/claims"
        case endClaim = "/v1/claims/end"
        case presenters = "/v1/presenters"
        case presenterAnswer = "/v1/presenters/answer"
        case events = "/v1/events"
        case check = "/v1/check"
        case login = "/v1/login"
        case restart = "/v1/restart"
        case unmount = "/v1/unmount"
    }
}

/// Why a request was not done: `{ "error": { "code": …, "message": … } }`.
public struct ControlFailure: Error, Codable, Sendable, Hashable, CustomStringConvertible {
    /// The name of a `CloudFSError.Code`; a client must expect names it does not know.
    public var code: String

    /// What, which item, what to do: a sentence without a full stop.
    public var message: String

    public init(code: String, message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }

    private enum CodingKeys: String, CodingKey {
        case error
    }

    private enum ErrorKeys: String, CodingKey {
        case code
        case message
    }

    public init(from decoder: any Decoder) throws {
        let outer = try decoder.container(keyedBy: CodingKeys.self)
        let inner = try outer.nestedContainer(keyedBy: ErrorKeys.self, forKey: .error)
        code = try inner.decode(String.self, forKey: .code)
        message = try inner.decode(String.self, forKey: .message)
    }

    public func encode(to encoder: any Encoder) throws {
        var outer = encoder.container(keyedBy: CodingKeys.self)
        var inner = outer.nestedContainer(keyedBy: ErrorKeys.self, forKey: .error)
        try inner.encode(code, forKey: .code)
        try inner.encode(message, forKey: .message)
    }
}

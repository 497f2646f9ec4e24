import Synchronization

/// Something that a `FakeS3Server` does wrong, for the requests it applies to.
public struct FakeS3Fault: Sendable {
    /// What a server can disregard.
    public enum Disregard: Sendable {
        /// `Range`: the whole object comes, with status 200.
        case range
        /// `If-Match` and all other conditions.
        case conditions
        /// The continuation token: the same page with the same token comes again and again.
        case progress
        /// The end of a listing: empty pages with ever new tokens.
        case end
    }

    public enum Action: Sendable {
        // MARK: Before the request has an effect

        /// Answers with an error; `status` may be 200.
        case fail(status: Int, code: String, headers: [(name: String, value: String)] = [])
        /// Answers with status 307 and another place, whose path is that of the request.
        case redirect(to: String)
        case delay(Duration)
        /// Waits until the gate is opened; until the client gives up if it never is.
        case wait(FakeS3Gate)
        case disregard(Disregard)
        /// Closes the connection when that many bytes of the request's body have come.
        case cutRequest(afterBytes: Int64)

        // MARK: After the request had its effect

        /// Answers with an error although the request was carried out.
        case failAfterEffect(status: Int, code: String)
        /// Closes the connection after that many bytes of the answer's body; `nil`: before its
        /// first header.
        case cutAnswer(afterBytes: Int64?)
        /// Sends no more after that many bytes of the answer's body, and keeps the connection.
        case stallAnswer(afterBytes: Int64)
        /// Adds to the `Content-Length` that the answer really has.
        case wrongLength(by: Int64)
        /// Takes headers of these names out of the answer and adds these.
        case replaceHeaders([(name: String, value: String)])
        /// Puts another body in the answer, with its right length.
        case rewriteBody(@Sendable ([UInt8]) -> [UInt8])
        /// Sends these bytes instead of status, headers and body, and closes the connection.
        case raw([UInt8])
        /// Limits the answer to that many bytes a second.
        case trickle(bytesPerSecond: Int)
    }

    public var action: Action
    /// Which requests; all by default.
    public var applies: @Sendable (FakeS3Request) -> Bool
    /// How many requests that it applies to are spared first.
    public var skipping: Int
    /// How many requests it hits; `nil` for all.
    public var count: Int?

    public init(
        _ action: Action,
        skipping: Int = 0,
        count: Int? = 1,
        when applies: @escaping @Sendable (FakeS3Request) -> Bool = { _ in true }
    ) {
        self.action = action
        self.skipping = skipping
        self.count = count
        self.applies = applies
    }

    /// For requests of some kinds, or whose key is `key`.
    public init(
        _ action: Action,
        skipping: Int = 0,
        count: Int? = 1,
        on kinds: FakeS3RequestKind...,
        key: FakeS3Key? = nil
    ) {
        self.init(action, skipping: skipping, count: count) { request in
            (kinds.isEmpty || kinds.contains(request.kind)) && (key == nil || key == request.key)
        }
    }

    /// Whether it hits this request; counts it if so.
    mutating func hits(_ request: FakeS3Request) -> Bool {
        guard count != 0, applies(request) else { return false }
        guard skipping == 0 else {
            skipping -= 1
            return false
        }
        if let left = count { count = left - 1 }
        return true
    }
}

extension FakeS3Fault.Action {
    /// A document whose entities would take gigabytes if they were replaced.
    public static var xmlBomb: Self {
        let entities = (1...9)
            .map { "<!ENTITY a\($0) \"" + String(repeating: "&a\($0 - 1);", count: 10) + "\">" }
            .joined()
        let bomb =
            "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY a0 \"aaaaaaaaaa\">\(entities)]>"
            + "<ListBucketResult><Name>&a9;</Name></ListBucketResult>"
        return .rewriteBody { _ in Array(bomb.utf8) }
    }

    /// A document of elements in elements.
    public static func nestedXML(depth: Int) -> Self {
        .rewriteBody { _ in
            Array(String(repeating: "<a>", count: depth).utf8)
                + Array(String(repeating: "</a>", count: depth).utf8)
        }
    }

    /// The first bytes of the right document, with the length of what is sent.
    public static func truncatedBody(byteCount: Int) -> Self {
        .rewriteBody { Array($0.prefix(byteCount)) }
    }

    /// One wrong byte in the middle of the body.
    public static var corruptBody: Self {
        .rewriteBody { bytes in
            var bytes = bytes
            if !bytes.isEmpty { bytes[bytes.count / 2] ^= 1 }
            return bytes
        }
    }

    /// Status 503 SlowDown.
    public static func slowDown(retryAfter seconds: Int? = nil) -> Self {
        .fail(
            status: 503,
            code: "SlowDown",
            headers: seconds.map { [("Retry-After", "\($0)")] } ?? []
        )
    }
}

/// Holds requests back until a test lets them go.
public final class FakeS3Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())

    public init() {}

    /// How many requests are held back.
    public var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Lets those go that wait, and all that come later.
    public func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for action in waiting { action() }
    }

    func whenOpen(_ action: @escaping @Sendable () -> Void) {
        let isOpen = state.withLock { state in
            if !state.isOpen { state.waiting.append(action) }
            return state.isOpen
        }
        if isOpen { action() }
    }
}

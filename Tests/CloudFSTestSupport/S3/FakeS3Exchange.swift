import CloudFS
import NIOCore

/// A request on a connection, with what is to go wrong, until its answer is sent.
final class FakeS3Exchange {
    let request: FakeS3Request
    var actions: [FakeS3Fault.Action]
    let started = NIODeadline.now()
    var keepsAlive: Bool
    var body = ByteBuffer()
    var bodyByteCount: Int64 = 0
    /// Bytes a second in each direction.
    var rate: Int?
    var isPaused = false
    var isAnswering = false

    init(_ request: FakeS3Request, _ actions: [FakeS3Fault.Action], keepsAlive: Bool) {
        self.request = request
        self.actions = actions
        self.keepsAlive = keepsAlive
    }

    var failsAtOnce: Bool {
        actions.contains { action in
            if case .fail = action { true } else { false }
        }
    }

    /// What the faults make of an answer.
    func faulty(_ answer: FakeS3Answer) -> FakeS3Answer {
        var answer = answer
        for action in actions {
            switch action {
            case .failAfterEffect(let status, let code):
                answer = FakeS3Failure(status, code).answer(to: request)
            case .replaceHeaders(let headers):
                for header in headers {
                    answer.headers.removeAll {
                        $0.name.lowercased() == header.name.lowercased()
                    }
                }
                answer.headers += headers
            case .rewriteBody(let rewrite):
                let piece = answer.content.piece(answer.bodyRange)
                let bytes = rewrite(Array(piece.readableBytesView))
                answer.content = .bytes(ByteBuffer(bytes: bytes))
                answer.range = nil
            default:
                break
            }
        }
        return answer
    }
}

/// Sends an answer piece by piece: no faster than the client reads and the rate allows.
final class FakeS3Sender {
    enum Step {
        case piece(ByteBuffer)
        case pause(until: NIODeadline)
        /// Nothing more, and the connection stays.
        case stall
        case end(closes: Bool)
    }

    let head: String
    private(set) var isCutBeforeHead = false
    /// When a pause ends.
    var scheduled: NIODeadline?
    private let content: FakeS3Content
    private let start: Int64
    private var range: Range<Int64>
    private let started = NIODeadline.now()
    private var rate: Int?
    private var stalls = false
    private var closes: Bool

    init(_ answer: FakeS3Answer, of exchange: FakeS3Exchange, now: Timestamp) {
        let whole = answer.bodyRange
        var length = Int64(whole.count)
        var end = whole.upperBound
        rate = exchange.rate
        closes = !exchange.keepsAlive
        for action in exchange.actions {
            switch action {
            case .wrongLength(let difference):
                length += difference
                closes = true
            case .cutAnswer(let byteCount):
                isCutBeforeHead = byteCount == nil
                end = min(end, whole.lowerBound + (byteCount ?? 0))
                closes = true
            case .stallAnswer(let byteCount):
                end = min(end, whole.lowerBound + byteCount)
                stalls = true
            case .trickle(let bytesPerSecond):
                rate = min(rate ?? bytesPerSecond, bytesPerSecond)
            default:
                break
            }
        }
        let hasBody =
            exchange.request.method != "HEAD" && answer.status != 204
            && answer.status != 304
        content = answer.content
        start = whole.lowerBound
        range = hasBody ? start..<end : start..<start
        let hasLength = answer.headers.contains { $0.name.lowercased() == "content-length" }
        var head = "HTTP/1.1 \(answer.status) \(FakeS3Answer.reason(answer.status))\r\n"
        for (name, value) in answer.headers { head += "\(name): \(value)\r\n" }
        if !answer.headers.contains(where: { $0.name.lowercased() == "date" }) {
            head += "Date: \(FakeS3Time.http(now))\r\n"
        }
        head += "x-amz-request-id: \(exchange.request.number)\r\n"
        if answer.status != 204, answer.status != 304, !hasLength {
            head += "Content-Length: \(length)\r\n"
        }
        if !exchange.keepsAlive { head += "Connection: close\r\n" }
        self.head = head + "\r\n"
    }

    func next() -> Step {
        guard !range.isEmpty else { return stalls ? .stall : .end(closes: closes) }
        var limit = 256 << 10
        if let rate {
            let due = started + .time(of: range.lowerBound - start, at: rate)
            if due > .now() { return .pause(until: due) }
            // What a fiftieth of a second allows.
            limit = min(limit, max(rate / 50, 1))
        }
        let end = min(range.lowerBound + Int64(limit), range.upperBound)
        let piece = content.piece(range.lowerBound..<end)
        range = end..<range.upperBound
        return .piece(piece)
    }
}

extension TimeAmount {
    /// The time that so many bytes take.
    static func time(of byteCount: Int64, at rate: Int) -> TimeAmount {
        .nanoseconds(Int64(Double(byteCount) / Double(rate) * 1e9))
    }
}

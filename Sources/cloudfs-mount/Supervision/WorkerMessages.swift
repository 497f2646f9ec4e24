import CloudFS

/// What a worker tells its supervisor.
enum WorkerReport: Sendable {
    /// It waits for its order to begin, and can go on with mounts of this format.
    case standsBy(format: String)
    /// A line for the user, who still has to wait.
    case note(String)
    /// The drive is mounted; the message carries `/dev/fuse`.
    case mounted(isResumable: Bool)
    /// The drive is usable.
    case ready
    /// The drive's state in words, for the service manager.
    case status(String)
    /// It ends, and why.
    case stopping(String)
    /// The mount is gone.
    case over
    /// Somebody asked for another worker.
    case restart
    /// The drive will never be usable.
    case failed(CloudFSError)
    /// Its last word.
    case ended(status: Int32)

    /// The report as one line.
    var text: String {
        switch self {
        case .standsBy(let format): "stands-by \(format)"
        case .note(let sentence): "note \(sentence)"
        case .mounted(let isResumable): "mounted \(isResumable)"
        case .ready: "ready"
        case .status(let sentence): "status \(sentence)"
        case .stopping(let reason): "stopping \(reason)"
        case .over: "over"
        case .restart: "restart"
        case .failed(let error): "failed \(error.code.rawValue) \(error.message)"
        case .ended(let status): "ended \(status)"
        }
    }

    /// Understands what `text` wrote; `nil` for anything else.
    init?(_ text: String) {
        let words = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        let rest = words.count == 2 ? String(words[1]) : ""
        switch words.first {
        case "stands-by": self = .standsBy(format: rest)
        case "note": self = .note(rest)
        case "mounted": self = .mounted(isResumable: rest == "true")
        case "ready": self = .ready
        case "status": self = .status(rest)
        case "stopping": self = .stopping(rest)
        case "over": self = .over
        case "restart": self = .restart
        case "failed":
            guard let error = Self.error(rest) else { return nil }
            self = .failed(error)
        case "ended":
            guard let status = Int32(rest) else { return nil }
            self = .ended(status: status)
        default: return nil
        }
    }

    private static func error(_ text: String) -> CloudFSError? {
        let words = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard words.count == 2, let code = CloudFSError.Code(rawValue: String(words[0])) else {
            return nil
        }
        return CloudFSError(code, String(words[1]))
    }
}

/// What a supervisor orders.
enum SupervisorOrder: Sendable, Equatable {
    /// Mount the drive of this drive file, or go on with its mount.
    ///
    /// The message carries the lock of the state directory, the three files of `KeptDescriptors`,
    /// and `/dev/fuse` if there is one.
    case begin(driveFile: String)
    /// End as this signal asks.
    case end(signal: Int32)
    /// Go on: there is no other worker, and why.
    case goOn(reason: String)

    /// The order as text.
    var text: String {
        switch self {
        case .begin(let driveFile): "begin \(driveFile)"
        case .end(let signal): "end \(signal)"
        case .goOn(let reason): "go-on \(reason)"
        }
    }

    /// Understands what `text` wrote; `nil` for anything else.
    init?(_ text: String) {
        guard let space = text.firstIndex(of: " ") else { return nil }
        let rest = String(text[text.index(after: space)...])
        switch text[..<space] {
        case "begin": self = .begin(driveFile: rest)
        case "end":
            guard let signal = Int32(rest) else { return nil }
            self = .end(signal: signal)
        case "go-on": self = .goOn(reason: rest)
        default: return nil
        }
    }
}

extension MessageSocket {
    /// - Returns: Whether the supervisor is there to hear it.
    @discardableResult
    func send(_ report: WorkerReport, _ descriptors: [Int32] = []) -> Bool {
        send(report.text, descriptors) == 0
    }

    /// - Returns: Whether the worker is there to hear it.
    @discardableResult
    func send(_ order: SupervisorOrder, _ descriptors: [Int32] = []) -> Bool {
        send(order.text, descriptors) == 0
    }
}

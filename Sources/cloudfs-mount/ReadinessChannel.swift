import CloudFS
import Glibc
import Synchronization

/// The pipe from a daemon to the launcher that waits for it, one line for each report.
///
/// It is closed with the report that the drive is usable: its number may then be another file's.
final class ReadinessChannel: Sendable {
    enum Report: Sendable {
        /// The drive is usable.
        case ready
        /// A line for the user, who still has to wait.
        case note(String)
        /// It will never be usable.
        case failed(CloudFSError)
    }

    let descriptor: Int32
    private let isOpen = Mutex(true)

    init(descriptor: Int32) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    /// Writes one report; nothing after the drive was said to be usable.
    ///
    /// - Returns: Whether somebody is still listening.
    @discardableResult
    func report(_ report: Report) -> Bool {
        isOpen.withLock { isOpen in
            guard isOpen else { return false }
            let isHeard = write(report)
            if case .ready = report {
                close(descriptor)
                isOpen = false
            }
            return isHeard
        }
    }

    private func write(_ report: Report) -> Bool {
        let line =
            switch report {
            case .ready: "ready"
            case .note(let sentence): "note \(sentence)"
            case .failed(let error): "\(error.code.rawValue) \(error.message)"
            }
        let flat = line.map { $0.isNewline ? " " : $0 }
        let bytes = Array("\(String(flat))\n".utf8)
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Understands a line that `report` wrote.
    static func parse(_ line: Substring) -> Report? {
        let words = line.split(separator: " ", maxSplits: 1)
        guard let first = words.first else { return nil }
        let sentence = words.count == 2 ? String(words[1]) : ""
        switch first {
        case "ready": return .ready
        case "note": return .note(sentence)
        default:
            return CloudFSError.Code(rawValue: String(first))
                .map { .failed(CloudFSError($0, sentence)) }
        }
    }
}

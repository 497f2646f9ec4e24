import Dispatch
import Logging
import Synchronization

/// A log that keeps its messages.
final class RecordingLog: LogHandler {
    private let least: Logger.Level
    private let list = Mutex<[String]>([])
    private let written = DispatchSemaphore(value: 0)

    /// - Parameter least: What is less than that is not kept.
    init(from least: Logger.Level = .trace) {
        self.least = least
    }

    var messages: [String] { list.withLock { $0 } }

    func wait() { written.wait() }

    func log(event: LogEvent) {
        guard event.level >= least else { return }
        list.withLock { $0.append("\(event.message)") }
        written.signal()
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }

    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
}

import Logging

@testable import CloudFS

/// The engine's log, as lines of the trace.
struct TraceLog: LogHandler {
    let device: String
    /// Told of what breaks a rule of the engine itself, whatever becomes of it.
    let onFailure: @Sendable (String) -> Void
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let facts = (event.metadata ?? [:]).sorted { $0.key < $1.key }
            .map { " \($0.key)=\($0.value)" }.joined()
        let line = "[\(event.level)] \(event.message)\(facts)"
        Trace.note(device, line)
        let codes: [CloudFSError.Code] = [.internalFailure, .corrupt]
        if codes.contains(where: { facts.contains("(\($0.rawValue)") }) { onFailure(line) }
    }
}

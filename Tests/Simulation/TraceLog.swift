import Logging

/// The engine's log, as lines of the trace.
struct TraceLog: LogHandler {
    let device: String
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let facts = (event.metadata ?? [:]).sorted { $0.key < $1.key }
            .map { " \($0.key)=\($0.value)" }.joined()
        Trace.note(device, "[\(event.level)] \(event.message)\(facts)")
    }
}

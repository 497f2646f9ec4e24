import CFuse
import Glibc
import Logging
import Synchronization

/// What libfuse has to say: for the log, and as the reason when mounting fails.
///
/// libfuse has one log function a process and prints to standard error without one.
enum FuseLog {
    private struct State {
        var logger: Logger?
        var lines: [String] = []
    }

    private static let state = Mutex(State())

    /// Sends libfuse's messages to `logger` from now on.
    static func install(_ logger: Logger) {
        state.withLock { $0.logger = logger }
        fuse_set_log_func { level, format, arguments in
            guard let format, let arguments else { return }
            FuseLog.add(level, FuseLog.text(format, arguments))
        }
    }

    /// The messages since the last call.
    static func takeLines() -> [String] {
        state.withLock { state in
            defer { state.lines = [] }
            return state.lines
        }
    }

    private static func text(
        _ format: UnsafePointer<CChar>,
        _ arguments: CVaListPointer
    ) -> String {
        var buffer = [CChar](repeating: 0, count: 1024)
        let length = Int(vsnprintf(&buffer, buffer.count, format, arguments))
        let bytes = buffer.prefix(max(0, min(length, buffer.count - 1)))
        return String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func add(_ level: fuse_log_level, _ text: String) {
        let text = String(text.trimming { $0.isWhitespace })
        let logger = state.withLock { state in
            state.lines = state.lines.suffix(7) + [text]
            return state.logger
        }
        logger?.log(
            level: level.rawValue <= FUSE_LOG_ERR.rawValue ? .info : .debug,
            "libfuse reports something.",
            metadata: ["fuse.message": "\(text)"]
        )
    }
}

extension String {
    fileprivate func trimming(_ isUnwanted: (Character) -> Bool) -> Substring {
        let head = drop(while: isUnwanted)
        guard let last = head.lastIndex(where: { !isUnwanted($0) }) else { return "" }
        return head[...last]
    }
}

import Glibc

/// Where programs find what others installed for all of them.
///
/// - Source: XDG Base Directory specification.
enum DataFolders {
    /// Absolute paths, the most important first.
    static func all() -> [String] {
        func value(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        let own = value("XDG_DATA_HOME") ?? value("HOME").map { $0 + "/.local/share" }
        let others = value("XDG_DATA_DIRS") ?? "/usr/local/share:/usr/share"
        let all = (own.map { [$0] } ?? []) + others.split(separator: ":").map(String.init)
        return all.filter { $0.hasPrefix("/") }
    }
}

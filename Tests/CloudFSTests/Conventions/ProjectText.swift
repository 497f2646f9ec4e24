import Foundation
import Testing

/// The project's own text files, as the tests of its conventions read them.
struct ProjectText {
    /// Relative to the root of the package.
    let path: String
    let text: String

    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

    /// The folder that holds `Package.swift`.
    static let root: URL = {
        var folder = URL(filePath: #filePath).deletingLastPathComponent()
        while folder.path != "/" {
            let manifest = folder.appending(path: "Package.swift").path
            if FileManager.default.fileExists(atPath: manifest) { return folder }
            folder.deleteLastPathComponent()
        }
        preconditionFailure("no Package.swift above \(#filePath)")
    }()

    /// The files below a folder (or the one file) whose name ends as asked, sorted by path.
    static func all(under start: String, withExtensions wanted: Set<String>) throws -> [Self] {
        try paths(under: start)
            .filter { wanted.contains(URL(filePath: $0).pathExtension) }
            .map { path in
                Self(
                    path: path,
                    text: try String(contentsOf: root.appending(path: path), encoding: .utf8)
                )
            }
    }

    /// The paths of all regular files below a folder, sorted; no symbolic link is followed.
    static func paths(under start: String) throws -> [String] {
        let base = root.appending(path: start)
        let found = FileManager.default.enumerator(
            at: base,
            includingPropertiesForKeys: [.isRegularFileKey]
        )
        // Both sides resolved the same way, or the prefix could not be taken off.
        let prefix = root.standardizedFileURL.path + "/"
        var paths: [String] = []
        for case let url as URL in found ?? .init() {
            let isFile = try url.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile
            guard isFile == true else { continue }
            let path = url.standardizedFileURL.path
            try #require(path.hasPrefix(prefix), "\(path) lies outside of \(prefix)")
            paths.append(String(path.dropFirst(prefix.count)))
        }
        return paths.sorted()
    }

    /// Every Markdown document: those of the root, those of `docs`, those beside sources.
    static func documents() throws -> [Self] {
        let top = try FileManager.default.contentsOfDirectory(atPath: root.path)
            .filter { $0.hasSuffix(".md") }
            .map { path in
                Self(
                    path: path,
                    text: try String(contentsOf: root.appending(path: path), encoding: .utf8)
                )
            }
        return try top
            + ["docs", "Sources", "Tests"].flatMap {
                try all(under: $0, withExtensions: ["md"])
            }
    }

    /// Swift source without its comments and string literals; the format has no block comments.
    var code: String {
        text
            .replacing(/(?s)""".*?"""/, with: "\"\"")
            .replacing(/"(?:\\.|[^"\\\n])*"/, with: "\"\"")
            .replacing(/\/\/[^\n]*/, with: "")
    }
}

import Foundation
import Testing

/// Small rules that nobody should have to remember when reading a patch.
@Suite struct TidyTests {
    private static let sourceLineLimit = 100
    private static let sourceFileLimit = 450

    private func swiftFiles() throws -> [ProjectText] {
        let files = try ["Sources", "Tests"].flatMap {
            try ProjectText.all(under: $0, withExtensions: ["swift", "h", "c", "modulemap"])
        }
        try #require(files.count > 10)
        return files
    }

    @Test func `no line of source is longer than the limit`() throws {
        for file in try swiftFiles() {
            for (index, line) in file.lines.enumerated() where line.count > Self.sourceLineLimit {
                // A regular expression literal cannot be broken.
                if line.drop(while: { $0 == " " }).hasPrefix("/(") { continue }
                Issue.record("\(file.path):\(index + 1) has \(line.count) columns")
            }
        }
    }

    @Test func `no marker of unfinished work is left`() throws {
        // Put together here, so that this file does not find itself.
        let markers = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK:"]
        let scripts = try ProjectText.all(under: "scripts", withExtensions: ["", "sh"])
        for file in try swiftFiles() + scripts + ProjectText.documents() {
            for (index, line) in file.lines.enumerated() {
                for marker in markers where line.contains(marker) && !line.contains("XXXX") {
                    Issue.record("\(file.path):\(index + 1) still says \(marker)")
                }
            }
        }
    }

    @Test func `no source file is too long to read at one sitting`() throws {
        for file in try ProjectText.all(under: "Sources", withExtensions: ["swift"]) {
            let count = file.lines.count
            #expect(count <= Self.sourceFileLimit, "\(file.path) has \(count) lines: split it")
        }
    }

    @Test func `no file is empty and every source file declares something`() throws {
        for file in try swiftFiles() {
            let words = file.code.split(whereSeparator: \.isWhitespace)
            #expect(!words.isEmpty, "\(file.path) is empty")
        }
    }

    @Test func `forbidden short cuts are not taken`() throws {
        let escapes = [/\bnonisolated\(unsafe\)/, /@preconcurrency\b/, /\btry!/, /\bas!/]
        for file in try ProjectText.all(under: "Sources", withExtensions: ["swift"]) {
            let code = file.code
            for escape in escapes {
                #expect(code.firstMatch(of: escape) == nil, "\(file.path) takes a short cut")
            }
            if code.contains("@unchecked Sendable") {
                #expect(
                    [
                        "FuseRequest.swift", "KernelPort.swift", "ContentFile.swift",
                        "SeenMutex.swift", "SharedLock.swift", "CompiledStatements.swift",
                    ].contains { file.path.hasSuffix("/" + $0) },
                    "\(file.path) is unchecked"
                )
            }
        }
    }

    @Test func `every document has one title`() throws {
        let documents = try ProjectText.documents()
        try #require(!documents.isEmpty)
        for document in documents {
            let titles = document.proseLines.filter { $0.hasPrefix("# ") }
            #expect(titles.count == 1, "\(document.path) has \(titles.count) titles")
            #expect(
                document.proseLines.first?.hasPrefix("# ") == true,
                "\(document.path) does not begin with its title"
            )
        }
    }

    @Test func `every link in a document leads somewhere`() throws {
        for document in try ProjectText.documents() {
            let folder = ProjectText.root.appending(path: document.path)
                .deletingLastPathComponent()
            for target in document.linkTargets {
                let path = String(target.prefix { $0 != "#" })
                guard !path.isEmpty, !path.contains("://"), !path.hasPrefix("mailto:")
                else { continue }
                let exists = FileManager.default.fileExists(
                    atPath: folder.appending(path: path).path
                )
                #expect(exists, "\(document.path) links to \(path), which does not exist")
            }
        }
    }

    @Test func `every document can be found from another`() throws {
        let documents = try ProjectText.documents()
        for document in documents where document.path.hasPrefix("docs/") {
            let name = URL(filePath: document.path).lastPathComponent
            let isMentioned = documents.contains { other in
                other.path != document.path && other.text.contains(name)
            }
            #expect(isMentioned, "no document mentions \(document.path)")
        }
    }

    @Test func `every section of the semantics names a test that exists`() throws {
        let semantics = try #require(
            try ProjectText.all(under: "docs", withExtensions: ["md"])
                .first { $0.path == "docs/semantics.md" },
            "docs/semantics.md is missing"
        )
        let tests = try ProjectText.all(under: "Tests", withExtensions: ["swift"])
        let names = Set(
            tests.flatMap { file in
                file.text.matches(of: /func `([^`]+)`/).map { String($0.output.1) }
                    + file.text.matches(of: /\b(?:struct|class)\s+(\w+Tests)\b/)
                    .map { String($0.output.1) }
            }
        )
        let sections = semantics.sections
        try #require(!sections.isEmpty)
        // The tenets and the introduction state aims; everything else states behaviour.
        for section in sections where !section.title.lowercased().contains("tenet") {
            let quoted = section.text.matches(of: /`([^`\n]+)`/).map { String($0.output.1) }
            #expect(
                quoted.contains(where: names.contains),
                "docs/semantics.md: \"\(section.title)\" names no existing test"
            )
        }
    }

    @Test func `every script explains itself`() throws {
        for file in try ProjectText.all(under: "scripts", withExtensions: [""]) {
            try #require(file.text.hasPrefix("#!"), "\(file.path) has no interpreter line")
            #expect(file.text.contains("set -euo pipefail"), "\(file.path) ignores failures")
            #expect(file.text.contains("# Usage: \(file.path)"), "\(file.path) has no usage")
            #expect(file.text.contains("--help"), "\(file.path) has no --help")
        }
    }
}

/// A part of a document under one heading of the second level.
private struct DocumentSection {
    let title: String
    var text: String
}

extension ProjectText {
    /// The lines outside of code blocks, blank ones left out.
    fileprivate var proseLines: [Substring] {
        var isCode = false
        return lines.filter { line in
            if line.hasPrefix("```") { isCode.toggle() }
            return !isCode && !line.hasPrefix("```") && !line.isEmpty
        }
    }

    fileprivate var linkTargets: [String] {
        proseLines.flatMap { line in
            line.matches(of: /\]\(([^)\s]+)\)/).map { String($0.output.1) }
        }
    }

    fileprivate var sections: [DocumentSection] {
        var found: [DocumentSection] = []
        for line in lines {
            if line.hasPrefix("## ") {
                found.append(DocumentSection(title: String(line.dropFirst(3)), text: ""))
            } else if !found.isEmpty {
                found[found.count - 1].text += line + "\n"
            }
        }
        return found
    }
}

/// An application as its desktop entry describes it, as far as opening documents goes.
///
/// - Source: Desktop Entry Specification 1.5.
public struct DesktopEntry: Sendable, Hashable {
    /// The file's name in its folder of applications, without `.desktop`.
    public let id: String
    public let name: String
    /// MIME types that it opens, in small letters.
    public let mimeTypes: [String]
    /// What it does with a document.
    public let role: Role
    /// Whether it needs a terminal.
    public let needsTerminal: Bool
    /// A program without which it cannot be used.
    let tryExec: String?
    /// Where it wants to be started.
    public let workingFolder: String?
    private let exec: [Word]
    private let icon: String?
    private let path: String

    /// What an application does with documents, as Apple's document types have it.
    public enum Role: String, Sendable, Hashable, Codable, CaseIterable {
        case editor
        /// It shows them and changes none.
        case viewer

        /// - Source: Desktop Menu Specification, "Registered Categories": the additional ones of
        ///   programs that show or play; whatever says that it edits does.
        init(categories: [String]) {
            let showing: Set = ["Viewer", "Player", "WebBrowser"]
            let editing: Set = ["TextEditor", "WordProcessor", "AudioVideoEditing", "Midi", "IDE"]
            let own = Set(categories)
            self =
                own.isDisjoint(with: showing) || !own.isDisjoint(with: editing) ? .editor : .viewer
        }
    }

    /// A part of `Exec`: text, or a field code alone or in a text.
    private enum Piece: Sendable, Hashable {
        case text(String)
        case code(Character)
    }

    private typealias Word = [Piece]

    /// Most bytes of an entry.
    static let longest = 256 << 10
    /// Most types that an entry is believed to open, and words of its command.
    private static let most = 2_000

    /// What an entry says.
    enum Reading: Sendable, Hashable {
        case entry(DesktopEntry)
        /// It hides those of the same name in folders behind this one.
        case hidden
        /// It opens nothing, or is no entry.
        case none
    }

    /// Reads the text of an entry.
    ///
    /// - Parameter path: Where it is.
    static func read(_ text: String, id: String, path: String) -> Reading {
        let group = KeyFile(text).groups["Desktop Entry"] ?? [:]
        if group["Hidden"] == "true" { return .hidden }
        guard group["Type"] == "Application", let name = group["Name"].map(unescaped),
            let words = group["Exec"].flatMap({ words(of: unescaped($0)) })
        else { return .none }
        return .entry(
            DesktopEntry(
                id: id,
                name: name,
                mimeTypes: list(group["MimeType"]).map { $0.lowercased() },
                role: Role(categories: list(group["Categories"])),
                needsTerminal: group["Terminal"] == "true",
                tryExec: group["TryExec"].map(unescaped),
                workingFolder: group["Path"].map(unescaped).flatMap { $0.isEmpty ? nil : $0 },
                exec: words,
                icon: group["Icon"].map(unescaped),
                path: path
            )
        )
    }

    /// The values of a list.
    static func list(_ value: String?) -> [String] {
        (value ?? "").split(separator: ";", maxSplits: most).prefix(most).map {
            unescaped(String($0))
        }
    }

    /// A value with its escapes resolved: `\s`, `\n`, `\t`, `\r`, `\\`.
    private static func unescaped(_ value: String) -> String {
        guard value.contains("\\") else { return value }
        var result = ""
        var rest = value[...]
        while let character = rest.popFirst() {
            guard character == "\\", let next = rest.popFirst() else {
                result.append(character)
                continue
            }
            switch next {
            case "s": result.append(" ")
            case "n": result.append("\n")
            case "t": result.append("\t")
            case "r": result.append("\r")
            case "\\": result.append("\\")
            default: result += ["\\", next]
            }
        }
        return result
    }

    // MARK: - The command

    /// The words of `Exec`; `nil` for one that breaks the rules.
    private static func words(of exec: String) -> [Word]? {
        var words: [Word] = []
        var word: Word?
        var rest = exec[...]
        func append(_ text: Character, to word: inout Word?) {
            var pieces = word ?? []
            if case .text(let old)? = pieces.last {
                pieces[pieces.count - 1] = .text(old + String(text))
            } else {
                pieces.append(.text(String(text)))
            }
            word = pieces
        }
        while let character = rest.popFirst() {
            switch character {
            case " ", "\t", "\n":
                if let word { words.append(word) }
                word = nil
            case "\"":
                word = word ?? []
                guard let text = quoted(&rest) else { return nil }
                for character in text { append(character, to: &word) }
            case "%":
                guard let code = rest.popFirst(), "%fFuUickdDnNvm".contains(code) else {
                    return nil
                }
                if code == "%" {
                    append("%", to: &word)
                } else {
                    word = (word ?? []) + [.code(code)]
                }
            default: append(character, to: &word)
            }
        }
        if let word { words.append(word) }
        guard case .text? = words.first?.first, words.count <= most else { return nil }
        return words
    }

    /// What stands up to the next quotation mark; field codes mean nothing there.
    private static func quoted(_ rest: inout Substring) -> String? {
        var text = ""
        while let character = rest.popFirst() {
            if character == "\"" { return text }
            if character == "\\" {
                guard let next = rest.popFirst(), "\"`$\\".contains(next) else { return nil }
                text.append(next)
            } else {
                text.append(character)
            }
        }
        return nil
    }

    /// The program and its arguments for a document; no shell has a say in it.
    ///
    /// - Parameter file: An absolute path, which no program takes for an option.
    public func command(opening file: String) -> [String] {
        var takesFile = false
        var command: [String] = []
        for word in exec {
            if word == [.code("i")] {
                if let icon, !icon.isEmpty { command += ["--icon", icon] }
                continue
            }
            var text = ""
            var isDropped = true
            for piece in word {
                switch piece {
                case .text(let part):
                    text += part
                    isDropped = false
                case .code(let code):
                    guard let value = value(of: code, file) else { continue }
                    text += value
                    isDropped = false
                    if "fFuU".contains(code) { takesFile = true }
                }
            }
            if word.isEmpty || !isDropped { command.append(text) }
        }
        // An entry that says nothing of files is given it all the same, as desktops do.
        return takesFile ? command : command + [file]
    }

    private func value(of code: Character, _ file: String) -> String? {
        switch code {
        case "f", "F": file
        case "u", "U": Self.url(of: file)
        case "c": name
        case "k": path
        default: nil
        }
    }

    static func url(of file: String) -> String {
        var url = "file://"
        for byte in file.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                url.unicodeScalars.append(Unicode.Scalar(byte))
            case _ where "/-_.~".utf8.contains(byte):
                url.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                url += "%" + (byte < 16 ? "0" : "") + digits
            }
        }
        return url
    }
}

/// Groups of keys and values, as desktop entries and `mimeapps.list` have them.
struct KeyFile {
    private(set) var groups: [String: [String: String]] = [:]

    /// Most lines that are read.
    private static let mostLines = 50_000

    init(_ text: String) {
        var group: String?
        let lines = text.split(separator: "\n", maxSplits: Self.mostLines).prefix(Self.mostLines)
        for line in lines {
            let line = line.trimming { $0 == " " || $0 == "\t" || $0 == "\r" }
            if line.hasPrefix("#") { continue }
            if line.hasPrefix("[") {
                let name = line.hasSuffix("]") ? String(line.dropFirst().dropLast()) : nil
                // A group that comes twice counts once.
                group = name.flatMap { groups[$0] == nil ? $0 : nil }
                if let group { groups[group] = [:] }
                continue
            }
            guard let group, let sign = line.firstIndex(of: "=") else { continue }
            let key = line[..<sign].trimming { $0 == " " }
            let value = line[line.index(after: sign)...].trimming { $0 == " " }
            if groups[group]?[String(key)] == nil { groups[group]?[String(key)] = String(value) }
        }
    }
}

extension Substring {
    fileprivate func trimming(_ isBlank: (Character) -> Bool) -> Substring {
        var text = drop(while: isBlank)
        while let last = text.last, isBlank(last) { text.removeLast() }
        return text
    }
}

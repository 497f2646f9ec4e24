/// A file of sections with names and values, as AWS's tools write their configuration.
///
/// Sections that come twice are one, and of a name that comes twice the last value counts. Lines
/// below a name without a value are that name's own settings, kept as `name.inner`. What cannot be
/// understood is refused by its line number: a line itself may hold a secret.
/// - Source: AWS SDKs and Tools Reference Guide, "Shared config and credentials files"
struct INIDocument: Sendable, Equatable {
    /// No more bytes than this are looked at.
    static let byteLimit = 1 << 20

    /// Values by their name in small letters, by the section's name as written.
    private(set) var sections: [String: [String: String]] = [:]

    /// Understands `bytes`; `path` is for sentences only.
    ///
    /// - Throws: `tooLarge`; `invalidArgument` with the number of the line.
    init(parsing bytes: [UInt8], path: String) throws(CloudFSError) {
        guard bytes.count <= Self.byteLimit else {
            throw CloudFSError(.tooLarge, "\(path) is too large for a configuration file")
        }
        guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else {
            throw CloudFSError(.invalidArgument, "\(path) is no text in UTF-8")
        }
        var reader = Reader()
        let lines = text.drop { $0 == "\u{feff}" }
            .split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (index, line) in lines.enumerated() {
            if let complaint = reader.read(line) {
                throw CloudFSError(.invalidArgument, "line \(index + 1) of \(path) \(complaint)")
            }
        }
        sections = reader.sections
    }

    /// The values of the section called `name`.
    subscript(name: String) -> [String: String]? { sections[name] }
}

/// What was read so far, and what an indented line would belong to.
private struct Reader {
    var sections: [String: [String: String]] = [:]
    private var section: String?
    private var name: String?

    /// Reads one line; returns what is wrong with it.
    mutating func read(_ line: Substring) -> String? {
        let content = trimmed(line)
        guard let first = content.first, first != "#", first != ";" else { return nil }
        if first == "[" { return begin(content) }
        guard let section else { return "stands before any [section]" }
        if line.first?.isWhitespace == true, let name {
            return addIndented(content, to: name, in: section)
        }
        guard let (name, value) = setting(content) else { return "is no `name = value`" }
        sections[section, default: [:]][name] = value
        self.name = name
        return nil
    }

    private mutating func begin(_ content: Substring) -> String? {
        guard let end = content.firstIndex(of: "]") else { return "has a [ without ]" }
        let after = trimmed(content[content.index(after: end)...])
        guard after.isEmpty || after.first == "#" || after.first == ";" else {
            return "goes on after the ]"
        }
        let title = trimmed(content[..<end].dropFirst())
        guard !title.isEmpty else { return "names no section" }
        section = String(title)
        name = nil
        if sections[String(title)] == nil { sections[String(title)] = [:] }
        return nil
    }

    private mutating func addIndented(
        _ content: Substring,
        to name: String,
        in section: String
    ) -> String? {
        if sections[section]?[name]?.isEmpty == true {
            guard let (inner, innerValue) = setting(content) else { return "is no `name = value`" }
            sections[section]?["\(name).\(inner)"] = innerValue
        } else {
            // In place: a file of such lines must not take the square of its length.
            let more = withoutComment(content)
            sections[section]?[name]?.append("\n\(more)")
        }
        return nil
    }

    private func setting(_ content: Substring) -> (name: String, value: String)? {
        guard let equals = content.firstIndex(where: { $0 == "=" || $0 == ":" }) else { return nil }
        let name = trimmed(content[..<equals]).lowercased()
        guard !name.isEmpty else { return nil }
        return (name, withoutComment(trimmed(content[content.index(after: equals)...])))
    }

    /// A comment within a line begins after white space: a secret may contain the characters.
    private func withoutComment(_ value: Substring) -> String {
        var wasSpace = false
        for index in value.indices {
            if wasSpace, value[index] == "#" || value[index] == ";" {
                return String(trimmed(value[..<index]))
            }
            wasSpace = value[index].isWhitespace
        }
        return String(value)
    }

    private func trimmed(_ text: Substring) -> Substring {
        var text = text.drop(while: \.isWhitespace)
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }
}

/// Which items stay on this machine: glob patterns on names and paths, as bytes.
///
/// A pattern without `/` means a name anywhere; one with `/` means a path from the container's
/// root. `*` and `?` match within a name, `[a-z]` and `[!a-z]` one byte, `**` any number of
/// folders; `\` takes the next byte as it is; a `/` at the end means folders only. What lies in an
/// ignored folder is ignored with it. Matching takes time in proportion to pattern times name.
struct IgnorePatterns: Sendable {
    private struct Pattern: Sendable {
        var segments: [Segment]
        var isFolderOnly: Bool
    }

    private enum Segment: Sendable {
        /// `**`
        case anyFolders
        case name([Token])
    }

    private enum Token: Sendable {
        case byte(UInt8)
        case anyByte
        case anyRun
        case oneOf([ClosedRange<UInt8>], isNegated: Bool)
    }

    private let patterns: [Pattern]

    /// Takes one pattern each; empty ones mean nothing.
    init(_ patterns: [String]) {
        self.patterns = patterns.compactMap { Self.parse(Array($0.utf8)) }
    }

    /// Takes one pattern a line; empty lines and those that begin with `#` and a blank are notes.
    init(text: String) {
        self.init(
            text.split(separator: "\n").map(String.init).filter { !$0.hasPrefix("# ") }
        )
    }

    /// Whether the item at `path`, or a folder it lies in, is ignored.
    func ignores(_ path: [ItemName], isFolder: Bool) -> Bool {
        path.indices.contains { last in
            let isFolder = isFolder || last < path.count - 1
            return patterns.contains { pattern in
                (isFolder || !pattern.isFolderOnly)
                    && Self.matches(pattern.segments[...], path[...last])
            }
        }
    }

    // MARK: - Matching

    /// Goes through names and segments together; only the last `**` is ever gone back to.
    private static func matches(
        _ segments: ArraySlice<Segment>,
        _ names: ArraySlice<ItemName>
    ) -> Bool {
        var segment = segments.startIndex
        var name = names.startIndex
        var retry: (segment: Int, name: Int)?
        while name < names.endIndex {
            if segment < segments.endIndex, case .anyFolders = segments[segment] {
                segment += 1
                retry = (segment, name)
                continue
            }
            if segment < segments.endIndex, case .name(let tokens) = segments[segment],
                matches(tokens, names[name].bytes)
            {
                segment += 1
                name += 1
                continue
            }
            guard let last = retry else { return false }
            retry = (last.segment, last.name + 1)
            segment = last.segment
            name = last.name + 1
        }
        return segment == segments.endIndex
    }

    /// Goes through bytes and tokens together; only the last `*` is ever gone back to.
    private static func matches(_ tokens: [Token], _ bytes: [UInt8]) -> Bool {
        var token = 0
        var index = 0
        var retry: (token: Int, index: Int)?
        while index < bytes.count {
            if token < tokens.count {
                if case .anyRun = tokens[token] {
                    token += 1
                    retry = (token, index)
                    continue
                }
                if matches(tokens[token], bytes[index]) {
                    token += 1
                    index += 1
                    continue
                }
            }
            guard let last = retry else { return false }
            retry = (last.token, last.index + 1)
            token = last.token
            index = last.index + 1
        }
        return tokens[token...].allSatisfy { if case .anyRun = $0 { true } else { false } }
    }

    private static func matches(_ token: Token, _ byte: UInt8) -> Bool {
        switch token {
        case .byte(let wanted): wanted == byte
        case .anyByte, .anyRun: true
        case .oneOf(let ranges, let isNegated):
            ranges.contains { $0.contains(byte) } != isNegated
        }
    }

    // MARK: - Parsing

    private static func parse(_ text: [UInt8]) -> Pattern? {
        let slash: UInt8 = 0x2f
        var text = text[...]
        let isFolderOnly = text.last == slash
        while text.last == slash { text.removeLast() }
        guard !text.isEmpty else { return nil }
        let isPath = text.contains(slash)
        var segments: [Segment] = isPath ? [] : [.anyFolders]
        for part in text.split(separator: slash) {
            segments.append(Array(part) == [0x2a, 0x2a] ? .anyFolders : .name(tokens(of: part)))
        }
        // What ends with `**` means all that is inside, not the folder itself.
        if case .anyFolders = segments.last { segments.append(.name([.anyRun])) }
        return Pattern(segments: segments, isFolderOnly: isFolderOnly)
    }

    private static func tokens(of text: ArraySlice<UInt8>) -> [Token] {
        var tokens: [Token] = []
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "*"):
                if case .anyRun = tokens.last { continue }
                tokens.append(.anyRun)
            case UInt8(ascii: "?"):
                tokens.append(.anyByte)
            case UInt8(ascii: "\\"):
                tokens.append(.byte(rest.popFirst() ?? byte))
            case UInt8(ascii: "["):
                tokens.append(takeClass(from: &rest) ?? .byte(byte))
            default:
                tokens.append(.byte(byte))
            }
        }
        return tokens
    }

    /// Reads `a-z0]` or `!a-z]`; without an end the bracket is an ordinary byte.
    private static func takeClass(from text: inout ArraySlice<UInt8>) -> Token? {
        var rest = text
        let isNegated = rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "^")
        if isNegated { rest.removeFirst() }
        var ranges: [ClosedRange<UInt8>] = []
        while let low = rest.popFirst() {
            if low == UInt8(ascii: "]"), !ranges.isEmpty {
                text = rest
                return .oneOf(ranges, isNegated: isNegated)
            }
            var high = low
            let next = rest.dropFirst().first
            if rest.first == UInt8(ascii: "-"), let next, next != UInt8(ascii: "]") {
                rest.removeFirst(2)
                high = next
            }
            ranges.append(min(low, high)...max(low, high))
        }
        return nil
    }
}

/// What is wrong with the text of a query, and where.
struct QuerySyntaxError: Error, Sendable, Equatable {
    /// A sentence without a full stop.
    var message: String
    /// Counted in characters, from 1.
    var position: Int

    var failure: CloudFSError {
        CloudFSError(.invalidArgument, "the query at character \(position): \(message)")
    }
}

/// Cuts the text of a query into words and parentheses.
struct QueryLexer {
    /// A word such as `name:*.jpg`, in its parts.
    struct Word: Sendable, Equatable {
        /// What stands before the operator; `nil` for text alone.
        var field: String?
        /// One of `:`, `=`, `<`, `>`, `<=`, `>=`; empty for text alone.
        var sign = ""
        var value: String
        /// Whether some of the value was in quotes, and so means itself.
        var isQuoted = false
    }

    enum Token: Sendable, Equatable {
        case open
        case close
        case word(Word)
    }

    private let characters: [Character]
    private var index = 0

    /// The longest text, in bytes.
    static let longest = 4_096

    init(_ text: String) throws(QuerySyntaxError) {
        guard text.utf8.count <= Self.longest else {
            throw QuerySyntaxError(
                message: "it has more than \(Self.longest) bytes",
                position: 1
            )
        }
        characters = Array(text)
    }

    /// Where the next token begins, counted from 1.
    private(set) var position = 1

    mutating func next() throws(QuerySyntaxError) -> Token? {
        while index < characters.count, characters[index].isWhitespace { index += 1 }
        position = index + 1
        guard index < characters.count else { return nil }
        switch characters[index] {
        case "(":
            index += 1
            return .open
        case ")":
            index += 1
            return .close
        default: return .word(try word())
        }
    }

    private mutating func word() throws(QuerySyntaxError) -> Word {
        var word = Word(value: "")
        while index < characters.count {
            let character = characters[index]
            if character.isWhitespace || character == ")" || character == "(" { break }
            if character == "\"" {
                word.value += try quoted()
                word.isQuoted = true
            } else if word.field == nil, !word.isQuoted, !word.value.isEmpty,
                word.value.allSatisfy({ $0.isASCII && $0.isLetter || $0 == "-" }),
                let sign = sign()
            {
                word.field = word.value.lowercased()
                word.sign = sign
                word.value = ""
            } else {
                word.value.append(character)
                index += 1
            }
        }
        return word
    }

    private mutating func sign() -> String? {
        guard ":=<>".contains(characters[index]) else { return nil }
        var sign = String(characters[index])
        index += 1
        if sign == "<" || sign == ">", index < characters.count, characters[index] == "=" {
            sign += "="
            index += 1
        }
        return sign
    }

    private mutating func quoted() throws(QuerySyntaxError) -> String {
        let begin = index + 1
        var text = ""
        index += 1
        while index < characters.count {
            let character = characters[index]
            index += 1
            if character == "\"" { return text }
            if character == "\\", index < characters.count {
                text.append(characters[index])
                index += 1
            } else {
                text.append(character)
            }
        }
        throw QuerySyntaxError(message: "the quotation mark has no other one", position: begin)
    }
}

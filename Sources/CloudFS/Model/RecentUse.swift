/// When a person opened a document last, on any of the devices that share the list.
struct RecentUse: Sendable, Hashable {
    var document: DocumentID
    /// To the second.
    var opened: Timestamp

    /// How many a list has at most, the latest ones.
    static let most = 200

    /// The latest ones of both, one for each document.
    static func merged(_ first: [RecentUse], _ second: [RecentUse]) -> [RecentUse] {
        var latest: [DocumentID: Timestamp] = [:]
        for use in first + second {
            latest[use.document] = max(latest[use.document] ?? use.opened, use.opened)
        }
        let uses = latest.map { RecentUse(document: $0.key, opened: $0.value) }
        return Array(uses.sorted(by: isBefore).prefix(most))
    }

    /// Later ones first; which of two of one second does not matter, but is the same everywhere.
    private static func isBefore(_ one: RecentUse, _ other: RecentUse) -> Bool {
        one.opened == other.opened
            ? one.document.description < other.document.description
            : one.opened > other.opened
    }

    // MARK: - Text

    /// More bytes than a list has.
    static let textLimit = 16_384

    /// A line for each: the document's identity, and the seconds since 1970.
    static func text(of uses: [RecentUse]) -> [UInt8] {
        Array(uses.map { "\($0.document) \($0.opened.seconds)\n" }.joined().utf8)
    }

    /// What a text says; lines that make no sense are left out, as anybody may have written them.
    ///
    /// - Parameter now: Nothing was opened later, whatever another device's clock says.
    static func uses(in text: [UInt8], now: Timestamp) -> [RecentUse] {
        text.split(separator: UInt8(ascii: "\n")).prefix(most).compactMap { line in
            let words = String(decoding: line, as: UTF8.self).split(separator: " ")
            guard words.count == 2, let document = DocumentID(String(words[0])),
                let seconds = Int64(words[1]), seconds >= 0
            else { return nil }
            let opened = Timestamp(seconds: min(seconds, now.seconds), nanoseconds: 0)
            return RecentUse(document: document, opened: opened)
        }
    }
}

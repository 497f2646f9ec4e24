/// The JSON document that the attribute `user.cloudfs` is.
struct AttributeDocument {
    private let facts: ItemFacts

    init(_ facts: ItemFacts) {
        self.facts = facts
    }

    /// One object, keys in the order a person reads them.
    var text: String {
        var fields: [String] = []
        func add(_ key: String, _ value: String) { fields.append("\(Self.quoted(key)):\(value)") }
        func text(_ key: String, _ value: String?) {
            if let value { add(key, Self.quoted(value)) }
        }
        text("status", facts.status.rawValue)
        text("kind", facts.item.kind.word)
        add("size", String(facts.size))
        add("downloaded-bytes", String(facts.localBytes))
        add("percent-downloaded", AttributeName.percent(facts.percentDownloaded))
        if let sent = facts.percentUploaded {
            add("percent-uploaded", AttributeName.percent(sent))
        }
        text("downloading-status", facts.downloadingStatus)
        text("pin", facts.item.content.policy.word)
        text("effective-pin", facts.effectivePolicy.word)
        text("error", facts.error)
        add("has-conflicts", String(facts.hasConflicts))
        add("has-newer-version", String(facts.hasNewer))
        add("favorite", String(facts.isFavorite))
        text("last-used", facts.lastUsed?.text)
        text("item-id", facts.item.documentID.description)
        text("version", facts.version?.content)
        text("content-type", facts.contentType)
        if !facts.contentTypeTree.isEmpty {
            let types = facts.contentTypeTree.map(Self.quoted).joined(separator: ",")
            add("content-type-tree", "[\(types)]")
        }
        text("container", facts.container)
        if let fetched = facts.fetched {
            add("fetch-count", String(fetched.requests))
            add("fetched-bytes", String(fetched.bytes))
        }
        return "{" + fields.joined(separator: ",") + "}"
    }

    /// A JSON string; bytes that are no UTF-8 were replaced before.
    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\t": result += "\\t"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}

extension ItemKind {
    var word: String {
        switch self {
        case .file: "file"
        case .folder: "folder"
        case .symlink: "symlink"
        case .fifo: "fifo"
        case .socket: "socket"
        }
    }
}

/// Where a page of results ends, and the next one goes on.
struct QueryPosition: Sendable, Equatable {
    /// What the results are ordered by.
    enum Key: Sendable, Equatable {
        case number(Int64)
        case text([UInt8])
    }

    var key: Key
    /// The row of the name, among those with the same key.
    var row: Int64

    init(key: Key, row: Int64) {
        self.key = key
        self.row = row
    }

    /// As clients carry it from page to page.
    var text: String {
        switch key {
        case .number(let number): "n\(number).\(row)"
        case .text(let bytes): "t\(Hexadecimal.text(bytes)).\(row)"
        }
    }

    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, text.utf8.count <= 1_024, let row = Int64(parts[1]) else {
            return nil
        }
        self.row = row
        let value = parts[0].dropFirst()
        switch parts[0].first {
        case "n":
            guard let number = Int64(value) else { return nil }
            key = .number(number)
        case "t":
            guard let bytes = Hexadecimal.bytes(value.utf8) else { return nil }
            key = .text(bytes)
        default: return nil
        }
    }
}

/// Where a page of results ends, and the next one goes on.
struct QueryPosition: Sendable, Equatable {
    /// What the results are ordered by.
    enum Key: Sendable, Equatable {
        case number(Int64)
        case text([UInt8])

        /// Digits whose bytes have the order of the results, whichever drive these are of.
        func digits(isDescending: Bool) -> String {
            let bytes =
                switch self {
                case .number(let number): Self.bytes(of: number)
                case .text(let bytes): bytes
                }
            // Behind every longer one that begins so.
            return isDescending
                ? Hexadecimal.text(bytes.map(~)) + "g" : Hexadecimal.text(bytes)
        }

        /// Negative ones first.
        private static func bytes(of number: Int64) -> [UInt8] {
            let ordered = UInt64(bitPattern: number) ^ 1 << 63
            return stride(from: 56, through: 0, by: -8).map {
                UInt8(truncatingIfNeeded: ordered >> UInt64($0))
            }
        }
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

/// A number of bytes as people write it: `20GiB`, `500MB`, `10G`, `4096`.
///
/// `K`, `M`, `G`, `T` and `P` alone mean powers of 1,024, as in `du` and `truncate`; with `iB`
/// they say so, with `B` they mean powers of 1,000. Upper and lower case are the same.
package enum ByteCount {
    /// The number of bytes that `text` means, or `nil` if it is no number of bytes.
    ///
    /// A fraction of up to six digits is allowed before a unit; the result is rounded down.
    package static func parse(_ text: String) -> Int64? {
        let text = text.lowercased()
        let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard let unit = unit(String(text.dropFirst(number.count))) else { return nil }
        let parts = number.split(separator: ".", omittingEmptySubsequences: false)
        guard let first = parts.first, let whole = Int64(first), parts.count <= 2 else {
            return nil
        }
        let (bytes, overflow) = whole.multipliedReportingOverflow(by: unit)
        guard !overflow else { return nil }
        guard parts.count == 2 else { return bytes }

        guard unit > 1, (1...6).contains(parts[1].count), let digits = Int64(parts[1]) else {
            return nil
        }
        let divisor = (0..<parts[1].count).reduce(Int64(1)) { power, _ in power * 10 }
        let fraction = unit / divisor * digits + unit % divisor * digits / divisor
        let (sum, sumOverflow) = bytes.addingReportingOverflow(fraction)
        return sumOverflow ? nil : sum
    }

    /// Bytes per second: a number of bytes, with or without `/s`.
    package static func parseRate(_ text: String) -> Int64? {
        parse(text.lowercased().hasSuffix("/s") ? String(text.dropLast(2)) : text)
    }

    /// The shortest text that `parse` reads as `byteCount`.
    package static func format(_ byteCount: Int64) -> String {
        let units: [(String, Int64)] = [
            ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10),
            ("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000),
        ]
        guard byteCount != 0,
            let unit = units.first(where: { byteCount.isMultiple(of: $0.1) })
        else { return String(byteCount) }
        return "\(byteCount / unit.1)\(unit.0)"
    }

    private static func unit(_ text: String) -> Int64? {
        guard let letter = text.first, text != "b" else { return 1 }
        let powers: [Character: Int] = ["k": 1, "m": 2, "g": 3, "t": 4, "p": 5]
        guard let power = powers[letter] else { return nil }
        let base: Int64
        switch text.dropFirst() {
        case "", "ib": base = 1024
        case "b": base = 1000
        default: return nil
        }
        return (0..<power).reduce(Int64(1)) { product, _ in product * base }
    }
}

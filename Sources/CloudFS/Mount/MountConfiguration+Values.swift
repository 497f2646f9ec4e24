extension MountConfiguration {
    /// Readers of single values; `nil` when the text is no such value.
    enum Values {
        /// A duration with its unit: `20ms`, `2s`, `1.5s`, `1m`, `1h`; `0` needs none.
        static func duration(_ text: String) -> Duration? {
            if text == "0" { return .zero }
            let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            let nanoseconds: Double
            switch text.dropFirst(number.count) {
            case "us": nanoseconds = 1e3
            case "ms": nanoseconds = 1e6
            case "s": nanoseconds = 1e9
            case "m", "min": nanoseconds = 60e9
            case "h": nanoseconds = 3600e9
            default: return nil
            }
            guard number.first != ".", number.last != ".", let value = Double(number),
                value * nanoseconds < 9e18
            else { return nil }
            return .nanoseconds(Int64((value * nanoseconds).rounded()))
        }

        /// The shortest text that `duration` reads as this one.
        static func format(_ duration: Duration) -> String {
            let (seconds, attoseconds) = duration.components
            let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
            guard microseconds != 0 else { return "0" }
            let units: [(String, Int64)] = [
                ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000),
            ]
            guard let unit = units.first(where: { microseconds.isMultiple(of: $0.1) }) else {
                return "\(microseconds)us"
            }
            return "\(microseconds / unit.1)\(unit.0)"
        }

        /// Yes or no; an option without a value means yes.
        static func boolean(_ text: String) -> Bool? {
            switch text.lowercased() {
            case "", "true", "yes", "on", "1": true
            case "false", "no", "off", "0": false
            default: nil
            }
        }

        /// A share from 0 to 1, or in percent: `0.05`, `5%`.
        static func fraction(_ text: String) -> Double? {
            let isPercent = text.hasSuffix("%")
            guard let number = Double(isPercent ? String(text.dropLast()) : text) else {
                return nil
            }
            let share = isPercent ? number / 100 : number
            return (0...1).contains(share) ? share : nil
        }

        /// The candidate that differs from `text` in the fewest letters, if it is near at all.
        static func nearest(to text: String, among candidates: [String]) -> String? {
            let distances = candidates.map { ($0, distance(Array(text.utf8), Array($0.utf8))) }
            guard let best = distances.min(by: { $0.1 < $1.1 }) else { return nil }
            return best.1 <= max(2, text.utf8.count / 3) ? best.0 : nil
        }

        /// How many bytes must be added, dropped or replaced to make one of the other.
        private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
            var row = Array(0...right.count)
            for (index, byte) in left.enumerated() {
                var diagonal = row[0]
                row[0] = index + 1
                for (column, other) in right.enumerated() {
                    let replaced = diagonal + (byte == other ? 0 : 1)
                    diagonal = row[column + 1]
                    row[column + 1] = min(replaced, diagonal + 1, row[column] + 1)
                }
            }
            return row[right.count]
        }
    }
}

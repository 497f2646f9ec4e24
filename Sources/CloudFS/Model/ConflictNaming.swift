/// The names of conflict versions: `name (conflicted copy DEVICE 2026-11-20 14-30-05).ext`.
///
/// The second one of the same second has ` 2` behind the time, and so on.
enum ConflictNaming {
    /// What every such name holds, and few others do.
    static let marker = Array(" (conflicted copy ".utf8)
    private static let longestDevice = 64
    /// A longer last part is no extension worth keeping whole.
    private static let longestExtension = 32

    /// The name under which a version of `original` is kept that lost a race.
    ///
    /// A conflict version of a conflict version is named after the original, so that names do not
    /// grow with every conflict.
    /// `moment` is shown in UTC; `number` is more than 1 when the names before are taken.
    ///
    /// - Throws: `nameTooLong`, which cannot happen for a sensible `number`.
    static func name(
        for original: ItemName,
        device: String,
        at moment: Timestamp,
        number: Int = 1
    ) throws(CloudFSError) -> ItemName {
        let original = self.original(of: original) ?? original
        var (stem, suffix) = original.stemAndExtension
        if suffix.count > longestExtension {
            stem = original.bytes[...]
            suffix = []
        }
        var note = marker + sanitized(device) + [0x20] + Array(text(of: moment).utf8)
        if number > 1 { note += Array(" \(number)".utf8) }
        note.append(UInt8(ascii: ")"))
        let room = ItemName.maximumByteCount - note.count - suffix.count
        return try ItemName(ItemName.cut(stem, to: room) + note + suffix)
    }

    /// The name that `name` is a conflict version of, or `nil` if it is none.
    ///
    /// Where the original was too long to be kept whole, its kept part.
    static func original(of name: ItemName) -> ItemName? {
        // A sum of two parts of a valid name without `/` can only fail by being `.` or `..`.
        parts(of: name).flatMap { try? ItemName($0.stem + $0.suffix) }
    }

    /// How all names of conflict versions of `name` begin; each ends with a space.
    static func beginnings(of name: ItemName) -> [[UInt8]] {
        let (stem, suffix) = name.stemAndExtension
        return [Array(stem) + marker] + (suffix.isEmpty ? [] : [name.bytes + marker])
    }

    /// The device that a conflict version is from.
    static func device(of name: ItemName) -> String? {
        parts(of: name).map { parts in
            // A moment is two words, and a number one more.
            let words = parts.note.split(separator: 0x20, omittingEmptySubsequences: false)
            let count = words.count - (isNumber(words[words.count - 1]) ? 3 : 2)
            return String(
                decoding: Array(words.prefix(count).joined(separator: [0x20])),
                as: UTF8.self
            )
        }
    }

    /// The name under which a conflict version goes on as a document of its own:
    /// `name (DEVICE 2026-11-20 14-30-05).ext`, and with ` - 2` behind the time if that is taken.
    ///
    /// - Returns: `nil` for a name that is none of a conflict version.
    static func independent(of name: ItemName, number: Int = 1) -> ItemName? {
        parts(of: name).flatMap { parts in
            let number = number > 1 ? " - \(number)" : ""
            let note = parts.note + Array(number.utf8)
            let bytes: [UInt8] = parts.stem + Array(" (".utf8) + note + Array(")".utf8)
            return try? ItemName(bytes + parts.suffix)
        }
    }

    // MARK: - Parts

    /// What stands before the note, in it behind `conflicted copy`, and after it.
    private typealias Parts = (
        stem: ArraySlice<UInt8>, note: ArraySlice<UInt8>, suffix: ArraySlice<UInt8>
    )

    private static func parts(of name: ItemName) -> Parts? {
        let bytes = name.bytes
        guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let suffix = bytes[(end + 1)...]
        guard suffix.isEmpty || suffix.lastIndex(of: UInt8(ascii: ".")) == suffix.startIndex,
            let start = lastMarker(in: bytes[..<end]), start > 0,
            endsWithMoment(bytes[(start + marker.count)..<end])
        else { return nil }
        return (bytes[..<start], bytes[(start + marker.count)..<end], suffix)
    }

    private static func lastMarker(in bytes: ArraySlice<UInt8>) -> Int? {
        guard bytes.count >= marker.count else { return nil }
        return (bytes.startIndex...bytes.endIndex - marker.count).last { start in
            bytes[start...].starts(with: marker)
        }
    }

    /// Whether `text` is a device, a moment, and perhaps a number.
    private static func endsWithMoment(_ text: ArraySlice<UInt8>) -> Bool {
        var words = text.split(separator: 0x20, omittingEmptySubsequences: false)
        if let last = words.last, isNumber(last) { words.removeLast() }
        guard words.count >= 3, let time = words.popLast(), let day = words.popLast() else {
            return false
        }
        return hasShape(day, [4, 2, 2]) && hasShape(time, [2, 2, 2])
    }

    /// Whether `text` is numbers of so many digits, with `-` between them.
    private static func hasShape(_ text: ArraySlice<UInt8>, _ counts: [Int]) -> Bool {
        let parts = text.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        return parts.map(\.count) == counts && parts.allSatisfy { $0.allSatisfy(isDigit) }
    }

    /// Whether a word counts the versions of one second.
    private static func isNumber(_ word: ArraySlice<UInt8>) -> Bool {
        word.count <= 9 && word.allSatisfy(isDigit) && word != [0x31]
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    private static func sanitized(_ device: String) -> [UInt8] {
        let bytes = device.utf8.map { byte in
            byte < 0x20 || byte == 0x7f || byte == UInt8(ascii: "/") ? UInt8(ascii: "-") : byte
        }
        let kept = ItemName.cut(bytes[...], to: longestDevice)
        return kept.isEmpty ? Array("device".utf8) : Array(kept)
    }

    /// `2026-11-20 14-30-05`, in UTC: colons are no good in file names elsewhere.
    static func text(of moment: Timestamp) -> String {
        let perDay: Int64 = 86_400
        let seconds = moment.seconds
        let days = seconds >= 0 ? seconds / perDay : (seconds - perDay + 1) / perDay
        let ofDay = seconds - days * perDay
        let (year, month, day) = civilDate(days)
        let time = [ofDay / 3600, ofDay / 60 % 60, ofDay % 60].map { padded($0, 2) }
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2)) "
            + time.joined(separator: "-")
    }

    private static func padded(_ number: Int64, _ count: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
    }

    /// The date of a number of days since 1970, in the Gregorian calendar.
    ///
    /// Years are counted from March, so that the leap day is the last of its year, and in cycles of
    /// 400, which all have the same length.
    private static func civilDate(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let perCycle: Int64 = 146_097
        let shifted = days + 719_468
        let cycle = (shifted >= 0 ? shifted : shifted - perCycle + 1) / perCycle
        let ofCycle = shifted - cycle * perCycle
        let year =
            (ofCycle - ofCycle / 1460 + ofCycle / 36_524 - ofCycle / (perCycle - 1)) / 365
        let ofYear = ofCycle - (365 * year + year / 4 - year / 100)
        let fromMarch = (5 * ofYear + 2) / 153
        let day = ofYear - (153 * fromMarch + 2) / 5 + 1
        let month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9
        return (year + cycle * 400 + (month <= 2 ? 1 : 0), month, day)
    }
}

/// The `Content-Range` header of a part.
struct S3ContentRange: Equatable {
    var span: Range<Int64>
    var total: Int64

    /// Reads `bytes 0-99/1234`; `nil` for anything else, also for an unknown total.
    static func parse(_ text: String) -> S3ContentRange? {
        guard text.hasPrefix("bytes ") else { return nil }
        let parts = text.dropFirst(6).split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let total = S3Number.parse(parts[1].utf8) else { return nil }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = S3Number.parse(ends[0].utf8),
            let last = S3Number.parse(ends[1].utf8), first <= last, last < total
        else { return nil }
        return S3ContentRange(span: first..<last + 1, total: total)
    }
}

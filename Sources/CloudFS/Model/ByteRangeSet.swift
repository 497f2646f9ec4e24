/// Which bytes of a file: sorted ranges that neither overlap nor touch.
///
/// Questions take O(log n) of the number of ranges. Offsets are never negative.
public struct ByteRangeSet: Hashable, Sendable {
    /// The ranges in order; none is empty, and between two there is at least one absent byte.
    public private(set) var ranges: [Range<Int64>] = []

    /// How many bytes the ranges hold together.
    public private(set) var byteCount: Int64 = 0

    public init() {}

    public init(_ range: Range<Int64>) {
        insert(range)
    }

    /// The union of `ranges`, which may overlap and come in any order.
    public init(_ ranges: some Sequence<Range<Int64>>) {
        for range in ranges { insert(range) }
    }

    public var isEmpty: Bool { ranges.isEmpty }

    /// From the first byte to behind the last one, or `nil` when there is none.
    public var bounds: Range<Int64>? {
        guard let first = ranges.first, let last = ranges.last else { return nil }
        return first.lowerBound..<last.upperBound
    }

    // MARK: - Questions

    /// Whether every byte of `range` is in the set; true for an empty range.
    public func contains(_ range: Range<Int64>) -> Bool {
        guard !range.isEmpty else { return true }
        guard let run = run(at: range.lowerBound) else { return false }
        return run.upperBound >= range.upperBound
    }

    /// Whether any byte of `range` is in the set; false for an empty range.
    public func intersects(_ range: Range<Int64>) -> Bool {
        guard !range.isEmpty else { return false }
        let index = firstIndex(endingAfter: range.lowerBound)
        return index < ranges.count && ranges[index].lowerBound < range.upperBound
    }

    /// The range of the set that holds the byte at `offset`.
    public func run(at offset: Int64) -> Range<Int64>? {
        let index = firstIndex(endingAfter: offset)
        guard index < ranges.count, ranges[index].lowerBound <= offset else { return nil }
        return ranges[index]
    }

    /// The parts of `range` that are in the set, in order.
    public func covered(in range: Range<Int64>) -> [Range<Int64>] {
        guard !range.isEmpty else { return [] }
        var parts: [Range<Int64>] = []
        var index = firstIndex(endingAfter: range.lowerBound)
        while index < ranges.count, ranges[index].lowerBound < range.upperBound {
            parts.append(ranges[index].clamped(to: range))
            index += 1
        }
        return parts
    }

    /// The parts of `range` that are not in the set, in order.
    public func missing(in range: Range<Int64>) -> [Range<Int64>] {
        var parts: [Range<Int64>] = []
        var offset = range.lowerBound
        while let gap = firstMissing(from: offset, limit: range.upperBound) {
            parts.append(gap)
            offset = gap.upperBound
        }
        return parts
    }

    /// The first absent bytes at or after `offset`, up to the next present one or `limit`.
    ///
    /// - Returns: A range that is not empty, or `nil` if all bytes before `limit` are present.
    public func firstMissing(from offset: Int64, limit: Int64) -> Range<Int64>? {
        var start = offset
        var index = firstIndex(endingAfter: offset)
        if index < ranges.count, ranges[index].lowerBound <= start {
            start = ranges[index].upperBound
            index += 1
        }
        guard start < limit else { return nil }
        guard index < ranges.count else { return start..<limit }
        return start..<min(limit, ranges[index].lowerBound)
    }

    // MARK: - Changes

    /// Adds the bytes of `range`, joining what it overlaps or touches.
    public mutating func insert(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        precondition(range.lowerBound >= 0, "a byte offset is never negative")
        // From the first run that ends at or behind the start to the last that begins by the end.
        let first = firstIndex(endingAfter: range.lowerBound - 1)
        var merged = range
        var end = first
        var replaced: Int64 = 0
        while end < ranges.count, ranges[end].lowerBound <= range.upperBound {
            replaced += Int64(ranges[end].count)
            merged =
                min(
                    merged.lowerBound,
                    ranges[end].lowerBound
                )..<max(
                    merged.upperBound,
                    ranges[end].upperBound
                )
            end += 1
        }
        ranges.replaceSubrange(first..<end, with: CollectionOfOne(merged))
        byteCount += Int64(merged.count) - replaced
        assert(isSeparated(around: first), "byte ranges overlap or touch")
    }

    /// Takes the bytes of `range` out, splitting what it lies within.
    public mutating func remove(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        let first = firstIndex(endingAfter: range.lowerBound)
        var end = first
        var kept: [Range<Int64>] = []
        while end < ranges.count, ranges[end].lowerBound < range.upperBound {
            let run = ranges[end]
            byteCount -= Int64(run.clamped(to: range).count)
            if run.lowerBound < range.lowerBound { kept.append(run.lowerBound..<range.lowerBound) }
            if run.upperBound > range.upperBound { kept.append(range.upperBound..<run.upperBound) }
            end += 1
        }
        guard end > first else { return }
        ranges.replaceSubrange(first..<end, with: kept)
        assert(isSeparated(around: first), "byte ranges overlap or touch")
    }

    public mutating func formUnion(_ other: ByteRangeSet) {
        for range in other.ranges { insert(range) }
    }

    public func union(_ other: ByteRangeSet) -> ByteRangeSet {
        var result = self
        result.formUnion(other)
        return result
    }

    public mutating func subtract(_ other: ByteRangeSet) {
        for range in other.ranges { remove(range) }
    }

    public func subtracting(_ other: ByteRangeSet) -> ByteRangeSet {
        var result = self
        result.subtract(other)
        return result
    }

    // MARK: - Invariants

    /// Traps unless the ranges are sorted, apart, not empty, and add up to `byteCount`.
    func checkInvariants() {
        var total: Int64 = 0
        for index in ranges.indices {
            precondition(isSeparated(around: index), "byte ranges overlap or touch")
            total += Int64(ranges[index].count)
        }
        precondition(total == byteCount, "byte ranges do not add up")
    }

    /// Whether the runs next to `index` are in order, apart and not empty.
    private func isSeparated(around index: Int) -> Bool {
        let near = ranges[max(0, index - 1)..<min(ranges.count, index + 2)]
        return zip(near, near.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound }
            && near.allSatisfy { $0.lowerBound >= 0 && !$0.isEmpty } && byteCount >= 0
    }

    /// The index of the first range that has a byte or its end behind `offset`.
    private func firstIndex(endingAfter offset: Int64) -> Int {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound > offset { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// What gives way where there is no room for a file that is being read.
extension HydrationPlan {
    /// How far is read ahead in a file that gave way.
    static let scarceWindow: Int64 = 32 << 20

    /// How much of what a reader may want next stays.
    enum Sparing: CaseIterable, Sendable {
        /// What it reads ahead, and a little behind it, for who goes back.
        case usual
        /// What it reads next: somebody waits for bytes that there is no room for.
        case least

        var behind: Int64 { self == .usual ? 8 << 20 : 1 << 20 }
        var ahead: Int64 { self == .usual ? scarceWindow : 2 << 20 }
    }

    /// How far is read ahead of a sequential reader at most.
    var largestWindow: Int64 {
        isScarce ? min(Self.scarceWindow, settings.largestWindow) : settings.largestWindow
    }

    /// Bytes that are here and no reader is near of, from the beginning of the file on.
    ///
    /// Whole blocks, as the disk gives no others back. Nothing of what is wanted whole, and nothing
    /// that could not come again.
    ///
    /// - Parameter held: What is on its way to programs.
    func expendable(
        _ byteCount: Int64,
        beside held: [Range<Int64>],
        sparing: Sparing = .usual
    ) -> ByteRangeSet {
        var found = ByteRangeSet()
        guard !isForced, !isComplete, !isOutdated else { return found }
        var near = ByteRangeSet(held)
        for waiter in waiters { near.insert(waiter.range) }
        for stream in streams { near.insert(surroundings(of: stream, sparing)) }
        let block = Self.blockSize
        for range in present.subtracting(near).ranges {
            let first = range.lowerBound.addingOrMost(block - 1) / block * block
            let last = range.upperBound / block * block
            let wanted = (byteCount - found.byteCount).addingOrMost(block - 1) / block * block
            guard wanted > 0 else { break }
            if first < last { found.insert(first..<min(last, first.addingOrMost(wanted))) }
        }
        return found
    }

    /// What a reader may want next.
    private func surroundings(of stream: ReadStream, _ sparing: Sparing) -> Range<Int64> {
        max(0, stream.next - sparing.behind)..<end(of: sparing.ahead, from: stream.next)
    }

    /// Notes that bytes were dropped for want of room; from now on less is fetched unasked.
    mutating func thin(_ dropped: ByteRangeSet, _ actions: inout [Action]) {
        present.subtract(dropped)
        isScarce = true
        isCompleting = isForced
        for index in streams.indices { narrow(&streams[index], after: dropped) }
        cancelGuesses(&actions)
    }

    /// Has a reader's window end where something was dropped, and grow again with what is read.
    ///
    /// Else that would come again at once, and take the room that somebody waits for.
    private func narrow(_ stream: inout ReadStream, after dropped: ByteRangeSet) {
        var farthest = end(of: largestWindow, from: stream.next)
        let ahead = dropped.ranges.first { $0.upperBound > stream.next }
        if let ahead { farthest = min(farthest, max(ahead.lowerBound, stream.next)) }
        stream.aheadEnd = min(stream.aheadEnd, farthest)
        let least = min(stream.window, ReadStream.smallestWindow)
        stream.window = max(least, min(stream.window, farthest - stream.next))
    }

    /// Cancels what is on its way and no reader is near of.
    private mutating func cancelGuesses(_ actions: inout [Action]) {
        let near = ByteRangeSet(waiters.map(\.range) + streams.map { surroundings(of: $0, .usual) })
        requests.removeAll { request in
            let owed = request.outstanding
            guard request.reason == .completion || request.reason == .readAhead, !owed.isEmpty,
                !near.intersects(owed)
            else { return false }
            actions.append(.cancel(request.id))
            return true
        }
    }

    /// Whether a reader waits for what a request has still to deliver.
    func isAwaited(_ id: RequestID) -> Bool {
        guard let owed = requests.first(where: { $0.id == id })?.outstanding else { return false }
        return waiters.contains { $0.range.overlaps(owed) }
    }

    /// Notes that a handle is closed: nothing is read ahead of it any more.
    mutating func forget(handle: UInt64) {
        streams.removeAll { $0.handle == handle }
    }
}

/// What one handle has read in a row.
///
/// The window grows with what was read, so that a reader who stops leaves at most four times as
/// much unread as it has read.
struct ReadStream: Sendable {
    var handle: UInt64
    /// Where the next read begins if the handle goes on.
    var next: Int64
    var byteCount: Int64
    var beganAtStart: Bool
    var readCount = 1
    /// How far to read ahead; 0 until the habit is clear.
    var window: Int64 = 0
    /// How much was read since the window last grew.
    var readInWindow: Int64 = 0
    /// Up to where bytes are to be fetched ahead.
    var aheadEnd: Int64

    static let smallestWindow: Int64 = 1 << 20

    init(handle: UInt64, first range: Range<Int64>) {
        self.handle = handle
        next = range.upperBound
        byteCount = Int64(range.count)
        beganAtStart = range.lowerBound == 0
        aheadEnd = range.upperBound
    }

    /// Whether a read of `range` goes on where the last one ended.
    func isContinued(by range: Range<Int64>, handle: UInt64) -> Bool {
        self.handle == handle && range.lowerBound <= next && range.upperBound > next
            && next - range.lowerBound < HydrationPlan.blockSize
    }

    mutating func advance(over range: Range<Int64>) {
        let count = range.upperBound - next
        next = range.upperBound
        byteCount += count
        readCount += 1
        readInWindow += count
    }

    /// Opens the window once enough was read in a row, and makes it four times as large each time
    /// it was read through.
    mutating func growWindow(atMost largest: Int64) {
        if window == 0 {
            guard isHabit else { return }
            window = Self.smallestWindow
            readInWindow = 0
        }
        while readInWindow >= window {
            readInWindow -= window
            window = min(window * 4, largest)
        }
    }

    /// Whether the reads look sequential: one read shows nothing, unless it is large and at the
    /// start.
    var isHabit: Bool {
        byteCount > HydrationPlan.smallByteCount && (readCount > 1 || beganAtStart)
    }
}

// MARK: - Sequential reading

extension HydrationPlan {
    private static let maximumStreams = 16
    /// How much the kernel asks for at once of what a program reads.
    ///
    /// It adds one such piece to read ahead, and asks for one after the other: each would wait for
    /// an answer of its own, so that two more come with a first one.
    private static let largestPiece: Int64 = 128 << 10

    /// Notes a read of a handle, and sets how far is read ahead of it.
    mutating func follow(_ range: Range<Int64>, handle: UInt64) {
        var stream: ReadStream
        if let index = streams.lastIndex(where: { $0.isContinued(by: range, handle: handle) }) {
            stream = streams.remove(at: index)
            stream.advance(over: range)
        } else {
            stream = ReadStream(handle: handle, first: range)
            if range.count >= Self.largestPiece, !isPresent(range) {
                stream.aheadEnd = end(of: 2 * Self.largestPiece, from: stream.next)
            }
            if streams.count == Self.maximumStreams { streams.removeFirst() }
        }
        stream.growWindow(atMost: largestWindow)
        // By whole requests, as long as the window holds two of them.
        let step = min(stream.window / 2, requestLength(window: stream.window))
        let ahead = fetchedEnd(from: stream.next) - stream.next
        if stream.window > 0, ahead <= stream.window - step {
            stream.aheadEnd = max(stream.aheadEnd, end(of: stream.window, from: stream.next))
        }
        streams.append(stream)
        completionPosition = stream.next
        if stream.isHabit || stream.readCount > 1, mayComplete,
            stream.byteCount > min(1 << 20, size / 10)
        {
            isCompleting = true
        }
    }

    /// Whether the policy lets the file be completed without anybody's asking.
    var mayComplete: Bool {
        switch policy {
        case _ where isScarce: false
        case .progressive(let limit): size <= limit
        case .partial: false
        case .full: true
        }
    }

    /// Where so many bytes from `offset` on end, at the latest with the file.
    ///
    /// A cloud may say of a file that it is as long as numbers go.
    func end(of count: Int64, from offset: Int64) -> Int64 {
        offset + min(count, size - offset)
    }

    /// The end of the bytes from `offset` on that are present or on their way.
    private func fetchedEnd(from offset: Int64) -> Int64 {
        nextUnassigned(from: offset, limit: size)?.lowerBound ?? size
    }
}

// MARK: - Requests

extension HydrationPlan {
    /// Begins what may begin: readers first, then read-ahead, then the rest of the file.
    mutating func schedule(now: Duration, _ actions: inout [Action]) {
        guard !isOutdated else { return }
        if let paused = guessesPausedUntil, paused <= now { guessesPausedUntil = nil }
        takeOverFarReads()
        for waiter in waiters where !waiter.isBulk {
            begin(missingFor: waiter, now: now, &actions)
        }
        for waiter in waiters where waiter.isBulk {
            fill(waiter.range, for: .bulkReader, length: Self.longestRequest, now, &actions)
        }
        guard guessesPausedUntil == nil else { return }
        for stream in streams.reversed() where stream.next < stream.aheadEnd {
            fill(
                stream.next..<stream.aheadEnd,
                for: .readAhead,
                length: requestLength(window: stream.window),
                now,
                &actions
            )
        }
        guard isCompleting, !isHeld else { return }
        let start = min(completionPosition, size)
        let length = requestLength(window: size)
        fill(start..<size, for: .completion, length: length, now, &actions)
        fill(0..<start, for: .completion, length: length, now, &actions)
    }

    private func requestLength(window: Int64) -> Int64 {
        let share = window / Int64(settings.maximumParallelRequests)
        let whole = share / Self.blockSize * Self.blockSize
        return min(max(whole, settings.shortestRequest), Self.longestRequest)
    }

    /// Cuts a running request short where a reader waits for bytes it would reach much later.
    private mutating func takeOverFarReads() {
        for waiter in waiters where !waiter.isBulk {
            for index in requests.indices where isReaderSlotFree {
                let owed = requests[index].outstanding
                guard owed.contains(waiter.range.lowerBound),
                    waiter.range.lowerBound - owed.lowerBound > Self.farDistance,
                    let missing = present.firstMissing(
                        from: waiter.range.lowerBound,
                        limit: min(waiter.range.upperBound, owed.upperBound)
                    )
                else { continue }
                requests[index].end = max(
                    owed.lowerBound,
                    missing.lowerBound / Self.blockSize * Self.blockSize
                )
            }
        }
    }

    /// Asks for what a reader waits for and nobody has asked for.
    private mutating func begin(
        missingFor waiter: Waiter,
        now: Duration,
        _ actions: inout [Action]
    ) {
        let block = Self.blockSize
        var wanted: Range<Int64> = 0..<size
        if size > Self.smallByteCount {
            let lastBlock = (waiter.range.upperBound - 1) / block * block
            wanted = waiter.range.lowerBound / block * block..<end(of: block, from: lastBlock)
        }
        // A sequential reader's own bytes and the ones ahead of it come in one request.
        let aheadEnd =
            guessesPausedUntil == nil
            ? streams.last { $0.handle == waiter.handle && $0.next == waiter.range.upperBound }?
                .aheadEnd ?? 0 : 0
        while isReaderSlotFree, let gap = nextUnassigned(from: wanted) {
            guard gap.overlaps(waiter.range) || size <= Self.smallByteCount else {
                // Rounding reached over to bytes that nobody waits for.
                wanted = gap.upperBound..<max(gap.upperBound, wanted.upperBound)
                continue
            }
            var end = gap.upperBound
            if end == wanted.upperBound, aheadEnd > end,
                let more = nextUnassigned(from: end, limit: aheadEnd), more.lowerBound == end
            {
                let shortest = self.end(of: settings.shortestRequest, from: gap.lowerBound)
                end = min(more.upperBound, max(end, shortest))
            }
            begin(gap.lowerBound..<end, for: .reader, now, &actions)
        }
    }

    /// Asks for the parts of `range` that nobody has asked for, as far as there are free slots.
    private mutating func fill(
        _ range: Range<Int64>,
        for reason: Reason,
        length: Int64,
        _ now: Duration,
        _ actions: inout [Action]
    ) {
        while requests.count < settings.maximumParallelRequests,
            let gap = nextUnassigned(from: range)
        {
            let end = min(gap.upperBound, end(of: length, from: gap.lowerBound))
            begin(gap.lowerBound..<end, for: reason, now, &actions)
        }
    }

    /// Readers have as many slots of their own as there are for everything, so that they never
    /// wait for a guess to end.
    private var isReaderSlotFree: Bool {
        requests.count { $0.reason == .reader } < settings.maximumParallelRequests
    }

    private mutating func begin(
        _ range: Range<Int64>,
        for reason: Reason,
        _ now: Duration,
        _ actions: inout [Action]
    ) {
        let id = RequestID(rawValue: nextRequest)
        nextRequest += 1
        requests.append(
            Request(
                id: id,
                reason: reason,
                range: range,
                end: range.upperBound,
                position: range.lowerBound,
                lastProgress: now
            )
        )
        actions.append(.fetch(id, range))
    }

    private func nextUnassigned(from range: Range<Int64>) -> Range<Int64>? {
        nextUnassigned(from: range.lowerBound, limit: range.upperBound)
    }

    /// The first bytes from `offset` on that are neither present nor owed by a request.
    private func nextUnassigned(from offset: Int64, limit: Int64) -> Range<Int64>? {
        var offset = offset
        while let gap = present.firstMissing(from: offset, limit: limit) {
            var start = gap.lowerBound
            var end = gap.upperBound
            while let request = requests.first(where: { $0.outstanding.contains(start) }) {
                start = request.outstanding.upperBound
            }
            for request in requests where request.outstanding.lowerBound > start {
                guard !request.outstanding.isEmpty else { continue }
                end = min(end, request.outstanding.lowerBound)
            }
            if start < end { return start..<end }
            offset = max(gap.upperBound, offset + 1)
        }
        return nil
    }
}

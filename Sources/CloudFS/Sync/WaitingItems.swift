/// Which items wait for which others to be sent first, as far as is remembered.
///
/// Who waits is put off, for longer each time, and brought forward as soon as the other one has got
/// on. So a long row of items that want each other's places costs little while it waits.
struct WaitingItems: Sendable {
    /// Who waits, and until when it was put off.
    struct Waiter: Hashable, Sendable {
        var item: ItemID
        var until: Timestamp
    }

    private struct Wait: Sendable {
        var other: ItemID
        /// How often in a row it was put off for that one.
        var count: Int
        var until: Timestamp
    }

    private var waits: [ItemID: Wait] = [:]
    private var waiters: [ItemID: Set<ItemID>] = [:]
    private let limit: Int

    /// Nobody hears of what gets on by a listing.
    static let longestPause = Duration.seconds(10)
    private static let backoff = Backoff(
        first: .milliseconds(200),
        longest: longestPause,
        certainPart: 0.5
    )

    /// - Parameter limit: How many are remembered; others are put off for long.
    init(limit: Int) {
        self.limit = limit
    }

    /// Notes that an item waits for another one.
    ///
    /// - Returns: Until when it is to be put off.
    mutating func add(
        _ id: ItemID,
        for other: ItemID,
        at now: Timestamp,
        using random: inout some RandomNumberGenerator
    ) -> Timestamp {
        let known = waits[id]
        end(id)
        if waits.count >= limit { forgetPast(at: now) }
        guard waits.count < limit else { return now + Self.longestPause }
        let count = known?.other == other ? (known?.count ?? 0) + 1 : 1
        let until = now + Self.backoff.delay(afterFailures: count, using: &random)
        waits[id] = Wait(other: other, count: count, until: until)
        waiters[other, default: []].insert(id)
        return until
    }

    /// Notes that an item does not wait any more.
    mutating func end(_ id: ItemID) {
        guard let wait = waits.removeValue(forKey: id) else { return }
        waiters[wait.other]?.remove(id)
        if waiters[wait.other]?.isEmpty == true { waiters[wait.other] = nil }
    }

    /// Forgets those who wait no more, as they are gone or were changed.
    private mutating func forgetPast(at now: Timestamp) {
        for (id, wait) in waits where now.since(wait.until) > Self.longestPause { end(id) }
    }

    func isAwaited(_ other: ItemID) -> Bool { waiters[other] != nil }

    /// Takes out those who wait for an item, which has got on.
    mutating func takeWaiters(of other: ItemID) -> [Waiter] {
        let items = waiters.removeValue(forKey: other) ?? []
        return items.sorted().compactMap { item in
            waits.removeValue(forKey: item).map { Waiter(item: item, until: $0.until) }
        }
    }

    /// Until when an item was put off because it waits; `nil` if it does not.
    func endOfWait(of id: ItemID) -> Timestamp? { waits[id]?.until }

    /// Whether `first` waits for `last`, over others or at once.
    ///
    /// Of a long row of waiting ones most have nobody behind them that is put off already, or were
    /// put off for the same one before: to follow it for each of them, each time, would be work
    /// for the square of its length. So it is followed the first, second, fourth, eighth time.
    func leads(from first: ItemID, to last: ItemID) -> Bool {
        guard waiters[last] != nil else { return false }
        if let wait = waits[last], wait.other == first, wait.count & (wait.count - 1) != 0 {
            return false
        }
        var current = first
        // Others may go round in circles that `last` is not in.
        for _ in 0...waits.count {
            guard let next = waits[current]?.other else { return false }
            if next == last { return true }
            current = next
        }
        return false
    }
}

import Synchronization

/// Lets work that nobody waits for make room: comparisons for uploads, and both for programs.
///
/// All need the same cores and the catalog's one writer. Background work asks between small
/// pieces; it is held back, but never stopped. While a program goes through folders that nobody
/// listed before, comparisons go on: they bring what it wants next. Closer looks at what they
/// brought do not.
final class Precedence: Sendable {
    /// When a program last asked for something, in nanoseconds of `Clocks.elapsed`.
    private let lastUse = Atomic<Int64>(.min)
    /// The same for what is being sent.
    private let lastUpload = Atomic<Int64>(.min)
    /// The same for folders that nobody listed before.
    private let lastListing = Atomic<Int64>(.min)
    /// How many programs wait now for the listing of which folders.
    private let awaited = Mutex<[ItemID: Int]>([:])
    private let clocks: Clocks

    /// How long after a request the next one is expected.
    private static let rest = Duration.milliseconds(10)
    /// How long who makes room looks away at most: many do at once, and each look is a wake-up.
    private static let longestPause = Duration.milliseconds(40)
    /// How long after a listing the next one is expected.
    private static let listingRest = Duration.milliseconds(200)

    /// What makes room.
    enum Work: Sendable {
        case comparison
        case upload
        /// A look at what listings left out.
        case closeLook

        /// How long one piece of it waits at most.
        fileprivate var limit: Duration {
            switch self {
            case .comparison, .closeLook: .seconds(1)
            // Somebody saved it, and another device may wait.
            case .upload: .milliseconds(200)
            }
        }
    }

    init(clocks: Clocks) {
        self.clocks = clocks
    }

    /// Notes a request of a program.
    func noteUse() {
        lastUse.store(Self.nanoseconds(clocks.elapsed()), ordering: .relaxed)
    }

    /// Notes that a program waits for the listing of a folder, until `endWaiting`.
    func beginWaiting(for folder: ItemID) {
        awaited.withLock { $0[folder, default: 0] += 1 }
    }

    func endWaiting(for folder: ItemID) {
        awaited.withLock { awaited in
            let count = awaited[folder, default: 1] - 1
            awaited[folder] = count == 0 ? nil : count
        }
    }

    /// Whether a program waits for the listing of a folder.
    func isAwaited(_ folder: ItemID) -> Bool { awaited.withLock { $0[folder] != nil } }

    /// Notes that a program opens folders while such are listed for the first time.
    func noteListing() {
        lastListing.store(Self.nanoseconds(clocks.elapsed()), ordering: .relaxed)
    }

    /// Notes that something is being sent.
    func noteUpload() {
        lastUpload.store(Self.nanoseconds(clocks.elapsed()), ordering: .relaxed)
    }

    /// Waits until nobody who goes first has asked for anything for a moment, or for long enough.
    func giveWay(with work: Work) async {
        let end = clocks.elapsed() + work.limit
        var pause = Self.rest
        while isDue(for: work), clocks.elapsed() < end, !Task.isCancelled {
            // Cancelled, there is nothing to make room for.
            try? await Task.sleep(for: min(pause, end - clocks.elapsed()))
            pause = min(pause * 2, Self.longestPause)
        }
    }

    /// Whether others go first now.
    func isDue(for work: Work) -> Bool {
        let isUsed = isRecent(lastUse)
        switch work {
        case .upload: return isUsed
        case .comparison:
            // It may be this very one that a program waits for, or that brings what it wants next.
            return !isListing && (isUsed || isRecent(lastUpload))
        case .closeLook: return isListing || isUsed || isRecent(lastUpload)
        }
    }

    /// Whether a program goes through folders that nobody listed before.
    private var isListing: Bool {
        awaited.withLock { !$0.isEmpty } || isRecent(lastListing, Self.listingRest)
    }

    private func isRecent(
        _ moment: borrowing Atomic<Int64>,
        _ limit: Duration = rest
    ) -> Bool {
        let last = moment.load(ordering: .relaxed)
        return last != .min
            && Self.nanoseconds(clocks.elapsed()) - last < Self.nanoseconds(limit)
    }

    private static func nanoseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}

/// What one device saw of a document's lease, and for how long.
///
/// Clocks of different devices are never compared. A lease is dead when this device itself has
/// seen the same record at two looks that lie the record's whole duration and a margin apart. No
/// look between them is needed: whoever renews stores another record.
struct LeaseWatch: Sendable, Hashable {
    /// The latest record that was seen; `nil` when there was none.
    private(set) var record: LeaseRecord?
    /// When the answer that first had it came.
    private var since = Duration.zero
    private var isDead = false

    /// Notes what a look has found.
    ///
    /// - Parameters:
    ///   - record: The latest record.
    ///   - asked: When it was asked for: the record may be as old as that.
    ///   - now: When the answer came: the record may have been stored as late as that.
    mutating func saw(_ record: LeaseRecord?, asked: Duration, at now: Duration) {
        guard let record, record == self.record else {
            self.record = record
            since = now
            isDead = false
            return
        }
        if asked - since >= LeaseTerm(record.duration).watched { isDead = true }
    }

    /// Whether nobody holds the lease.
    var isFree: Bool { record.map { $0.isEnded || isDead } ?? true }

    /// From when on a look may find the lease dead; `nil` if it is free already.
    var deadline: Duration? {
        guard let record, !isFree else { return nil }
        return since + LeaseTerm(record.duration).watched
    }
}

/// How a lease's duration is used by who holds it and by who waits for it.
///
/// The holder counts from before it sent the record, and stops half a margin before the duration
/// is over; who waits counts from after it saw the record, and goes on for a margin longer.
/// With a margin of a quarter, two devices never hold a lease at one moment as long as both clocks
/// run within 17 % of true time: (1 - 1/8)(1 + r) < (1 + 1/4)(1 - r).
///
/// The clock has to go on while a machine sleeps. That of a virtual machine that is stopped from
/// outside does not: its holder goes on believing for a moment, and then only the base version
/// that every upload names stands between it and the next holder.
struct LeaseTerm: Sendable {
    let duration: Duration

    init(_ duration: Duration) {
        self.duration = duration
    }

    private var margin: Duration { duration / 4 }

    /// How long a holder believes in its lease after it sent the record.
    var held: Duration { duration - margin / 2 }

    /// How long it waits before it renews.
    var renewed: Duration { duration / 3 }

    /// How long others have to see the same record before they may take the lease.
    var watched: Duration { duration + margin }
}

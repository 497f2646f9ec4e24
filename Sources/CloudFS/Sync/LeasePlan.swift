/// One device's way to a lease, through it, and out of it.
///
/// A value without clock or cloud: it is asked what to do next, told what came of it, and has one
/// request under way at a time. `LeaseKeeper` does what it says; the simulation of many devices
/// does the same with other clocks and a worse network.
///
/// Every step forward is the next record in the document's chain, which a store lets one device
/// append only (`LeaseStore`). So a holder that renews, and one that takes over from it because
/// it heard nothing for long, cannot both succeed, however late their requests arrive.
///
/// - Invariant: While `isHeld`, no other device's plan for the document is, whatever becomes of
///   requests and answers, as long as clocks run as `LeaseTerm` assumes and the store keeps its
///   contract.
struct LeasePlan: Sendable {
    /// What is to be done next.
    enum Step: Sendable, Hashable {
        /// Ask for the latest record; then `saw` or `failed`.
        case look
        /// Store the record; then `appended` or `failed`.
        case append(LeaseRecord)
        /// Wait a little, longer each time in a row, and ask again.
        case pause
        /// Nothing is to be done before this moment.
        case rest(until: Duration)
        /// Nothing, ever.
        case nothing
    }

    enum Phase: Sendable, Hashable {
        case wanted
        case held
        /// Given up; the cloud is to be told.
        case ending
        case ended
        /// It could not be renewed in time, or somebody else has it.
        case lost
    }

    /// A record of this device, and when it was first sent.
    private struct Sent: Sendable {
        var record: LeaseRecord
        var first: Duration
    }

    let document: DocumentID
    let holder: LeaseHolder
    private(set) var phase = Phase.wanted
    private(set) var watch: LeaseWatch
    private let term: LeaseTerm
    /// The last one that is known to have been stored.
    private var own: Sent?
    /// One of which it is not known.
    private var unknown: Sent?
    private var heldUntil = Duration.zero
    private var mustLook = true
    private var mustPause = false
    private var failures = 0

    /// How often the cloud is tried to be told of an end; then the lease ends by itself.
    private static let endings = 4

    init(
        document: DocumentID,
        holder: LeaseHolder,
        duration: Duration,
        watch: LeaseWatch = LeaseWatch()
    ) {
        self.document = document
        self.holder = holder
        self.watch = watch
        term = LeaseTerm(
            min(max(duration, LeaseRecord.durations.lowerBound), LeaseRecord.durations.upperBound)
        )
    }

    /// The record that the lease rests on.
    var record: LeaseRecord? { own?.record }

    func isHeld(at now: Duration) -> Bool { phase == .held && now < heldUntil }

    /// Until when it is held if nothing more is heard.
    var heldDeadline: Duration? { phase == .held ? heldUntil : nil }

    // MARK: - What to do

    mutating func next(at now: Duration) -> Step {
        noteTime(now)
        if phase == .ended || phase == .lost { return .nothing }
        if mustPause {
            mustPause = false
            return .pause
        }
        if mustLook { return .look }
        switch phase {
        case .wanted:
            guard watch.isFree || isOwn(watch.record) || isLeftBehind(watch.record) else {
                mustLook = true
                return .pause
            }
            return append(isEnded: false, at: now)
        case .held:
            let due = (own?.first ?? now) + term.renewed
            guard unknown != nil || now >= due else { return .rest(until: min(due, heldUntil)) }
            return append(isEnded: false, at: now)
        case .ending: return append(isEnded: true, at: now)
        case .ended, .lost: return .nothing
        }
    }

    private func isOwn(_ record: LeaseRecord?) -> Bool { record != nil && record == own?.record }

    /// Whether it is of an earlier process of this device, which is gone: there is one at a time.
    private func isLeftBehind(_ record: LeaseRecord?) -> Bool {
        record?.holder?.instance.high == holder.instance.high
    }

    private mutating func append(isEnded: Bool, at now: Duration) -> Step {
        let number = (watch.record?.number ?? 0) + 1
        guard number <= LeaseRecord.highestNumber else {
            phase = .lost
            return .nothing
        }
        if let unknown, unknown.record.number == number, unknown.record.isEnded == isEnded {
            // The same again, and as old as it was: it may have been stored long ago.
            return .append(unknown.record)
        }
        let record = LeaseRecord(
            document: document,
            number: number,
            generation: own?.record.generation ?? number,
            holder: holder,
            duration: term.duration,
            isEnded: isEnded
        )
        unknown = Sent(record: record, first: now)
        return .append(record)
    }

    // MARK: - What came of it

    /// A look has found `record`.
    mutating func saw(_ record: LeaseRecord?, asked: Duration, at now: Duration) {
        noteTime(now)
        mustLook = false
        failures = 0
        watch.saw(record, asked: asked, at: now)
        if let unknown, record == unknown.record { return confirm(unknown, at: now) }
        switch phase {
        case .wanted:
            // Another was first, or the chain is not what it was.
            if (record?.number ?? 0) + 1 != unknown?.record.number { unknown = nil }
            if !isOwn(record) { own = nil }
        case .held: if !isOwn(record) { phase = .lost }
        case .ending:
            // A renewal may have come late, and been stored in the place of the end.
            guard let record, record.holder == holder, !record.isEnded else {
                phase = .ended
                return
            }
            own = Sent(record: record, first: now)
        case .ended, .lost: break
        }
    }

    /// The store has answered whether the record is the latest.
    mutating func appended(_ isLatest: Bool, at now: Duration) {
        noteTime(now)
        guard isLatest, let unknown else {
            mustLook = true
            mustPause = true
            return
        }
        failures = 0
        watch.saw(unknown.record, asked: now, at: now)
        confirm(unknown, at: now)
    }

    /// It is not known what became of a request.
    mutating func failed(at now: Duration) {
        noteTime(now)
        mustLook = true
        mustPause = true
        failures += 1
        if phase == .ending, failures >= Self.endings { phase = .ended }
    }

    /// The lease is not wanted any more.
    mutating func release() {
        switch phase {
        case .wanted where own == nil && unknown == nil: phase = .ended
        case .wanted, .held:
            phase = .ending
            failures = 0
            // What is on its way has the number that the end needs.
            if unknown != nil || own == nil { mustLook = true }
        case .ending, .ended, .lost: break
        }
    }

    /// A lease that is not renewed ends whether anybody asks or not.
    mutating func noteTime(_ now: Duration) {
        if phase == .held, now >= heldUntil { phase = .lost }
    }

    private mutating func confirm(_ sent: Sent, at now: Duration) {
        own = sent
        unknown = nil
        let until = sent.first + term.held
        switch phase {
        case .wanted:
            // One that was stored too long ago is renewed before anybody relies on it.
            guard now < until else { return }
            phase = .held
            heldUntil = until
        case .held: heldUntil = max(heldUntil, until)
        case .ending: if sent.record.isEnded { phase = .ended }
        case .ended, .lost: break
        }
    }
}

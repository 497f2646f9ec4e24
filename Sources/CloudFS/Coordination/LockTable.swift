/// Who holds which locks, and who waits: `fcntl(2)` and `flock(2)` as values.
///
/// As in Linux a request is granted whenever no *held* lock is in its way, never refused for the
/// sake of somebody who waits: programs that lock the same file twice rely on it. Those who wait
/// are granted in the order they came as soon as nothing held is in their way.
///
/// - Invariant: No two owners hold conflicting locks of one family; the locks of one owner are
///   apart, and those of one kind do not touch.
struct LockTable: Sendable {
    /// One request of a lock.
    struct Token: Hashable, Sendable {
        let rawValue: UInt64
    }

    struct Limits: Sendable {
        var locks = 1 << 16
        var waiters = 1 << 12
    }

    enum Action: Hashable, Sendable {
        case granted(Token)
        /// `lockHeld` when somebody holds a conflicting lock, `tooManyOpen` when there are too
        /// many.
        case refused(Token, CloudFSError.Code)
        /// Waiting would never end: those in the way wait, in turn, for this owner.
        case deadlock(Token)
    }

    struct Held: Hashable, Sendable {
        var owner: UInt64
        var lock: FileLock
    }

    private struct Waiter: Sendable {
        var token: Token
        var owner: UInt64
        var lock: FileLock
    }

    private struct Key: Hashable {
        var item: ItemID
        var family: FileLock.Family
    }

    let limits: Limits
    /// Sorted by where the lock begins.
    private var held: [Key: [Held]] = [:]
    /// In the order they came.
    private var waiting: [Key: [Waiter]] = [:]
    private(set) var lockCount = 0
    private(set) var waiterCount = 0

    init(limits: Limits = Limits()) {
        self.limits = limits
    }

    // MARK: - Requests

    /// The first lock that is in the way of `lock`, or `nil` if it could be had now.
    func test(
        _ lock: FileLock,
        family: FileLock.Family = .posix,
        on item: ItemID,
        owner: UInt64
    ) -> FileLock? {
        guard lock.kind != .unlock else { return nil }
        return held[Key(item: item, family: family)]?
            .first { $0.owner != owner && $0.lock.conflicts(with: lock) }?.lock
    }

    /// Sets, changes or drops a lock.
    ///
    /// - Returns: What happened, to others too: a request without an action of its own waits.
    mutating func set(
        _ lock: FileLock,
        family: FileLock.Family,
        on item: ItemID,
        owner: UInt64,
        waits: Bool,
        token: Token
    ) -> [Action] {
        let key = Key(item: item, family: family)
        var request = Waiter(token: token, owner: owner, lock: lock)
        var actions: [Action] = []
        if family == .flock {
            request.lock.range = 0..<FileLock.end
            let own = held[key]?.first { $0.owner == owner }
            if own?.lock.kind == lock.kind { return [.granted(token)] }
            // flock(2): the old lock goes before the new one is tried, and others may come between.
            if own != nil {
                drop(request.lock.range, of: owner, key)
                grantWaiters(key, &actions)
            }
        }
        if isFree(request, key) {
            actions.append(apply(request, key))
            grantWaiters(key, &actions)
        } else if !waits {
            actions.append(.refused(token, .lockHeld))
        } else if family == .posix && closesCycle(request, key) {
            actions.append(.deadlock(token))
        } else if waiterCount >= limits.waiters {
            actions.append(.refused(token, .tooManyOpen))
        } else {
            waiting[key, default: []].append(request)
            waiterCount += 1
        }
        return actions
    }

    /// Drops every lock that `owner` holds on `item`, of one family or both.
    mutating func unlockAll(
        on item: ItemID,
        owner: UInt64,
        family: FileLock.Family? = nil
    ) -> [Action] {
        var actions: [Action] = []
        for each in FileLock.Family.allCases where family == nil || family == each {
            let key = Key(item: item, family: each)
            guard held[key]?.contains(where: { $0.owner == owner }) == true else { continue }
            drop(0..<FileLock.end, of: owner, key)
            grantWaiters(key, &actions)
        }
        return actions
    }

    /// Who has locks on an item that were taken through a handle.
    func owners(through handle: UInt64, on item: ItemID, family: FileLock.Family) -> Set<UInt64> {
        let held = held[Key(item: item, family: family)] ?? []
        return Set(held.filter { $0.lock.handle == handle }.map(\.owner))
    }

    /// Ends the wait of a request.
    ///
    /// - Returns: Whether it was still waiting: if not, it has had its answer.
    mutating func cancel(_ token: Token) -> Bool {
        for key in waiting.keys {
            guard let index = waiting[key]?.firstIndex(where: { $0.token == token }) else {
                continue
            }
            removeWaiter(at: index, key)
            return true
        }
        return false
    }

    /// Whether an owner has a lock on an item, or waits for one.
    func knows(_ item: ItemID, owner: UInt64, family: FileLock.Family) -> Bool {
        let key = Key(item: item, family: family)
        return held[key]?.contains { $0.owner == owner } == true
            || waiting[key]?.contains { $0.owner == owner } == true
    }

    // MARK: - For a next process

    /// Every granted lock.
    var records: [LockRecord] {
        held.keys.flatMap { records(of: $0.item, family: $0.family) }
    }

    /// The granted locks of one item.
    func records(of item: ItemID, family: FileLock.Family) -> [LockRecord] {
        (held[Key(item: item, family: family)] ?? []).map { entry in
            LockRecord(
                item: item.rawValue,
                owner: entry.owner,
                handle: entry.lock.handle,
                start: entry.lock.range.lowerBound,
                end: entry.lock.range.upperBound,
                processID: entry.lock.processID,
                kind: entry.lock.kind.rawValue,
                family: family.rawValue
            )
        }
    }

    /// Takes over the locks of an earlier process; records that say nothing sensible are left out.
    init(adopting records: some Sequence<LockRecord>, limits: Limits = Limits()) {
        self.limits = limits
        for record in records {
            guard let kind = FileLock.Kind(rawValue: record.kind), kind != .unlock,
                let family = FileLock.Family(rawValue: record.family),
                record.start < record.end, record.end <= FileLock.end
            else { continue }
            let lock = FileLock(
                kind: kind,
                range: record.start..<record.end,
                processID: record.processID
            ).taken(through: record.handle)
            let key = Key(item: ItemID(record.item), family: family)
            let request = Waiter(token: Token(rawValue: 0), owner: record.owner, lock: lock)
            if isFree(request, key) { _ = apply(request, key) }
        }
    }

    // MARK: - Rules

    private func isFree(_ request: Waiter, _ key: Key) -> Bool {
        request.lock.kind == .unlock
            || !(held[key] ?? []).contains {
                $0.owner != request.owner && $0.lock.conflicts(with: request.lock)
            }
    }

    /// Makes a request true that nothing is in the way of.
    private mutating func apply(_ request: Waiter, _ key: Key) -> Action {
        let all = held[key] ?? []
        var own = all.filter { $0.owner == request.owner }
        let before = own.count
        own = own.flatMap { Self.pieces(of: $0, outside: request.lock.range) }
        if request.lock.kind != .unlock {
            own.append(Held(owner: request.owner, lock: request.lock))
            own = Self.joined(own, newest: request.lock)
        }
        let count = lockCount - before + own.count
        guard count <= limits.locks || own.count <= before else {
            return .refused(request.token, .tooManyOpen)
        }
        lockCount = count
        let result = (all.filter { $0.owner != request.owner } + own)
            .sorted { $0.lock.range.lowerBound < $1.lock.range.lowerBound }
        held[key] = result.isEmpty ? nil : result
        return .granted(request.token)
    }

    private mutating func drop(_ range: Range<UInt64>, of owner: UInt64, _ key: Key) {
        let lock = FileLock(kind: .unlock, range: range, processID: 0)
        _ = apply(Waiter(token: Token(rawValue: 0), owner: owner, lock: lock), key)
    }

    /// Grants those who wait, in order, as far as nothing held is in their way.
    private mutating func grantWaiters(_ key: Key, _ actions: inout [Action]) {
        var index = 0
        while let queue = waiting[key], index < queue.count {
            guard isFree(queue[index], key) else {
                index += 1
                continue
            }
            removeWaiter(at: index, key)
            actions.append(apply(queue[index], key))
            // A granted request can also give bytes up (exclusive to shared): look from the front.
            index = 0
        }
    }

    private mutating func removeWaiter(at index: Int, _ key: Key) {
        waiting[key]?.remove(at: index)
        if waiting[key]?.isEmpty == true { waiting[key] = nil }
        waiterCount -= 1
    }

    /// Whether somebody in the way of `request` waits, directly or through others, for its owner.
    private func closesCycle(_ request: Waiter, _ key: Key) -> Bool {
        var waitsOf: [UInt64: [(key: Key, waiter: Waiter)]] = [:]
        for (key, queue) in waiting where key.family == .posix {
            for waiter in queue { waitsOf[waiter.owner, default: []].append((key, waiter)) }
        }
        var reached: Set<UInt64> = []
        var frontier = owners(inTheWayOf: request, key)
        while let owner = frontier.popLast() {
            guard owner != request.owner else { return true }
            guard reached.insert(owner).inserted else { continue }
            for wait in waitsOf[owner] ?? [] {
                frontier += owners(inTheWayOf: wait.waiter, wait.key)
            }
        }
        return false
    }

    private func owners(inTheWayOf request: Waiter, _ key: Key) -> [UInt64] {
        (held[key] ?? []).filter {
            $0.owner != request.owner && $0.lock.conflicts(with: request.lock)
        }.map(\.owner)
    }

    private static func pieces(of entry: Held, outside range: Range<UInt64>) -> [Held] {
        let own = entry.lock.range
        guard own.overlaps(range) else { return [entry] }
        var pieces: [Held] = []
        if own.lowerBound < range.lowerBound {
            pieces.append(entry)
            pieces[0].lock.range = own.lowerBound..<range.lowerBound
        }
        if own.upperBound > range.upperBound {
            var piece = entry
            piece.lock.range = range.upperBound..<own.upperBound
            pieces.append(piece)
        }
        return pieces
    }

    /// Joins locks of one kind that touch; the newest gives the process and the handle.
    private static func joined(_ locks: [Held], newest: FileLock) -> [Held] {
        var result: [Held] = []
        for entry in locks.sorted(by: { $0.lock.range.lowerBound < $1.lock.range.lowerBound }) {
            if let last = result.last, last.lock.kind == entry.lock.kind,
                last.lock.range.upperBound == entry.lock.range.lowerBound
            {
                let range = last.lock.range.lowerBound..<entry.lock.range.upperBound
                result[result.count - 1].lock =
                    FileLock(kind: last.lock.kind, range: range, processID: newest.processID)
                    .taken(through: newest.handle)
            } else {
                result.append(entry)
            }
        }
        return result
    }
}

import Synchronization

/// What became of a request of a lock.
enum LockGrant: Sendable {
    case granted
    case waiting(LockWait)
}

/// A request of a lock that waits its turn.
///
/// Letting go of it without asking for its value ends the wait.
final class LockWait: Sendable {
    private let outcome: PendingResult<Void>
    private let cancelWait: @Sendable () -> Void

    fileprivate init(_ outcome: PendingResult<Void>, cancel: @escaping @Sendable () -> Void) {
        self.outcome = outcome
        cancelWait = cancel
    }

    deinit {
        cancelWait()
    }

    /// Ends the wait with `cancelled`, unless it has already ended.
    func cancel() {
        cancelWait()
    }

    /// Waits until the lock is granted.
    ///
    /// To be called once. Cancelling the task ends the wait.
    ///
    /// - Throws: `cancelled`; `tooManyOpen`; `deadlock`.
    func value() async throws(CloudFSError) {
        let result = await withTaskCancellationHandler {
            await outcome.value()
        } onCancel: {
            cancelWait()
        }
        try result.get()
    }
}

/// Grants locks on files, and lets those wait who must; the runner of `LockTable`.
final class LockCoordinator: Sendable {
    private struct State {
        var table: LockTable
        var outcomes: [LockTable.Token: PendingResult<Void>] = [:]
        var nextToken: UInt64 = 1
        /// Where each granted lock is kept for a next process.
        var slots: [KeptKey: [LockRecord: Int]] = [:]
        var unkeptCount = 0
    }

    private struct KeptKey: Hashable {
        var item: Int64
        var family: UInt8
    }

    private let state: Mutex<State>
    private let region: RecordRegion<LockRecord>?

    /// Begins with the locks that an earlier process left in `region`, and keeps all of them there.
    init(region: RecordRegion<LockRecord>? = nil, limits: LockTable.Limits = LockTable.Limits()) {
        self.region = region
        let kept = region?.slots ?? []
        var state = State(table: LockTable(adopting: kept.map(\.record), limits: limits))
        let adopted = Set(state.table.records)
        for slot in kept {
            let key = KeptKey(item: slot.record.item, family: slot.record.family)
            if adopted.contains(slot.record), state.slots[key]?[slot.record] == nil {
                state.slots[key, default: [:]][slot.record] = slot.index
            } else {
                region?.free(slot.index)
            }
        }
        self.state = Mutex(state)
        for item in Set(adopted.map(\.item)) {
            self.state.withLock { state in
                for family in FileLock.Family.allCases { keep(ItemID(item), family, &state) }
            }
        }
    }

    /// Every granted lock.
    var records: [LockRecord] { state.withLock { $0.table.records } }

    /// How many times a lock could not be kept for a next process, as the region was full.
    var unkeptCount: Int { state.withLock { $0.unkeptCount } }

    /// The first lock that is in the way of `lock`, or `nil` if it could be had now.
    func test(
        _ lock: FileLock,
        family: FileLock.Family = .posix,
        on item: ItemID,
        owner: UInt64
    ) -> FileLock? {
        state.withLock { $0.table.test(lock, family: family, on: item, owner: owner) }
    }

    /// Sets, changes or drops a lock.
    ///
    /// - Throws: `lockHeld` when `waits` is false; `deadlock`; `tooManyOpen`.
    func set(
        _ lock: FileLock,
        family: FileLock.Family = .posix,
        on item: ItemID,
        owner: UInt64,
        waits: Bool
    ) throws(CloudFSError) -> LockGrant {
        let outcome = PendingResult<Void>()
        let (token, actions) = state.withLock { state in
            let token = LockTable.Token(rawValue: state.nextToken)
            state.nextToken += 1
            let actions = state.table.set(
                lock,
                family: family,
                on: item,
                owner: owner,
                waits: waits,
                token: token
            )
            if !actions.contains(where: { $0.token == token }) { state.outcomes[token] = outcome }
            keep(item, family, &state)
            return (token, actions)
        }
        run(actions)
        guard let own = actions.first(where: { $0.token == token }) else {
            return .waiting(LockWait(outcome) { [weak self] in self?.cancel(token) })
        }
        try Self.result(of: own).get()
        return .granted
    }

    /// Whether an owner has, or waits for, a lock.
    func holds(on item: ItemID, _ owner: UInt64, _ family: FileLock.Family) -> Bool {
        state.withLock { $0.table.knows(item, owner: owner, family: family) }
    }

    /// Who has locks on an item that were taken through a handle.
    func owners(through handle: UInt64, on item: ItemID, _ family: FileLock.Family) -> Set<UInt64> {
        state.withLock { $0.table.owners(through: handle, on: item, family: family) }
    }

    /// Drops the locks of an owner that is gone or has closed the file.
    func unlockAll(on item: ItemID, owner: UInt64, family: FileLock.Family? = nil) {
        let actions = state.withLock { state in
            let actions = state.table.unlockAll(on: item, owner: owner, family: family)
            for each in FileLock.Family.allCases { keep(item, each, &state) }
            return actions
        }
        run(actions)
    }

    private func cancel(_ token: LockTable.Token) {
        let outcome = state.withLock { state in
            guard state.outcomes[token] != nil, state.table.cancel(token) else {
                return nil as PendingResult<Void>?
            }
            return state.outcomes.removeValue(forKey: token)
        }
        outcome?.resolve(.failure(CloudFSError(.cancelled, "the wait for a lock was ended")))
    }

    /// Tells those who waited, with no mutex held.
    private func run(_ actions: [LockTable.Action]) {
        guard !actions.isEmpty else { return }
        let told = state.withLock { state in
            actions.compactMap { action in
                state.outcomes.removeValue(forKey: action.token).map { ($0, action) }
            }
        }
        for (outcome, action) in told { outcome.resolve(Self.result(of: action)) }
    }

    /// Brings the region to what the table says of one item.
    ///
    /// New records come before old ones go: a process killed in between leaves too many locks,
    /// which their owner's next step mends, and never too few.
    private func keep(_ item: ItemID, _ family: FileLock.Family, _ state: inout State) {
        guard let region else { return }
        let key = KeptKey(item: item.rawValue, family: family.rawValue)
        let wanted = Set(state.table.records(of: item, family: family))
        var slots = state.slots[key] ?? [:]
        for record in wanted where slots[record] == nil {
            do {
                slots[record] = try region.allocate(record)
            } catch {
                // It costs a next process this lock, and nobody anything now.
                state.unkeptCount += 1
            }
        }
        for (record, index) in slots where !wanted.contains(record) {
            region.free(index)
            slots[record] = nil
        }
        state.slots[key] = slots.isEmpty ? nil : slots
    }

    private static func result(of action: LockTable.Action) -> Result<Void, CloudFSError> {
        switch action {
        case .granted:
            .success(())
        case .refused(_, .lockHeld):
            .failure(CloudFSError(.lockHeld, "another program holds a lock there"))
        case .refused(_, let code):
            .failure(CloudFSError(code, "there are too many locks on this drive"))
        case .deadlock:
            .failure(CloudFSError(.deadlock, "the holder of the lock waits for this program"))
        }
    }
}

extension LockTable.Action {
    /// The request that the action answers.
    var token: LockTable.Token {
        switch self {
        case .granted(let token), .refused(let token, _), .deadlock(let token): token
        }
    }
}

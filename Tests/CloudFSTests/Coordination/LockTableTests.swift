import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct LockTableTests {
    private let item = ItemID(2)

    /// Sets a lock at once or not at all, and says whether it was granted.
    private func take(
        _ table: inout LockTable,
        _ kind: FileLock.Kind,
        _ range: Range<UInt64>,
        owner: UInt64,
        waits: Bool = false,
        token: UInt64 = 0,
        on item: ItemID = ItemID(2),
        family: FileLock.Family = .posix
    ) -> [LockTable.Action] {
        table.set(
            FileLock(kind: kind, range: range, processID: Int32(owner)),
            family: family,
            on: item,
            owner: owner,
            waits: waits,
            token: .init(rawValue: token)
        )
    }

    private func granted(_ token: UInt64 = 0) -> LockTable.Action {
        .granted(.init(rawValue: token))
    }

    private func refused(_ token: UInt64 = 0) -> LockTable.Action {
        .refused(.init(rawValue: token), .lockHeld)
    }

    @Test func `every three requests of two owners on three bytes go as byte by byte`() {
        var requests: [LockModel.Request] = []
        for owner: UInt64 in 1...2 {
            for kind in [FileLock.Kind.shared, .exclusive, .unlock] {
                for low: UInt64 in 0..<3 {
                    for high in low + 1...3 {
                        requests.append(
                            LockModel.Request(
                                kind: kind,
                                range: low..<high,
                                family: .posix,
                                item: 1,
                                owner: owner,
                                token: 1
                            )
                        )
                    }
                }
            }
        }
        func explore(_ table: LockTable, _ model: LockModel, _ path: [LockModel.Request]) {
            guard path.count < 3 else { return }
            for request in requests {
                var table = table
                var model = model
                let isSame = table.set(request, waits: false) == model.set(request, waits: false)
                let hasSameLocks =
                    table.runs(item: 1, family: .posix) == model.runs(item: 1, family: .posix)
                if !isSame || !hasSameLocks { Issue.record("after \(path + [request])") }
                explore(table, model, path + [request])
            }
        }
        explore(LockTable(), LockModel(), [])
    }

    @Test(arguments: UInt64(1)...40)
    func `random requests that wait go as in the naive model`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = LockTable()
        var model = LockModel()
        for step in 0..<200 {
            let note: Comment = "seed \(seed) step \(step)"
            let owner = UInt64(random.below(4) + 1)
            let item = Int64(random.below(2) + 1)
            switch random.below(10) {
            case 0:
                let actions = table.unlockAll(on: ItemID(item), owner: owner)
                #expect(Set(actions) == Set(model.unlockAll(item: item, owner: owner)), note)
            case 1:
                guard let waiter = model.queue.randomElement(using: &random) else { continue }
                let isCancelled = table.cancel(.init(rawValue: waiter.token))
                let isCancelledAgain = table.cancel(.init(rawValue: waiter.token))
                #expect(isCancelled && !isCancelledAgain, note)
                model.queue.removeAll { $0.token == waiter.token }
            default:
                // A program waits for one lock at a time.
                guard !model.queue.contains(where: { $0.owner == owner }) else { continue }
                let low = UInt64(random.below(8))
                let request = LockModel.Request(
                    kind: [.shared, .exclusive, .exclusive, .unlock][random.below(4)],
                    range: low..<low + 1 + UInt64(random.below(8)),
                    family: random.below(3) == 0 ? .flock : .posix,
                    item: item,
                    owner: owner,
                    token: UInt64(step + 1)
                )
                let waits = random.below(3) > 0
                #expect(table.set(request, waits: waits) == model.set(request, waits: waits), note)
            }
            for item: Int64 in 1...2 {
                for family in FileLock.Family.allCases {
                    let runs = table.runs(item: item, family: family)
                    #expect(runs == model.runs(item: item, family: family), note)
                }
            }
            #expect(table.waiterCount == model.queue.count, note)
            #expect(table.lockCount == table.records.count, note)
            #expect(Set(LockTable(adopting: table.records).records) == Set(table.records), note)
        }
        expectAllGranted(table, model, "seed \(seed)")
    }

    /// Ends programs that do not wait, until nobody waits: POSIX waits never form a ring.
    private func expectAllGranted(_ table: LockTable, _ model: LockModel, _ note: Comment) {
        var table = table
        var model = model
        // flock knows no deadlocks, in Linux neither: those waits are given up first.
        for wait in model.queue where wait.family == .flock {
            let isCancelled = table.cancel(.init(rawValue: wait.token))
            #expect(isCancelled, note)
        }
        model.queue.removeAll { $0.family == .flock }
        for _ in 0..<10 where !model.queue.isEmpty {
            let free = (UInt64(1)...4).filter { owner in
                !model.queue.contains { $0.owner == owner }
            }
            #expect(!free.isEmpty, note)
            for owner in free {
                for item: Int64 in 1...2 {
                    _ = table.unlockAll(on: ItemID(item), owner: owner)
                    _ = model.unlockAll(item: item, owner: owner)
                }
            }
        }
        #expect(table.waiterCount == 0 && model.queue.isEmpty, note)
    }

    @Test func `unlocking the middle of a lock splits it`() {
        var table = LockTable()
        _ = take(&table, .exclusive, 0..<30, owner: 1)
        _ = take(&table, .unlock, 10..<20, owner: 1)
        #expect(table.runs(item: 2, family: .posix) == [[1, 0, 10, 2], [1, 20, 30, 2]])
        #expect(take(&table, .exclusive, 10..<20, owner: 2) == [granted()])
    }

    @Test func `a lock can be weakened in part and readers get in there`() {
        var table = LockTable()
        _ = take(&table, .exclusive, 0..<FileLock.end, owner: 1)
        _ = take(&table, .shared, 0..<10, owner: 1)
        #expect(take(&table, .shared, 0..<10, owner: 2) == [granted()])
        #expect(take(&table, .shared, 0..<11, owner: 3) == [refused()])
    }

    @Test func `an upgrade that is refused keeps a POSIX lock and loses a flock`() {
        for (family, remains) in [(FileLock.Family.posix, true), (.flock, false)] {
            var table = LockTable()
            _ = take(&table, .shared, 0..<10, owner: 1, family: family)
            _ = take(&table, .shared, 0..<10, owner: 2, family: family)
            #expect(take(&table, .exclusive, 0..<10, owner: 1, family: family) == [refused()])
            let owners = table.records.map(\.owner)
            #expect(owners.contains(1) == remains)
        }
    }

    @Test func `an upgrade of a flock lets a waiting writer in between`() {
        var table = LockTable()
        let all = 0..<FileLock.end
        _ = take(&table, .shared, all, owner: 1, family: .flock)
        #expect(
            take(&table, .exclusive, all, owner: 2, waits: true, token: 7, family: .flock).isEmpty
        )
        let actions = take(
            &table,
            .exclusive,
            all,
            owner: 1,
            waits: true,
            token: 8,
            family: .flock
        )
        #expect(actions == [granted(7)])
        #expect(table.unlockAll(on: item, owner: 2) == [granted(8)])
    }

    @Test func `two readers that both want to write are a deadlock`() {
        var table = LockTable()
        _ = take(&table, .shared, 0..<10, owner: 1)
        _ = take(&table, .shared, 0..<10, owner: 2)
        #expect(take(&table, .exclusive, 0..<10, owner: 1, waits: true, token: 5).isEmpty)
        let actions = take(&table, .exclusive, 0..<10, owner: 2, waits: true, token: 6)
        #expect(actions == [.deadlock(.init(rawValue: 6))])
        #expect(table.unlockAll(on: item, owner: 2) == [granted(5)])
    }

    @Test func `a ring of three owners over three files is a deadlock`() {
        var table = LockTable()
        for owner: UInt64 in 1...3 {
            _ = take(&table, .exclusive, 0..<1, owner: owner, on: ItemID(Int64(owner)))
        }
        for owner: UInt64 in 1...2 {
            let next = ItemID(Int64(owner + 1))
            let actions = take(
                &table,
                .shared,
                0..<1,
                owner: owner,
                waits: true,
                token: owner,
                on: next
            )
            #expect(actions.isEmpty)
        }
        let actions = take(
            &table,
            .shared,
            0..<1,
            owner: 3,
            waits: true,
            token: 3,
            on: ItemID(1)
        )
        #expect(actions == [.deadlock(.init(rawValue: 3))])
    }

    @Test func `the two families know nothing of each other`() {
        var table = LockTable()
        _ = take(&table, .exclusive, 0..<FileLock.end, owner: 1, family: .flock)
        #expect(take(&table, .exclusive, 0..<FileLock.end, owner: 2) == [granted()])
        _ = table.unlockAll(on: item, owner: 1, family: .posix)
        #expect(table.records.map(\.family) == [2, 1] || table.records.map(\.family) == [1, 2])
    }

    @Test func `a lock belongs to the handle through which it was taken last`() {
        var table = LockTable()
        func take(_ range: Range<UInt64>, owner: UInt64, through handle: UInt64) {
            let lock = FileLock(kind: .shared, range: range, processID: 1).taken(through: handle)
            _ = table.set(
                lock,
                family: .posix,
                on: item,
                owner: owner,
                waits: false,
                token: .init(rawValue: 0)
            )
        }
        take(0..<10, owner: 1, through: 7)
        take(20..<30, owner: 1, through: 7)
        take(0..<10, owner: 2, through: 8)
        #expect(table.owners(through: 7, on: item, family: .posix) == [1])
        #expect(table.owners(through: 7, on: item, family: .flock).isEmpty)
        // It joins the first two.
        take(10..<20, owner: 1, through: 9)
        #expect(table.owners(through: 7, on: item, family: .posix).isEmpty)
        #expect(table.owners(through: 9, on: item, family: .posix) == [1])
        let next = LockTable(adopting: table.records)
        #expect(next.owners(through: 8, on: item, family: .posix) == [2])
    }

    @Test func `a test names the first lock in the way`() {
        var table = LockTable()
        _ = take(&table, .shared, 20..<30, owner: 1)
        _ = take(&table, .exclusive, 5..<9, owner: 1)
        let wish = FileLock(kind: .exclusive, range: 0..<100, processID: 9)
        let found = table.test(wish, on: item, owner: 2)
        #expect(found == FileLock(kind: .exclusive, range: 5..<9, processID: 1))
        #expect(table.test(wish, on: item, owner: 1) == nil)
        let reading = FileLock(kind: .shared, range: 20..<30, processID: 9)
        #expect(table.test(reading, on: item, owner: 2) == nil)
    }

    @Test func `numbers of locks and of those who wait are bounded`() {
        var table = LockTable(limits: .init(locks: 2, waiters: 1))
        _ = take(&table, .exclusive, 0..<1, owner: 1)
        _ = take(&table, .exclusive, 5..<9, owner: 1)
        let many = LockTable.Action.refused(.init(rawValue: 0), .tooManyOpen)
        #expect(take(&table, .exclusive, 20..<21, owner: 1) == [many])
        #expect(take(&table, .exclusive, 1..<5, owner: 1) == [granted()])
        #expect(take(&table, .shared, 0..<1, owner: 2, waits: true, token: 1).isEmpty)
        #expect(take(&table, .shared, 0..<1, owner: 3, waits: true) == [many])
    }

    @Test func `records that make no sense are not adopted`() {
        let good = LockRecord(
            item: 1,
            owner: 1,
            handle: 1,
            start: 0,
            end: 5,
            processID: 1,
            kind: 2,
            family: 1
        )
        var records = Array(repeating: good, count: 6)
        records[1].kind = 3
        records[2].family = 9
        records[3].end = 0
        records[4].end = FileLock.end + 1
        records[5].owner = 2
        #expect(LockTable(adopting: records).records == [good])
    }
}

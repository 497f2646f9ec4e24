import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

@Suite struct LockCoordinatorTests {
    private let item = ItemID(2)

    private func exclusive(_ range: Range<UInt64> = 0..<10) -> FileLock {
        FileLock(kind: .exclusive, range: range, processID: 1)
    }

    private func wait(for grant: LockGrant) throws -> LockWait {
        guard case .waiting(let wait) = grant else {
            throw CloudFSError(.internalFailure, "the lock was granted at once")
        }
        return wait
    }

    @Test func `a waiting program goes on when the lock is dropped`() async throws {
        let locks = LockCoordinator()
        _ = try locks.set(exclusive(), on: item, owner: 1, waits: true)
        let waiting = try wait(for: locks.set(exclusive(), on: item, owner: 2, waits: true))
        let task = Task { try await waiting.value() }
        locks.unlockAll(on: item, owner: 1)
        try await task.value
        #expect(locks.records.map(\.owner) == [2])
    }

    @Test func `a lock granted before anybody awaits it is granted`() async throws {
        let locks = LockCoordinator()
        _ = try locks.set(exclusive(), on: item, owner: 1, waits: true)
        let waiting = try wait(for: locks.set(exclusive(), on: item, owner: 2, waits: true))
        locks.unlockAll(on: item, owner: 1)
        try await waiting.value()
        #expect(locks.records.map(\.owner) == [2])
    }

    @Test func `a cancelled task ends its wait and gets no lock`() async throws {
        let locks = LockCoordinator()
        _ = try locks.set(exclusive(), on: item, owner: 1, waits: true)
        let waiting = try wait(for: locks.set(exclusive(), on: item, owner: 2, waits: true))
        let task = Task { () -> CloudFSError.Code? in
            do throws(CloudFSError) {
                try await waiting.value()
                return nil
            } catch {
                return error.code
            }
        }
        task.cancel()
        #expect(await task.value == .cancelled)
        locks.unlockAll(on: item, owner: 1)
        #expect(locks.records.isEmpty)
    }

    @Test func `a wait that nobody holds on to is over`() throws {
        let locks = LockCoordinator()
        _ = try locks.set(exclusive(), on: item, owner: 1, waits: true)
        _ = try locks.set(exclusive(), on: item, owner: 2, waits: true)
        locks.unlockAll(on: item, owner: 1)
        #expect(locks.records.isEmpty)
    }

    @Test func `a program that does not wait is told who is in the way`() throws {
        let locks = LockCoordinator()
        _ = try locks.set(exclusive(), on: item, owner: 1, waits: false)
        do throws(CloudFSError) {
            _ = try locks.set(exclusive(), on: item, owner: 2, waits: false)
            Issue.record("the lock was granted twice")
        } catch {
            #expect(error.code == .lockHeld)
        }
        #expect(locks.test(exclusive(), on: item, owner: 2)?.processID == 1)
    }

    @Test func `a deadlock is refused`() throws {
        let locks = LockCoordinator()
        _ = try locks.set(exclusive(0..<1), on: item, owner: 1, waits: true)
        _ = try locks.set(exclusive(1..<2), on: item, owner: 2, waits: true)
        let waiting = try locks.set(exclusive(1..<2), on: item, owner: 1, waits: true)
        do throws(CloudFSError) {
            _ = try locks.set(exclusive(0..<1), on: item, owner: 2, waits: true)
            Issue.record("a ring of waits was begun")
        } catch {
            #expect(error.code == .deadlock)
        }
        _ = try wait(for: waiting)
    }

    @Test(arguments: UInt64(1)...20)
    func `a next process finds exactly the locks that were held`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let region = try RecordRegion<LockRecord>(capacity: 2)
        let locks = LockCoordinator(region: region)
        for _ in 0..<200 {
            let owner = UInt64(random.below(3) + 1)
            let item = ItemID(Int64(random.below(3) + 1))
            if random.below(8) == 0 {
                locks.unlockAll(on: item, owner: owner)
                continue
            }
            let kind = [FileLock.Kind.shared, .exclusive, .unlock][random.below(3)]
            let low = UInt64(random.below(50))
            let lock = FileLock(kind: kind, range: low..<low + 10, processID: 1)
            do throws(CloudFSError) {
                _ = try locks.set(
                    lock,
                    family: random.below(4) == 0 ? .flock : .posix,
                    on: item,
                    owner: owner,
                    waits: false
                )
            } catch {
                #expect(error.code == .lockHeld, "seed \(seed)")
            }
        }
        let held = Set(locks.records)
        #expect(region.count == held.count, "seed \(seed)")
        let nextRegion = try RecordRegion<LockRecord>(adopting: dup(region.descriptor))
        let next = LockCoordinator(region: nextRegion)
        #expect(Set(next.records) == held, "seed \(seed)")
        for record in held {
            next.unlockAll(on: ItemID(record.item), owner: record.owner)
        }
        #expect(nextRegion.count == 0, "seed \(seed)")
    }
}

import Dispatch
import Foundation
import GRDB
import Testing

@testable import CloudFS

/// Changes of content that others, or failures, come between.
@Suite struct OpenFilesWritingTests {
    private let fixture: CatalogFixture
    private var files: OpenFiles { fixture.files }
    private var catalog: Catalog { fixture.catalog }

    init() throws {
        fixture = try CatalogFixture()
    }

    // MARK: - Two at once

    /// What `meanwhile` does comes before the bytes reach the content that was chosen for them, or
    /// after that.
    private func write(
        _ file: OpenFile,
        at offset: Int64 = 0,
        before: () throws(CloudFSError) -> Void = {},
        after: () throws(CloudFSError) -> Void = {}
    ) throws {
        _ = try files.write(
            file,
            at: { _ in offset },
            count: 4,
            receive: { content, offset, count throws(CloudFSError) in
                try before()
                try content.write([1, 2, 3, 4][...], at: offset)
                try after()
                return count
            }
        )
    }

    private func expectTrueSize(of file: OpenFile, _ size: Int64) throws {
        try file.state.withLock { state throws(CloudFSError) in
            #expect(state.size == size)
            #expect(try files.content(of: &state, file.id).facts().size == size)
        }
        try files.release(file)
        #expect(try catalog.read { try $0.existing(file.id) }.item.size == size)
    }

    @Test(arguments: [true, false])
    func `a file that is emptied while it is written is as long as its bytes`(
        isBefore: Bool
    ) throws {
        let file = try files.acquire(try fixture.addFile("file"))
        try write(file)
        let empty = { () throws(CloudFSError) in _ = try files.truncate(file, to: 0) }
        if isBefore { try write(file, before: empty) } else { try write(file, after: empty) }
        try expectTrueSize(of: file, 0)
    }

    @Test(arguments: [true, false])
    func `a file that is cut in place while it is written is as long as its bytes`(
        isBefore: Bool
    ) throws {
        let file = try files.acquire(try fixture.addFile("file"))
        try write(file)
        let cut = { () throws(CloudFSError) in _ = try files.truncate(file, to: 1) }
        if isBefore { try write(file, before: cut) } else { try write(file, after: cut) }
        try expectTrueSize(of: file, isBefore ? 4 : 1)
    }

    @Test func `what was kept for content that was replaced since its flush stays`() throws {
        let id = try fixture.addFile("file")
        let file = try files.acquire(id)
        try write(file)
        try files.synchronize(file)
        let flushed = ContentName(item: id, generation: file.state.withLock { $0.generation })
        _ = try files.truncate(file, to: 0)
        try files.releasePrevious(of: flushed)
        #expect(try catalog.read { try $0.previous(of: id) } != nil)
        try files.synchronize(file)
        #expect(try catalog.read { try $0.previous(of: id) } == nil)
        try files.release(file)
    }

    /// Bytes of the cloud that were chosen before would land on top of what is changed now.
    @Test(arguments: ["write", "truncate", "allocate", "empty"])
    func `a change waits for bytes of the cloud that are on their way`(change: String) throws {
        let partial = try PartialFile(in: fixture)
        let file = try files.acquire(partial.id)
        let (isBegun, isDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isChangedMeanwhile = file.filling.shared {
            Thread.detachNewThread {
                isBegun.signal()
                do { try make(change, file) } catch { Issue.record("\(change) failed: \(error)") }
                isDone.signal()
            }
            isBegun.wait()
            return isDone.wait(timeout: .now() + .milliseconds(200)) == .success
        }
        #expect(!isChangedMeanwhile)
        if !isChangedMeanwhile { isDone.wait() }
        try files.release(file)
    }

    // MARK: - The catalog fails

    private func withFailingRanges(_ body: () throws -> Void) throws {
        try execute(
            """
            CREATE TRIGGER failing BEFORE INSERT ON range
            BEGIN SELECT RAISE(FAIL, 'the disk fails'); END
            """
        )
        try body()
        try execute("DROP TRIGGER failing")
    }

    private func execute(_ sql: String) throws {
        try catalog.write { try $0.database.execute(sql: sql) }
    }

    /// Who is taken out of the plan by a change that fails would wait for ever.
    @Test(arguments: ["write", "truncate", "allocate"])
    func `who waits for bytes hears of them though the catalog has failed`(
        change: String
    ) throws {
        let partial = try PartialFile(in: fixture)
        let file = try files.acquire(partial.id)
        let range = PartialFile.absent
        let reader = file.read(range.lowerBound..<range.lowerBound + 4, in: files)
        #expect(!reader.actions.contains(.wake(reader.waiter, failure: nil)))
        try withFailingRanges { #expect(throws: CloudFSError.self) { try make(change, file) } }
        #expect(isWaiting(reader.waiter, file))
        // With the next event, or when it is done again.
        if change != "truncate" { try make(change, file) }
        _ = file.state.withLock { files.handle(.tick, &$0, files.clocks.elapsed()) }
        #expect(!isWaiting(reader.waiter, file))
        try files.release(file)
    }

    /// Changes absent bytes of a `PartialFile`.
    private func make(_ change: String, _ file: OpenFile) throws {
        let range = PartialFile.absent
        switch change {
        case "write": try write(file, at: range.lowerBound)
        case "truncate": _ = try files.truncate(file, to: range.lowerBound)
        case "empty": _ = try files.truncate(file, to: 0)
        default:
            _ = try files.allocate(
                file,
                mode: .zeroRangeKeepSize,
                offset: range.lowerBound,
                count: Int64(range.count)
            )
        }
    }

    private func isWaiting(_ waiter: HydrationPlan.WaiterID, _ file: OpenFile) -> Bool {
        file.state.withLock { $0.plan?.waiters.contains { $0.id == waiter } == true }
    }

    @Test func `what was cut off stays cut off though the catalog has failed`() throws {
        let partial = try PartialFile(in: fixture)
        let file = try files.acquire(partial.id)
        let (cut, end) = (PartialFile.own.upperBound, PartialFile.size)
        try withFailingRanges {
            #expect(throws: CloudFSError.self) { try files.truncate(file, to: cut) }
        }
        _ = try files.truncate(file, to: end)
        try files.release(file)
        let again = try files.acquire(partial.id)
        #expect(again.state.withLock { $0.plan?.isPresent(cut..<end) } != false)
        try files.release(again)
    }

    @Test func `who waits hears that the content was replaced though the catalog has failed`()
        throws
    {
        let partial = try PartialFile(in: fixture, isDirty: false)
        let file = try files.acquire(partial.id)
        let waiter = file.read(PartialFile.absent, in: files).waiter
        file.state.withLock { $0.waits[waiter] = Pending<Void>() }
        try execute("ALTER TABLE newer RENAME TO gone")
        let actions = file.state.withLock { files.reload(&$0, partial.id) }
        #expect(actions.contains(.wake(waiter, failure: .remoteChanged)))
        #expect(throws: CloudFSError.self) { try files.acquire(partial.id) }
        try execute("ALTER TABLE gone RENAME TO newer")
        let again = try files.acquire(partial.id)
        #expect(again.state.withLock { $0.isLoaded })
        try files.release(again)
        try files.release(file)
    }
}

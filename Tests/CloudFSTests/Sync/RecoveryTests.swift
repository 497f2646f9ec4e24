import CloudFSTestSupport
import Glibc
import Logging
import Testing

@testable import CloudFS

/// The next start after a power failure, which content files may have lost what was not flushed in.
@Suite struct RecoveryTests {
    private let bench: RecoveryBench
    private var fixture: CatalogFixture { bench.fixture }
    private var files: OpenFiles { fixture.files }
    private var catalog: Catalog { fixture.catalog }

    init() throws {
        bench = try RecoveryBench()
    }

    private func save(_ text: String, over old: ItemID) throws -> ItemID {
        let new = try fixture.addFile("new")
        try bench.write(text, to: new)
        try catalog.write { writer in
            _ = try writer.rename(
                new,
                to: Array("document".utf8),
                in: .root,
                replacing: old,
                at: CatalogFixture.now,
                notBefore: CatalogFixture.now,
                settleTime: files.settleTime
            )
            _ = try writer.eraseIfForgotten(old)
        }
        return new
    }

    /// Adds a document of which everything is in the cloud, and nothing here.
    private func addPlaceholder() throws -> (ItemID, BaseRecord) {
        let id = try fixture.addFile("document")
        let base = CatalogFixture.base(of: id, named: "document", version: "1")
        try catalog.write { writer in
            try writer.setBase(base)
            try writer.setSize(base.size, of: id)
        }
        return (id, base)
    }

    private var lost: [String] {
        get throws {
            let folder = try #require(opendir(fixture.directory.path("lost+found")))
            defer { closedir(folder) }
            var names: [String] = []
            while let entry = readdir(folder) {
                names.append(
                    withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                        pointer.withMemoryRebound(to: CChar.self, capacity: 256) {
                            String(cString: $0)
                        }
                    }
                )
            }
            return names.filter { !$0.hasPrefix(".") }
        }
    }

    @Test(arguments: [0, 4])
    func `a file that was emptied and written is what it was before`(left: Int) throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        try bench.write("afterwards", to: id, emptying: true)
        try bench.cut(id, to: left)
        try bench.failPower()
        try bench.recover()
        #expect(try bench.text(of: id) == "before")
        let record = try catalog.read { try $0.existing(id) }
        #expect(record.item.content.cleanliness == .dirty)
        #expect(try catalog.read { try $0.outboxEntry(of: id) } != nil)
        // What there is of the new content is not thrown away.
        #expect(try lost.count == (left == 0 ? 0 : 1))
        #expect(try files.store.generations().count == 1)
    }

    /// So ext4 has it when it knew the length before it had the bytes.
    @Test(arguments: [0..<8192, 4096..<8192, 0..<20_000])
    func `a file of which the disk has the length only is what it was before`(
        lost: Range<Int64>
    ) throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        try bench.write(String(repeating: "after", count: 4000), to: id, emptying: true)
        try bench.punch(lost, in: id)
        try bench.failPower()
        try bench.recover()
        #expect(try bench.text(of: id) == "before")
        #expect(try self.lost.count == 1)
    }

    @Test func `a file that had holes when it was closed is whole`() throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        let file = try files.acquire(id)
        _ = try files.truncate(file, to: 0)
        try files.write(Array("afterwards".utf8), to: file)
        _ = try files.truncate(file, to: 20_000)
        try files.release(file)
        try bench.failPower()
        try bench.recover()
        let record = try catalog.read { try $0.existing(id) }
        #expect(record.item.size == 20_000)
        #expect(try lost == [])
    }

    @Test(arguments: [false, true])
    func `a file that nobody closed is what it was before`(isMadeLong: Bool) throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        let file = try files.acquire(id)
        _ = try files.truncate(file, to: 0)
        if isMadeLong { _ = try files.truncate(file, to: 4) }
        try files.write(Array("half".utf8), to: file)
        try bench.failPower()
        try bench.recover()
        #expect(try bench.text(of: id) == "before")
        #expect(try lost.count == 1)
    }

    /// Else what the cloud has there is never fetched, and zeros are sent in its place.
    @Test(arguments: [(false, false), (true, false), (false, true), (true, true)])
    func `what was written into a file that is not all here counts after a flush`(
        isFlushed: Bool,
        hasFailedBefore: Bool
    ) throws {
        let (id, _) = try addPlaceholder()
        let file = try files.acquire(id)
        try files.write(Array("a".utf8), to: file)
        #expect(try catalog.read { try $0.ranges(of: id) } == [0..<1])
        if hasFailedBefore { try bench.recover() }
        #expect(try catalog.read { try $0.ranges(of: id) } == [0..<1])
        // The next process knows of the file what the catalog does.
        let next = OpenFiles(
            catalog: catalog,
            store: files.store,
            clocks: .system,
            hydration: HydrationSettings(policy: .partial),
            quietTime: .zero
        )
        if isFlushed {
            let one = hasFailedBefore ? next : files
            try one.synchronize(try one.acquire(id))
        }
        try bench.failPower()
        try bench.recover()
        #expect(try catalog.read { try $0.ranges(of: id) } == (isFlushed ? [0..<1] : []))
        #expect(try catalog.read { try $0.existing(id) }.item.content.cleanliness == .dirty)
    }

    /// As the system does with what programs write into any other file.
    @Test func `what was written into a file that is not all here is flushed in time`() throws {
        let (id, _) = try addPlaceholder()
        let file = try files.acquire(id)
        try files.write(Array("a".utf8), to: file)
        let rest = try #require(try files.flushWritten())
        #expect(rest > .seconds(25) && rest <= .seconds(30))
        #expect(try catalog.read { try $0.hasUnflushedRanges(of: id) })
        try catalog.write { try $0.execute("UPDATE range SET written = written - 31000000000") }
        #expect(try files.flushWritten() == nil)
        try bench.failPower()
        try bench.recover()
        #expect(try catalog.read { try $0.ranges(of: id) } == [0..<1])
    }

    /// Bytes that are fetched give its content file the time at which they came.
    @Test(arguments: [false, true])
    func `what is filled when everything is killed keeps the time of its last change`(
        isTimeSet: Bool
    ) throws {
        let (id, _) = try addPlaceholder()
        let file = try files.acquire(id)
        try files.write(Array("a".utf8), to: file)
        try files.write(Array("b".utf8), to: file)
        let time = Timestamp(seconds: 1_700_000_000, nanoseconds: 7)
        if isTimeSet {
            try files.setModified(time, of: file)
            try catalog.write { try $0.setMetadata(of: id, modified: time, at: time) }
        }
        let modified = file.state.withLock { $0.modified }
        #expect(!isTimeSet || modified == time)
        let generation = try catalog.read { try $0.existing(id) }.item.content.generation
        let content = try files.store.open(id, generation: generation)
        try content.write(Array("c".utf8)[...], at: 2)
        try content.setModified(modified + .seconds(5))
        try bench.recover()
        #expect(try catalog.read { try $0.existing(id) }.item.metadata.modified == modified)
    }

    /// Also while bytes that were fetched are not stored yet.
    @Test func `the sweeper hears once of what is to be flushed`() throws {
        let (id, _) = try addPlaceholder()
        var news: [Bool] = []
        for range in [0..<1, 1..<2] as [Range<Int64>] {
            try catalog.write { writer in
                try writer.addRanges([range], of: id, written: CatalogFixture.now)
                news.append(writer.outcome.hasLeftovers)
            }
        }
        #expect(news == [true, false])
    }

    @Test func `what is replaced is kept until a program has closed what it writes`() throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        let file = try files.acquire(id)
        file.state.withLock { $0.noteOpened(isWritable: true, at: CatalogFixture.now) }
        _ = try files.truncate(file, to: 0)
        try files.write(Array("half".utf8), to: file)
        _ = try UploadSnapshot(of: file, in: files)
        #expect(try catalog.read { try $0.allPrevious() }.count == 1)
        try files.write(Array("whole".utf8), to: file)
        file.state.withLock { $0.writers -= 1 }
        _ = try UploadSnapshot(of: file, in: files)
        #expect(try catalog.read { try $0.allPrevious() } == [])
    }

    @Test func `a file that was saved by renaming is what it was before`() throws {
        let old = try fixture.addFile("document")
        try bench.write("before", to: old)
        var current = old
        for number in 1...3 { current = try save("save \(number)", over: current) }
        try bench.cut(current, to: 0)
        try bench.failPower()
        try bench.recover()
        #expect(try bench.text(of: current) == "before")
        #expect(try files.store.generations().count == 1)
        #expect(try catalog.read { try $0.allPrevious() } == [])
    }

    @Test func `what is all there stays, and so does what only a process lost`() throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        try bench.write("afterwards", to: id, emptying: true)
        try bench.failPower()
        try bench.recover()
        #expect(try bench.text(of: id) == "afterwards")
        try bench.write("then", to: id, emptying: true)
        // A program has cut it, and the daemon was killed before it heard of that.
        try bench.cut(id, to: 2)
        try bench.recover()
        #expect(try bench.text(of: id) == "th")
    }

    /// A backup that an editor makes of what was downloaded is sent, though nobody wrote it.
    @Test func `a backup has its time after a crash`() throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        let time = CatalogFixture.now
        try catalog.write { writer in
            try writer.setBase(CatalogFixture.base(of: id, named: "document", version: "1"))
            try writer.markClean(id)
            try writer.setMetadata(of: id, modified: time, at: time)
            _ = try writer.rename(
                id,
                to: Array("document~".utf8),
                in: .root,
                replacing: nil,
                at: time,
                notBefore: time,
                settleTime: files.settleTime
            )
        }
        let new = try fixture.addFile("document")
        try catalog.write { writer in
            let ancestor = try writer.inheritBase(
                new,
                name: Array("document".utf8),
                in: .root,
                notBefore: time,
                settleTime: files.settleTime
            )
            #expect(ancestor == id)
        }
        try bench.recover()
        let record = try catalog.read { try $0.existing(id) }
        #expect(record.item.content.cleanliness == .dirty)
        #expect(record.item.metadata.modified == time)
    }

    @Test func `what was flushed is there, so what it replaced can go`() throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        try bench.write("afterwards", to: id, emptying: true)
        let file = try files.acquire(id)
        try files.synchronize(file)
        try files.release(file)
        #expect(try catalog.read { try $0.allPrevious() } == [])
        try bench.recover()
        #expect(try files.store.generations().count == 1)
    }

    @Test func `the cloud's version is there again where no other was`() throws {
        let (id, base) = try addPlaceholder()
        try bench.write("afterwards", to: id, emptying: true)
        try bench.cut(id, to: 0)
        try bench.failPower()
        try bench.recover()
        let record = try catalog.read { try $0.existing(id) }
        #expect(record.item.size == base.size)
        #expect(record.item.content.cleanliness == .clean)
        #expect(record.item.content.residency == .placeholder)
        #expect(try catalog.read { try $0.allPrevious() } == [])
    }

    /// Three saves: the first is in the cloud, the second was being sent as the third took its
    /// place, and the power failed before that was on the disk.
    @Test(arguments: [true, false])
    func `a save that was sent before it was replaced is there again`(isFirstSent: Bool) throws {
        let first = try fixture.addFile("document")
        try bench.write("first", to: first)
        let base = CatalogFixture.base(of: first, named: "document", version: "1")
        if isFirstSent {
            try catalog.write { writer in
                try writer.setBase(base)
                try writer.markClean(first)
            }
        }
        let second = try save("second", over: first)
        try noteSending(of: second, over: isFirstSent ? base : nil)
        let third = try save("third", over: second)
        let sent = try noteSent(second, over: isFirstSent ? base : nil)
        try bench.cut(third, to: 0)
        try bench.failPower()
        try bench.recover()
        let record = try catalog.read { try $0.existing(third) }
        #expect(record.item.size == 6)
        #expect(record.item.content.residency == .placeholder)
        #expect(record.item.content.cleanliness == .clean)
        #expect(
            try catalog.read { try $0.base(of: third) }?.version.content == sent.version.content
        )
    }

    @Test func `a flushed edit of what was being sent outlives that`() throws {
        let first = try fixture.addFile("document")
        try bench.write("first", to: first)
        let second = try save("second", over: first)
        try noteSending(of: second, over: nil)
        try bench.write("edited", to: second)
        let file = try files.acquire(second)
        try files.synchronize(file)
        try files.release(file)
        try bench.write("then", to: second, emptying: true)
        let third = try save("third", over: second)
        _ = try noteSent(second, over: nil)
        try bench.cut(third, to: 0)
        try bench.failPower()
        try bench.recover()
        #expect(try bench.text(of: third) == "edited")
    }

    private func noteSending(of id: ItemID, over base: BaseRecord?) throws {
        try catalog.write { writer in
            let document = try writer.reader.existing(id).item.documentID
            try writer.note(
                SentRecord(
                    of: id,
                    to: .root,
                    Array("document".utf8),
                    from: base,
                    document: document,
                    size: 6,
                    modified: CatalogFixture.now
                )
            )
        }
    }

    /// - Returns: What the cloud has then.
    private func noteSent(_ id: ItemID, over base: BaseRecord?) throws -> BaseRecord {
        var sent = CatalogFixture.base(of: id, named: "document", version: "2")
        sent.size = 6
        try catalog.write { writer in
            _ = try writer.recordBase(sent, replacing: base, at: CatalogFixture.now)
        }
        return sent
    }

    @Test func `a clock set back keeps nothing, and lost content lets nothing go`() throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        try bench.write("afterwards", to: id, emptying: true)
        let later = files.clocks.now() + .seconds(1_000_000)
        try catalog.write { writer in
            try writer.execute("UPDATE previous SET since = ?", [later.nanoseconds])
        }
        let generation = try catalog.read { try $0.existing(id) }.item.content.generation
        let path = files.store.path(id, generation)
        #expect(rename(path, path + ".away") == 0)
        _ = try files.flushReplacing()
        #expect(try catalog.read { try $0.allPrevious() }.count == 1)
        #expect(rename(path + ".away", path) == 0)
        _ = try files.flushReplacing()
        #expect(try catalog.read { try $0.allPrevious() } == [])
    }

    @Test func `content that cannot be unlinked or moved is no reason to have no drive`() throws {
        let id = try fixture.addFile("document")
        try bench.write("before", to: id)
        let record = try catalog.read { try $0.existing(id) }
        try catalog.write { try $0.dropContent(of: record) }
        let path = files.store.path(id, record.item.content.generation)
        let unnamed = files.store.path(id, record.item.content.generation + 1)
        #expect(unlink(path) == 0)
        for path in [path, unnamed] { #expect(mkdir(path, 0o700) == 0) }
        try bench.recover()
        #expect(access(path, F_OK) == 0)
        #expect(access(unnamed, F_OK) == 0)
        #expect(try lost == [])
        #expect(try catalog.read { try $0.discarded() }.count == 1)
        #expect(rmdir(path) == 0)
        try bench.recover()
        #expect(try catalog.read { try $0.discarded() } == [])
    }

    @Test func `what a sent file was is unlinked soon, whatever else happens`() async throws {
        let old = try fixture.addFile("document")
        try bench.write("before", to: old)
        let replaced = try catalog.read { try $0.existing(old) }.item.content.generation
        let path = files.store.path(old, replaced)
        let new = try save("afterwards", over: old)
        let now = files.clocks.now().nanoseconds
        try catalog.write { try $0.execute("UPDATE previous SET since = ?", [now]) }
        let pool = BlockingPool(name: "sweep", width: 1)
        files.noteUse(of: new, isPersons: false)
        let sweeper = Sweeper(files: files, pool: pool, logger: Logger(label: "sweep"))
        let sweeping = Task { await sweeper.run() }
        defer { sweeping.cancel() }
        try await eventually("a first look") { files.unsavedUses.isEmpty }
        #expect(access(path, F_OK) == 0)
        // What it would find later it must be told of.
        try catalog.write { try $0.markClean(new) }
        try await eventually("the old content is unlinked") { access(path, F_OK) != 0 }
    }
}

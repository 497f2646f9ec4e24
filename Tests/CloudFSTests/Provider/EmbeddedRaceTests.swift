import CloudFSTestSupport
import Foundation
import Glibc
import Synchronization
import Testing

@testable import CloudFS

/// Foreign programs take no lock: what they write while a provider writes must survive.
@Suite(.timeLimit(.minutes(10)))
struct EmbeddedRaceTests {
    @Test func `a file that is open for writing elsewhere is neither replaced nor deleted`()
        async throws
    {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([1, 1], to: "a")
        let item = try await fixture.cloud.item("a")
        let path = try ProviderFixture.path("a")
        var writer: FileUpdate? = try FileUpdate("\(fixture.root)/a")
        let wasCopied = Flag()
        await expectError(.lockHeld) {
            try await fixture.cloud.upload(
                [2],
                to: "a",
                replacing: item.version,
                didSend: { _ in wasCopied.set() }
            )
        }
        #expect(!wasCopied.isSet)
        await expectError(.lockHeld) {
            try await fixture.embedded.delete(path, base: item.version)
        }
        try writer?.write([3, 3])
        #expect(try fixture.read("a") == [3, 3])
        writer = nil
        await expectError(.remoteChanged) {
            try await fixture.cloud.upload([2], to: "a", replacing: item.version)
        }
        #expect(try fixture.leftovers().isEmpty)
    }

    @Test func `a displaced version that is not the base is put back`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let race = try Race(fixture, base: [1], new: [2])
        // Between the comparison and the exchange somebody saves: what the lock cannot prevent.
        try fixture.replace("a", with: [7, 7])
        #expect(try race.replace() == false)
        #expect(try fixture.read("a") == [7, 7])
        #expect(try fixture.leftovers().isEmpty)
    }

    @Test func `a displaced version that is being written is put back`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let race = try Race(fixture, base: [1], new: [2])
        let writer = try FileUpdate("\(fixture.root)/a")
        #expect(try race.replace() == false)
        try writer.write([8])
        #expect(try fixture.read("a") == [8])
        #expect(try fixture.leftovers().isEmpty)
    }

    @Test func `the base itself is replaced`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let race = try Race(fixture, base: [1], new: [2])
        #expect(try race.replace())
        #expect(try fixture.read("a") == [2])
        #expect(try fixture.leftovers().isEmpty)
    }

    @Test func `no foreign save is lost however it meets uploads`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.replace("a", with: [0])
        let isDone = Flag()
        async let foreign = ForeignWork.run {
            // Every save is a new file renamed over; it must be seen as a version, or be the base
            // that an upload named, before anything else may take its place.
            var saves = 0
            while !isDone.isSet, saves < 20_000 {
                saves += 1
                try fixture.replace("a", with: Array("foreign \(saves)".utf8))
            }
            return saves
        }
        var replaced: [(base: String, bytes: [UInt8])] = []
        for round in 0..<100 {
            let base = try await fixture.cloud.item("a")
            do {
                let bytes = Array("ours \(round)".utf8)
                try await fixture.cloud.upload(bytes, to: "a", replacing: base.version)
                replaced.append((base.version.content, bytes))
            } catch let error as CloudFSError {
                #expect([.remoteChanged, .lockHeld].contains(error.code), "\(error)")
            }
        }
        isDone.set()
        let saves = try await foreign
        let last = String(decoding: try fixture.read("a"), as: UTF8.self)
        #expect(last.hasPrefix("foreign \(saves)") || last.hasPrefix("ours "), "\(last)")
        // No version was replaced twice: each success displaced exactly what it had named.
        #expect(Set(replaced.map(\.base)).count == replaced.count)
        #expect(try fixture.leftovers().filter { !$0.hasPrefix("lost+found/") }.isEmpty)
    }

    @Test func `of two devices that replace one version exactly one wins`() async throws {
        let one = try await EmbeddedFixture.make(device: "one")
        let two = try await EmbeddedFixture.make(device: "two", in: one.directory)
        var version = try await one.cloud.upload([0], to: "a").version
        for round in 0..<20 {
            let base = version
            let winners = await withTaskGroup(of: ItemVersion?.self) { group in
                for (number, device) in [one, two].enumerated() {
                    group.addTask {
                        do {
                            let bytes = [UInt8(round), UInt8(number)]
                            return try await device.cloud.upload(bytes, to: "a", replacing: base)
                                .version
                        } catch let error as CloudFSError {
                            #expect(error.code == .remoteChanged, "\(error)")
                        } catch {
                            Issue.record(error)
                        }
                        return nil
                    }
                }
                return await group.reduce(into: [ItemVersion]()) {
                    if let new = $1 { $0.append(new) }
                }
            }
            try #require(winners.count == 1)
            version = winners[0]
        }
        #expect(try await two.cloud.item("a").version == version)
    }

    @Test func `a cancelled upload leaves nothing`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let (started, continuation) = AsyncStream.makeStream(of: Void.self)
        let upload = Task {
            try await fixture.cloud.upload(
                [UInt8](repeating: 1, count: 64 << 20),
                to: "a",
                didSend: { _ in continuation.yield() }
            )
        }
        for await _ in started { break }
        upload.cancel()
        await expectError(.cancelled) { try await upload.value }
        #expect(try await fixture.cloud.list().isEmpty)
        #expect(try fixture.leftovers().isEmpty)
    }

    // MARK: - What never rests

    @Test func `what changes during every look keeps nothing else from being listed`()
        async throws
    {
        let fixture = try await EmbeddedFixture.make()
        for name in ["a", "b", "busy"] { try fixture.write([1], to: name) }
        let root = try fixture.embedded.gate.enter()
        let busy = try ItemName("busy")
        let one = EmbeddedListings { found, root throws(EmbeddedFailure) in
            guard found.name != busy else {
                throw EmbeddedFailure(call: "fstat", errorNumber: EBUSY)
            }
            return try found.remoteItem(of: root.identity)
        }
        let page = try one.page(after: nil, of: .root, in: root)
        #expect(page.items.map(\.name.description).sorted() == ["a", "b"])
        #expect(page.unreadable == [busy] && page.next == nil)
        // Of all of them, too: only a disk that reads nothing is out of reach.
        for (code, isListed) in [(EBUSY, true), (EIO, false)] {
            let all = EmbeddedListings { _, _ throws(EmbeddedFailure) in
                throw EmbeddedFailure(call: "fstat", errorNumber: code)
            }
            let page = try? all.page(after: nil, of: .root, in: root)
            #expect(page?.unreadable.count == (isListed ? 3 : nil))
        }
    }

    @Test func `a file that is written all the time takes nothing out of reach`() async throws {
        let fixture = try await EmbeddedFixture.make()
        for name in ["busy", "rest"] { try fixture.write([1], to: name) }
        let isDone = Flag()
        async let foreign = ForeignWork.run {
            let writer = try FileUpdate("\(fixture.root)/busy")
            var writes = 0
            while !isDone.isSet, writes < 5_000_000 {
                writes += 1
                try writer.write([UInt8(truncatingIfNeeded: writes)])
            }
            return writes
        }
        let root = try fixture.embedded.gate.enter()
        let path = try ProviderFixture.path("busy")
        for _ in 0..<200 {
            let page = try await fixture.embedded.children(of: .root, after: nil)
            #expect(page.items.contains { $0.name.description == "rest" })
            #expect(page.items.count + page.unreadable.count == 2)
            // After a change it is told as it was last seen.
            let last = try root.openItem(path).remoteItem(of: root.identity, mustRest: false)
            #expect(last?.size == 1)
            do throws(CloudFSError) {
                _ = try await fixture.embedded.item(at: path)
            } catch {
                #expect(error.code == .lockHeld, "\(error)")
            }
        }
        isDone.set()
        #expect(try await foreign > 0)
    }

    // MARK: - After a crash

    @Test func `leftovers of this device go, those of others and of living uploads stay`()
        async throws
    {
        let fixture = try await EmbeddedFixture.make(device: "my-device")
        try await fixture.cloud.upload([1], to: "a")
        let digits = DocumentID.random().description
        let staging = "cloud/.cloudfs/staging"
        try fixture.directory.write([1], to: "\(staging)/my_device-\(digits)")
        try fixture.directory.write([1], to: "\(staging)/other-\(digits)")
        try fixture.directory.write([1], to: "\(staging)/my_device-notes")
        let root = try fixture.embedded.gate.enter()
        let living = try EmbeddedStagedFile(in: root, device: fixture.embedded.device)
        _ = try await fixture.embedded.connect(expecting: fixture.expectation())
        #expect(
            try fixture.leftovers().sorted()
                == [
                    "staging/my_device-notes", "staging/\(living.name)", "staging/other-\(digits)",
                ].sorted()
        )
    }

    @Test func `a crash in the middle of an exchange loses no foreign version`() async throws {
        let fixture = try await EmbeddedFixture.make()
        for (isForeign, expected) in [(false, 0), (true, 1)] {
            let race = try Race(fixture, base: [1], new: [2])
            if isForeign { try fixture.replace("a", with: [7, 7]) }
            try race.crashAfterExchange()
            _ = try await fixture.embedded.connect(expecting: fixture.expectation())
            let left = try fixture.leftovers()
            #expect(left.count == expected)
            #expect(left.allSatisfy { $0.hasPrefix("lost+found/") })
            if let rescued = left.first {
                #expect(try fixture.read(".cloudfs/\(rescued)") == [7, 7])
            }
            try fixture.directory.remove("cloud/a")
        }
    }

    @Test func `a lock that is never given back ends in a time-out`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try await fixture.cloud.upload([1], to: "a")
        let room = try fixture.embedded.gate.enter().openRoom()
        let lock = try #require(try room.tryLock())
        let impatient = EmbeddedProvider(
            root: fixture.root,
            deviceName: "impatient",
            pool: BlockingPool(name: "impatient", width: 1),
            lockDeadline: .milliseconds(30)
        )
        _ = try await impatient.connect(expecting: fixture.expectation())
        let cloud = ProviderFixture(
            provider: impatient,
            foreign: ForeignDirectory(fixture.directory)
        )
        await expectError(.timedOut) { try await cloud.makeFolder("f") }
        #expect(try await cloud.names() == ["a"])
        withExtendedLifetime(lock) {}
    }
}

/// One exchange, taken apart so that a foreign program can come in between.
private struct Race {
    let exchange: EmbeddedExchange
    let target: EmbeddedFoundItem
    let staged: EmbeddedStagedFile
    let own: EmbeddedStatus

    init(_ fixture: EmbeddedFixture, base: [UInt8], new: [UInt8]) throws {
        try fixture.replace("a", with: base)
        let root = try fixture.embedded.gate.enter()
        let source = try ScratchFile(new)
        staged = try EmbeddedStagedFile(in: root, device: fixture.embedded.device)
        try staged.copy(from: source.descriptor, offset: 0, byteCount: new.count)
        own = try EmbeddedStatus(of: staged.file)
        target = try root.openItem(try ProviderFixture.path("a"))
        exchange = EmbeddedExchange(
            room: try root.openRoom(),
            aside: Array(
                EmbeddedLeftover.exchanging(staged.name, own: own, base: target.status).utf8
            ),
            folder: root.descriptor,
            name: try ItemName("a")
        )
    }

    func replace() throws -> Bool {
        try exchange.replace(target, with: staged, own: own)
    }

    /// Stops where the machine could: both names exchanged, nothing looked at.
    func crashAfterExchange() throws {
        try EmbeddedSystem.rename(
            Array(staged.name.utf8),
            in: staged.folder,
            to: exchange.aside,
            in: staged.folder,
            flags: 0
        )
        try EmbeddedSystem.rename(
            exchange.aside,
            in: staged.folder,
            to: exchange.name.bytes,
            in: exchange.folder,
            flags: 2
        )
    }
}

/// Something that one side says once and the other asks for.
private final class Flag: Sendable {
    private let state = Mutex(false)

    var isSet: Bool { state.withLock { $0 } }

    func set() {
        state.withLock { $0 = true }
    }
}

import CloudFSTestSupport
import Foundation
import Glibc
import Synchronization
import Testing

@testable import CloudFS

/// News of changes that other programs make.
@Suite(.timeLimit(.minutes(10)))
struct EmbeddedFeedTests {
    @Test func `creating, changing, renaming and deleting a file hints at its folder`()
        async throws
    {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([0], to: "f/g/old")
        try fixture.write([0], to: "h/old")
        let listener = try await Listener(fixture)
        let (inner, other) = (try ProviderFixture.path("f/g"), try ProviderFixture.path("h"))
        try fixture.write([1], to: "f/g/new")
        #expect(try await listener.next() == [.children(of: inner)])
        try FileUpdate("\(fixture.root)/f/g/new").write([2])
        #expect(try await listener.next() == [.children(of: inner)])
        try #require(chmod("\(fixture.root)/h/old", 0o600) == 0)
        #expect(try await listener.next() == [.children(of: other)])
        try #require(rename("\(fixture.root)/f/g/new", "\(fixture.root)/h/new") == 0)
        #expect(try await listener.next() == [.children(of: inner), .children(of: other)])
        try fixture.directory.remove("cloud/h/new")
        #expect(try await listener.next() == [.children(of: other)])
    }

    @Test func `a renamed folder is watched at its new place, with all in it`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([0], to: "f/g/a")
        try fixture.directory.makeFolder("cloud/h")
        let listener = try await Listener(fixture)
        try #require(rename("\(fixture.root)/f", "\(fixture.root)/h/new") == 0)
        let moved = try await listener.next()
        #expect(moved.isSuperset(of: [.children(of: .root)]))
        try fixture.write([1], to: "h/new/g/a")
        #expect(try await listener.next() == [.children(of: try ProviderFixture.path("h/new/g"))])
    }

    @Test func `a folder that leaves is forgotten, one that comes back is seen`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([0], to: "f/g/a")
        let listener = try await Listener(fixture)
        let away = fixture.directory.path("away")
        try #require(rename("\(fixture.root)/f", away) == 0)
        #expect(try await listener.next() == [.children(of: .root)])
        try fixture.directory.write([1], to: "away/g/a")
        try #require(rename(away, "\(fixture.root)/back") == 0)
        let hints = try await listener.next()
        #expect(hints.contains(.subtree(try ProviderFixture.path("back"))))
        try fixture.write([2], to: "back/g/a")
        #expect(try await listener.next() == [.children(of: try ProviderFixture.path("back/g"))])
    }

    @Test func `a deep tree that appears at once is covered whole`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let listener = try await Listener(fixture)
        for number in 0..<20 { try fixture.write([1], to: "t/a/b/c/d\(number)/e/file") }
        var model = Covered()
        try await listener.until("the whole tree is hinted") { hints in
            model.hints.formUnion(hints)
            return try (0..<20).allSatisfy {
                model.covers(try ProviderFixture.path("t/a/b/c/d\($0)/e"))
            }
        }
        try await listener.settle()
        try fixture.write([2], to: "t/a/b/c/d7/e/file")
        let path = try ProviderFixture.path("t/a/b/c/d7/e")
        try await listener.until("a change deep in the new tree is heard") {
            $0.contains(.children(of: path))
        }
    }

    @Test func `what happens in the provider's own room is no news`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try await fixture.cloud.upload([1], to: "a")
        let listener = try await Listener(fixture)
        try fixture.directory.write([1], to: "cloud/.cloudfs/staging/x")
        try fixture.directory.makeFolder("cloud/.cloudfs/staging/y")
        try fixture.write([1], to: "marker/b")
        var all: Set<ChangeHint> = []
        let marker = try ProviderFixture.path("marker")
        try await listener.until("the marker is heard") { hints in
            all.formUnion(hints)
            return hints.contains(.subtree(marker))
        }
        #expect(all.isSubset(of: [.children(of: .root), .subtree(marker), .children(of: marker)]))
    }

    @Test func `an overflow of the kernel's queue hints at everything, and watching goes on`()
        async throws
    {
        let fixture = try await EmbeddedFixture.make()
        try fixture.directory.makeFolder("cloud/f")
        let isHeld = Mutex(false)
        let (reached, arrived) = AsyncStream.makeStream(of: Void.self)
        let gate = DispatchSemaphore(value: 0)
        fixture.embedded.feeds.beforeReading.withLock { hook in
            hook = {
                guard
                    isHeld.withLock({ isHeld in
                        defer { isHeld = false }
                        return isHeld
                    })
                else {
                    return
                }
                arrived.yield()
                gate.wait()
            }
        }
        let listener = try await Listener(fixture)
        isHeld.withLock { $0 = true }
        try fixture.write([0], to: "trigger")
        for await _ in reached { break }
        // Each of these is an event of its own; the kernel keeps 16,384.
        try await ForeignWork.makeFiles(17_000, in: "cloud/f", of: fixture.directory)
        try fixture.directory.makeFolder("cloud/unseen/below")
        gate.signal()
        try await listener.until("everything is hinted") { $0.contains(.subtree(.root)) }
        try await listener.settle()
        try fixture.write([1], to: "unseen/below/file")
        let path = try ProviderFixture.path("unseen/below")
        try await listener.until("a folder that was missed is watched") {
            $0.contains(.children(of: path))
        }
    }

    /// Nothing is heard of folders without a watch, however much is heard of the others.
    @Test func `when watches ran out everything is hinted at, also while the directory is in use`()
        async throws
    {
        let fixture = try await EmbeddedFixture.make()
        try fixture.directory.makeFolder("cloud/unwatched")
        fixture.embedded.feeds.limits.withLock { limits in
            limits.mostWatches = 1
            limits.pollInterval = .seconds(1)
        }
        let listener = try await Listener(fixture)
        // The first is that watches ran out, and each page is followed by an event at once.
        var count = 0
        try await listener.until("everything is hinted at again and again") { hints in
            if hints.contains(.subtree(.root)) { count += 1 }
            try fixture.write([1], to: "busy")
            return count == 3
        }
    }

    @Test func `the feed ends when the root goes and begins anew when it is back`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([0], to: "a")
        let start = try await fixture.embedded.changes(after: nil)
        let waiting = Task { try await fixture.embedded.changes(after: start.anchor) }
        try #require(rename(fixture.root, "\(fixture.root).away") == 0)
        await expectError(.offline) { try await waiting.value }
        await expectError(.offline) { try await fixture.embedded.changes(after: start.anchor) }
        try #require(rename("\(fixture.root).away", fixture.root) == 0)
        // The watcher may hear only now that the root went: then who asks is told so once more.
        var page: ChangePage?
        try await eventually("the feed begins anew") {
            do {
                page = try await fixture.embedded.changes(after: start.anchor)
            } catch let error as CloudFSError where error.code == .offline {
                return false
            }
            return true
        }
        let again = try #require(page)
        #expect(again.hints == [.subtree(.root)])
        try fixture.write([1], to: "b")
        let news = try await fixture.embedded.changes(after: again.anchor)
        #expect(news.hints == [.children(of: .root)])
    }

    @Test(.enabled(if: geteuid() == 0, "mounting a file system needs root"))
    func `a file system mounted over the root ends the waiting`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([0], to: "a")
        let start = try await fixture.embedded.changes(after: nil)
        let waiting = Task { try await fixture.embedded.changes(after: start.anchor) }
        let mount = try TemporaryMount(at: fixture.root)
        await expectError(.offline) { try await waiting.value }
        try mount.unmount()
        let again = try await fixture.embedded.changes(after: start.anchor)
        #expect(again.hints == [.subtree(.root)])
    }

    @Test func `many changed folders become one hint`() {
        var hints = EmbeddedHints()
        let now = ContinuousClock.now
        for number in 0..<1_000 {
            let name = ItemName.reserved
            hints.add(.children(of: RemotePath(Array(repeating: name, count: number))), at: now)
        }
        #expect(hints.take() == [.subtree(.root)])
        #expect(hints.isEmpty)
    }

    @Test func `a hint that another includes is dropped`() throws {
        var hints = EmbeddedHints()
        let now = ContinuousClock.now
        let path = { try ProviderFixture.path($0) }
        for hint: ChangeHint in [
            .subtree(try path("a/b")), .children(of: try path("a/b/c")),
            .subtree(try path("a/b/d")),
            .children(of: try path("a")), .children(of: try path("a/bb")),
        ] {
            hints.add(hint, at: now)
        }
        let expected: Set<ChangeHint> = [
            .subtree(try path("a/b")), .children(of: try path("a")),
            .children(of: try path("a/bb")),
        ]
        #expect(hints.take() == expected)
    }

    @Test func `an anchor from before too many changes gives the whole container`() async throws {
        let feed = EmbeddedFeed()
        feed.begin()
        let start = try await feed.changes(after: nil)
        for number in 0..<(EmbeddedFeed.rememberedCount + 1) {
            feed.publish([.children(of: try ProviderFixture.path("f\(number)"))])
        }
        let page = try await feed.changes(after: start.anchor)
        #expect(page.hints == [.subtree(.root)])
        feed.publish([.children(of: .root)])
        let next = try await feed.changes(after: page.anchor)
        #expect(next.hints == [.children(of: .root)])
    }
}

/// Follows a feed from the moment it is made.
private final class Listener {
    private let fixture: EmbeddedFixture
    private var anchor: SyncAnchor

    init(_ fixture: EmbeddedFixture) async throws {
        self.fixture = fixture
        anchor = try await fixture.embedded.changes(after: nil).anchor
    }

    func next() async throws -> Set<ChangeHint> {
        let page = try await fixture.embedded.changes(after: anchor)
        anchor = page.anchor
        return Set(page.hints)
    }

    /// Reads pages until `isEnough`; the suite's time limit is the deadline.
    func until(_ what: String, _ isEnough: (Set<ChangeHint>) throws -> Bool) async throws {
        while !(try isEnough(try await next())) {}
    }

    /// Makes a change and reads until it is heard, so that what came before is behind.
    func settle() async throws {
        let name = "settled-\(UUID().uuidString)"
        try fixture.directory.makeFolder("cloud/\(name)")
        let path = try ProviderFixture.path(name)
        try await until("the marker is heard") {
            $0.contains(.subtree(path)) || $0.contains(.subtree(.root))
        }
    }
}

/// Which folders a reader of the hints would list again.
private struct Covered {
    var hints: Set<ChangeHint> = []

    func covers(_ folder: RemotePath) -> Bool {
        hints.contains(.children(of: folder))
            || (0...folder.names.count).contains {
                hints.contains(.subtree(RemotePath(Array(folder.names.prefix($0)))))
            }
    }
}

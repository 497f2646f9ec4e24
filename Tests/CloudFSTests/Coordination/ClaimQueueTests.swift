import Testing

@testable import CloudFS

private let posix = Purpose("posix")
private let app = Purpose("app")
private let sync = Purpose("sync")
private let one = ItemID(1)
private let two = ItemID(2)

/// A queue, and what was said of each claim so far.
private struct Harness {
    var queue = ClaimQueue()
    var granted: [UInt64] = []
    var revoked: [UInt64] = []
    var refused: [UInt64] = []
    var next: UInt64 = 1

    mutating func take(_ actions: [ClaimQueue.Action]) {
        for action in actions {
            switch action {
            case .granted(let id): granted.append(id.rawValue)
            case .revoke(let id): revoked.append(id.rawValue)
            case .refused(let id, _): refused.append(id.rawValue)
            }
        }
    }

    @discardableResult
    mutating func ask(
        _ purpose: Purpose,
        _ intents: AccessIntent...,
        isYielding: Bool = false,
        waits: Bool = true
    ) -> UInt64 {
        let id = next
        next += 1
        take(
            queue.request(
                ClaimRequest(
                    .init(rawValue: id),
                    intents,
                    by: Claimant(purpose),
                    isYielding: isYielding,
                    folders: []
                ),
                waits: waits
            )
        )
        return id
    }

    mutating func end(_ id: UInt64) {
        take(queue.end(.init(rawValue: id)))
    }

    func isHeld(_ id: UInt64) -> Bool { queue.heldClaims.contains { $0.id.rawValue == id } }
}

@Suite struct ClaimQueueTests {
    @Test func `readers go on together and a writer alone`() {
        var harness = Harness()
        let first = harness.ask(app, .reading(one))
        let second = harness.ask(posix, .reading(one))
        let writer = harness.ask(Purpose("writer"), .writing(one))
        #expect(harness.granted == [first, second])
        harness.end(first)
        #expect(!harness.isHeld(writer))
        harness.end(second)
        #expect(harness.isHeld(writer))
        let late = harness.ask(app, .reading(one))
        #expect(!harness.isHeld(late))
        harness.end(writer)
        #expect(harness.isHeld(late))
    }

    @Test func `claims on different items do not meet`() {
        var harness = Harness()
        let first = harness.ask(app, .writing(one))
        let second = harness.ask(posix, .writing(two))
        #expect(harness.granted == [first, second])
    }

    @Test func `one purpose never blocks itself`() {
        var harness = Harness()
        let first = harness.ask(posix, .writing(one))
        let second = harness.ask(posix, .writing(one, .forReplacing))
        #expect(harness.granted == [first, second])
    }

    @Test func `a waiting writer is not overtaken by later readers`() {
        var harness = Harness()
        let reader = harness.ask(app, .reading(one))
        let writer = harness.ask(posix, .writing(one))
        let late = harness.ask(Purpose("late"), .reading(one))
        #expect(harness.granted == [reader])
        harness.end(reader)
        #expect(harness.granted == [reader, writer])
        harness.end(writer)
        #expect(harness.granted == [reader, writer, late])
    }

    @Test func `a nested read passes the writer that waits for it`() {
        var harness = Harness()
        harness.ask(app, .reading(one))
        let writer = harness.ask(posix, .writing(one))
        let nested = harness.ask(app, .reading(one))
        #expect(harness.isHeld(nested))
        #expect(!harness.isHeld(writer))
    }

    @Test func `a nested request passes those who wait for it through others`() {
        var harness = Harness()
        // `posix` waits for `app`, and `other` waits behind `posix`.
        harness.ask(app, .reading(one))
        harness.ask(posix, .writing(one), .writing(two))
        let other = Purpose("other")
        harness.ask(other, .writing(two))
        let nested = harness.ask(app, .reading(two))
        #expect(harness.isHeld(nested))
    }

    @Test func `a ring through the order of waiting is opened`() {
        var harness = Harness()
        let holder = Purpose("holder")
        let behind = Purpose("behind")
        let third = ItemID(3)
        harness.ask(behind, .writing(third))
        harness.ask(holder, .reading(one))
        // Waits for `holder`; `behind` waits only for its turn after it.
        harness.ask(app, .writing(one))
        let passing = harness.ask(behind, .reading(one))
        #expect(!harness.isHeld(passing))
        // Now `holder` waits for `behind`, so its turn would never come.
        harness.ask(holder, .writing(third))
        #expect(harness.isHeld(passing))
    }

    @Test func `several items are granted together`() {
        var harness = Harness()
        let reader = harness.ask(app, .reading(two))
        let both = harness.ask(posix, .writing(one), .writing(two))
        #expect(!harness.isHeld(both))
        // What waits holds nothing: but it comes first.
        let late = harness.ask(Purpose("late"), .reading(one))
        #expect(!harness.isHeld(late))
        harness.end(reader)
        #expect(harness.isHeld(both))
        harness.end(both)
        #expect(harness.isHeld(late))
    }

    @Test func `two intents about one item count as the stronger`() {
        var harness = Harness()
        harness.ask(app, .reading(one), .writing(one))
        let reader = harness.ask(posix, .reading(one))
        #expect(!harness.isHeld(reader))
    }

    @Test func `reading metadata only waits for nobody and keeps nobody waiting`() {
        var harness = Harness()
        harness.ask(app, .writing(one))
        let reader = harness.ask(posix, .reading(one, .metadataOnly))
        #expect(harness.isHeld(reader))
        let writer = harness.ask(app, .writing(one, .forDeleting))
        #expect(harness.isHeld(writer))
    }

    @Test func `a yielding holder is revoked and the newcomer goes on at once`() {
        var harness = Harness()
        let engine = harness.ask(sync, .writing(one, .forReplacing), isYielding: true)
        let reader = harness.ask(posix, .reading(one))
        #expect(harness.isHeld(reader))
        #expect(harness.revoked == [engine])
        harness.ask(app, .reading(one))
        #expect(harness.revoked == [engine])
    }

    @Test func `a yielding request waits for others and keeps nobody behind it`() {
        var harness = Harness()
        let reader = harness.ask(posix, .reading(one))
        let engine = harness.ask(sync, .writing(one), isYielding: true)
        let late = harness.ask(app, .reading(one))
        #expect(harness.granted == [reader, late])
        harness.end(reader)
        harness.end(late)
        #expect(harness.isHeld(engine))
    }

    @Test func `a request that will not wait is refused and leaves nothing`() {
        var harness = Harness()
        let writer = harness.ask(app, .writing(one))
        let second = harness.ask(posix, .writing(one), waits: false)
        #expect(harness.refused == [second])
        harness.end(writer)
        #expect(harness.queue.isEmpty)
    }

    @Test func `those behind a request that gives up go on`() {
        var harness = Harness()
        harness.ask(app, .reading(one))
        let writer = harness.ask(posix, .writing(one))
        let reader = harness.ask(Purpose("late"), .reading(one))
        let (wasWaiting, actions) = harness.queue.cancel(.init(rawValue: writer))
        harness.take(actions)
        #expect(wasWaiting)
        #expect(harness.isHeld(reader))
        let isOver = harness.queue.cancel(.init(rawValue: writer))
        #expect(!isOver.wasWaiting)
    }
}

// MARK: - Folders, rings, and items that change places

extension ClaimQueueTests {
    private static let folder = ItemID(10)

    private func request(
        _ id: UInt64,
        _ purpose: Purpose,
        _ intents: AccessIntent...,
        folders: Set<ItemID>? = []
    ) -> ClaimRequest {
        ClaimRequest(
            .init(rawValue: id),
            intents,
            by: Claimant(purpose, process: Int32(id)),
            folders: folders
        )
    }

    private func id(_ number: UInt64) -> ClaimRequest.ID { .init(rawValue: number) }

    @Test(arguments: [
        (AccessIntent.WritingOption.forMoving, false), (.forDeleting, false),
        (.forReplacing, false), (.updating, true), (.forMerging, true), (.metadataOnly, true),
    ])
    func `who moves, deletes or replaces a folder waits for those below it`(
        option: AccessIntent.WritingOption,
        goesOn: Bool
    ) {
        var queue = ClaimQueue()
        _ = queue.request(request(1, app, .reading(one), folders: [Self.folder, .root]))
        let actions = queue.request(
            request(2, posix, .writing(Self.folder, option, isFolder: true))
        )
        #expect(actions == (goesOn ? [.granted(id(2))] : []))
        _ = queue.end(id(1))
        #expect(queue.held(id(2)) != nil)
        // And those below wait for it.
        let below = queue.request(
            request(3, app, .reading(one), folders: [Self.folder, .root])
        )
        #expect(below == (goesOn ? [.granted(id(3))] : []))
        // Elsewhere, nobody does.
        let elsewhere = queue.request(request(4, app, .writing(two), folders: [.root]))
        #expect(elsewhere == [.granted(id(4))])
    }

    @Test func `an item that is nobody knows where keeps a whole folder from being claimed`() {
        var queue = ClaimQueue()
        _ = queue.request(request(1, app, .reading(one), folders: nil))
        let sweep = request(2, posix, .writing(Self.folder, .forMoving, isFolder: true))
        #expect(queue.request(sweep, waits: false) == [.refused(id(2), .claimed)])
        queue.place(id(1), in: [.root])
        #expect(queue.request(sweep, waits: false) == [.granted(id(2))])
    }

    @Test func `two who wait for what the other holds are told at once`() {
        var queue = ClaimQueue()
        _ = queue.request(request(1, app, .writing(one)))
        _ = queue.request(request(2, sync, .writing(two)))
        #expect(queue.request(request(3, app, .writing(two))) == [])
        #expect(queue.request(request(4, sync, .writing(one))) == [.refused(id(4), .deadlock)])
        #expect(queue.end(id(2)) == [.granted(id(3))])
    }

    @Test func `two readers who both want to write are told at once`() {
        var queue = ClaimQueue()
        _ = queue.request(request(1, app, .reading(one)))
        _ = queue.request(request(2, sync, .reading(one)))
        #expect(queue.request(request(3, app, .writing(one))) == [])
        #expect(queue.request(request(4, sync, .writing(one))) == [.refused(id(4), .deadlock)])
    }

    @Test func `plain programs are not taken for one that waits`() {
        var queue = ClaimQueue()
        // One plain program holds an item, another waits for the coordinated one.
        _ = queue.request(request(1, .mount, .writing(one)))
        _ = queue.request(request(2, app, .writing(two)))
        #expect(queue.request(request(3, .mount, .writing(two))) == [])
        #expect(queue.request(request(4, app, .reading(one))) == [])
        #expect(queue.end(id(1)) == [.granted(id(4))])
    }

    @Test func `a plain program of a coordinated one waits for neither`() {
        var queue = ClaimQueue()
        _ = queue.request(request(1, app, .writing(one)))
        // It has a file open already, as every plain program might.
        _ = queue.request(request(2, .mount, .writing(two)))
        let own = ClaimRequest(
            id(3),
            [.writing(one), .writing(two)],
            by: Claimant(.mount, process: 7, sponsors: [app]),
            folders: []
        )
        #expect(queue.request(own, waits: false) == [.granted(id(3))])
        // Other coordinated programs wait for both.
        #expect(
            queue.request(request(4, sync, .reading(two)), waits: false).contains(
                .refused(id(4), .claimed)
            )
        )
    }

    @Test func `claims follow a document that is saved by replacing its file`() {
        var queue = ClaimQueue()
        _ = queue.request(request(1, app, .writing(one)))
        _ = queue.request(request(2, posix, .reading(one)))
        #expect(queue.pass(one, to: two) == [])
        // The number of before means nothing any more.
        #expect(queue.request(request(3, sync, .writing(one))) == [.granted(id(3))])
        #expect(
            queue.request(request(4, sync, .reading(two)), waits: false).contains(
                .refused(id(4), .claimed)
            )
        )
        #expect(queue.end(id(1)) == [.granted(id(2))])
    }

    @Test func `who makes what a name was claimed for is not overtaken by who waits for it`() {
        var queue = ClaimQueue()
        let name = ItemID(-1)
        _ = queue.request(request(1, .mount, .writing(name)))
        #expect(queue.request(request(2, app, .writing(name))) == [])
        #expect(queue.pass(name, to: one) == [])
        // It opens what it has made, and only then lets go of the name.
        #expect(
            queue.request(request(3, .mount, .writing(one)), waits: false).contains(
                .granted(id(3))
            )
        )
        #expect(queue.end(id(1)) == [])
        #expect(queue.end(id(3)) == [.granted(id(2))])
    }

    @Test func `a plain program goes on with the file that it has open`() {
        var queue = ClaimQueue()
        _ = queue.request(request(1, .mount, .writing(one)))
        #expect(queue.pass(one, to: two) == [])
        #expect(queue.request(request(2, app, .writing(two)), waits: false) == [.granted(id(2))])
    }

    @Test func `no more than so many wait`() {
        var queue = ClaimQueue()
        _ = queue.request(request(1, app, .writing(one)))
        for number in 0..<UInt64(ClaimQueue.mostWaiting) {
            #expect(queue.request(request(number + 2, Purpose("\(number)"), .writing(one))) == [])
        }
        let last = request(1_000, posix, .writing(one))
        #expect(queue.request(last) == [.refused(id(1_000), .tooManyOpen)])
    }
}

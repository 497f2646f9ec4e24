import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// Programs that present items, and those who ask them.
@Suite(.timeLimit(.minutes(10))) struct PresenterTests {
    private static let item = ItemID(2)
    private static let folder = ItemID(3)
    private static let inside = ItemID(4)

    /// A coordinator with a folder in it, a board, and presenters that answer at once.
    private final class World: Sendable {
        let coordinator = Coordinator()
        let board: PresenterBoard
        let clock = ManualClock()
        let log = Mutex<[String]>([])

        init() {
            board = PresenterBoard(clock: clock)
        }

        var access: CoordinatedAccess {
            CoordinatedAccess(coordinator: coordinator, board: board) { id in
                id == inside ? [folder, .root] : [.root]
            }
        }

        /// Adds a presenter that answers at once with what `answer` returns.
        func present(
            _ item: ItemID,
            _ name: String,
            answer: @escaping @Sendable (PresenterMessage) -> CloudFSError? = { _ in nil }
        ) -> PresenterBoard.PresenterID {
            let own = Mutex<PresenterBoard.PresenterID?>(nil)
            let box = Box(own: own)
            let id = board.add(
                item,
                by: Claimant(.program(name)),
                hearing: Set(PresenterMessage.Kind.allCases)
            ) { [self] message in
                log.withLock { $0.append("\(name): \(message.kind.rawValue)") }
                guard message.kind.isQuestion, let id = box.own.withLock({ $0 }) else {
                    return true
                }
                // From another task, as an answer over a connection comes.
                Task { try self.board.answer(message.id, of: id, failure: answer(message)) }
                return true
            }
            box.own.withLock { $0 = id }
            return id
        }

        func silent(_ item: ItemID) -> PresenterBoard.PresenterID {
            board.add(
                item,
                by: Claimant(.program("silent")),
                hearing: Set(PresenterMessage.Kind.allCases)
            ) { [self] message in
                log.withLock { $0.append("silent: \(message.kind.rawValue)") }
                return true
            }
        }

        var heard: [String] { log.withLock { $0 } }
    }

    private final class Box: Sendable {
        let own: Mutex<PresenterBoard.PresenterID?>

        init(own: consuming sending Mutex<PresenterBoard.PresenterID?>) {
            self.own = own
        }
    }

    private func request(
        _ intents: AccessIntent...,
        by name: String = "app",
        presenter: PresenterBoard.PresenterID? = nil
    ) -> CoordinatedAccess.Request {
        CoordinatedAccess.Request(
            intents: { intents },
            claimant: Claimant(.program(name)),
            presenter: presenter,
            end: .now + .seconds(10)
        )
    }

    @Test(arguments: [
        (AccessIntent.Access.reading([]), ["relinquishToReader", "saveChanges"]),
        (.reading(.withoutChanges), ["relinquishToReader"]), (.reading(.metadataOnly), []),
        (.writing(.updating), ["relinquishToWriter"]),
        (.writing(.forMerging), ["relinquishToWriter", "saveChanges"]),
        (.writing(.forDeleting), ["relinquishToWriter", "accommodateDeletion"]),
        (.writing(.forReplacing), ["relinquishToWriter", "accommodateDeletion"]),
        (.writing(.forMoving), ["relinquishToWriter"]), (.writing(.metadataOnly), []),
    ])
    func `a presenter is asked in order, and has its item back at the end`(
        access: AccessIntent.Access,
        questions: [String]
    ) async throws {
        let world = World()
        _ = world.present(Self.item, "editor")
        let intent = AccessIntent(item: Self.item, access: access)
        let granted = try await world.access.begin(request(intent))
        #expect(world.heard == questions.map { "editor: \($0)" })
        world.access.end(granted)
        let end = questions.isEmpty ? [] : ["editor: reacquire"]
        #expect(world.heard == questions.map { "editor: \($0)" } + end)
        #expect(world.coordinator.shown.isEmpty)
    }

    @Test func `who asks is not asked, nor is its purpose`() async throws {
        let world = World()
        let own = world.present(Self.item, "editor")
        world.access.end(
            try await world.access.begin(request(.writing(Self.item), presenter: own))
        )
        world.access.end(
            try await world.access.begin(request(.writing(Self.item), by: "editor"))
        )
        #expect(world.heard.isEmpty)
    }

    @Test func `what a presenter saves is not kept back by who made it save`() async throws {
        let world = World()
        _ = world.present(Self.item, "editor") { [coordinator = world.coordinator] message in
            guard message.kind == .saveChanges else { return nil }
            do throws(CloudFSError) {
                let claimant = Claimant(.program("editor"))
                try coordinator.tryClaim([.writing(ItemID(2))], by: claimant).end()
                return nil
            } catch {
                return error
            }
        }
        world.access.end(try await world.access.begin(request(.reading(Self.item))))
    }

    @Test func `a presenter that refuses makes the access fail, and others have theirs back`()
        async throws
    {
        let world = World()
        _ = world.present(Self.item, "editor") { message in
            message.kind == .saveChanges ? CloudFSError(.claimed, "no room to save") : nil
        }
        do {
            _ = try await world.access.begin(request(.reading(Self.item)))
            Issue.record("it was granted")
        } catch {
            #expect(error.message == "no room to save")
        }
        #expect(world.heard.last == "editor: reacquire")
        #expect(world.coordinator.shown.isEmpty)
    }

    @Test func `a silent presenter is passed over, and noted`() async throws {
        let world = World()
        let id = world.silent(Self.item)
        let granting = Task {
            try await world.access.begin(request(.reading(Self.item, .withoutChanges)))
        }
        await world.clock.sleepers()
        #expect(world.coordinator.shown.isEmpty)
        world.clock.advance(by: world.board.patience)
        world.access.end(try await granting.value)
        #expect(world.board.presenters.map(\.isSilent) == [true])
        // Too late: nobody waits for it.
        #expect(throws: CloudFSError.self) { try world.board.answer(2, of: id) }
    }

    @Test func `a presenter that goes away has answered everything`() async throws {
        let world = World()
        let id = world.silent(Self.item)
        let granting = Task { try await world.access.begin(request(.writing(Self.item))) }
        await world.clock.sleepers()
        world.board.remove(id)
        world.access.end(try await granting.value)
    }

    @Test func `who presents a folder hears of what goes in it, and with it`() async throws {
        let world = World()
        _ = world.present(Self.folder, "browser")
        _ = world.present(Self.inside, "editor")
        let inside = try await world.access.begin(request(.writing(Self.inside, .forDeleting)))
        #expect(
            Set(world.heard) == [
                "browser: accommodateSubitemDeletion", "editor: relinquishToWriter",
                "editor: accommodateDeletion",
            ]
        )
        world.access.end(inside)
        world.log.withLock { $0 = [] }
        let folder = try await world.access.begin(
            request(.writing(Self.folder, .forMoving, isFolder: true))
        )
        #expect(Set(world.heard) == ["browser: relinquishToWriter", "editor: relinquishToWriter"])
        world.access.end(folder)
    }

    @Test func `one that comes while a claim is waited for is asked, too`() async throws {
        let world = World()
        let writer = try world.coordinator.tryClaim(
            [.writing(Self.item)],
            by: Claimant(.program("writer"))
        )
        let granting = Task { try await world.access.begin(request(.reading(Self.item))) }
        while world.coordinator.shown.count < 2 { await Task.yield() }
        _ = world.present(Self.item, "editor")
        writer.end()
        world.access.end(try await granting.value)
        #expect(world.heard.contains("editor: saveChanges"))
    }
}

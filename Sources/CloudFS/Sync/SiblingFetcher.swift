import Collections
import Logging
import Synchronization

/// Fetches the small files of a folder before a program that goes through it opens them.
///
/// One round trip for each of a thousand small files is what makes `grep -r` in a cloud slow. What
/// is fetched is a guess: it is bounded, and never begins before three files in a row were opened.
final class SiblingFetcher: Sendable {
    private struct Opened: Sendable {
        var item: ItemID
        var process: Int32
    }

    private struct State {
        var opened: Deque<Opened> = []
        var order = ReadingOrder()
        var waiting: Deque<ItemID> = []
        var running = 0
    }

    private let hydrator: Hydrator
    private let pool: BlockingPool
    private let logger: Logger
    private let state = Mutex(State())
    private let wake = Signal()

    private static let parallelFiles = 16
    /// Of opens that were not looked at yet, the oldest are forgotten beyond this.
    private static let mostOpened = 256

    private var files: OpenFiles { hydrator.files }

    init(hydrator: Hydrator, pool: BlockingPool, logger: Logger) {
        self.hydrator = hydrator
        self.pool = pool
        self.logger = logger
    }

    /// Notes that a program opened a file to read it; costs next to nothing.
    ///
    /// - Parameter isAbsent: Whether there is anything to fetch of it.
    func noteOpened(_ id: ItemID, by process: Int32, isAbsent: Bool) {
        guard files.hydration.policy != .partial else { return }
        let isNews = state.withLock { state in
            guard isAbsent || state.order.isFollowing else { return false }
            if state.opened.count >= Self.mostOpened { state.opened.removeFirst() }
            state.opened.append(Opened(item: id, process: process))
            return true
        }
        if isNews { wake.raise() }
    }

    /// Goes on after a pause.
    func noticeResumed() { wake.raise() }

    /// Runs until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                await wake.wait()
                await look()
                while let id = takeWaiting() {
                    group.addTask {
                        await self.fetch(id)
                        self.state.withLock { $0.running -= 1 }
                        self.wake.raise()
                    }
                }
            }
        }
    }

    /// Looks at what was opened, and puts what comes next into the queue.
    private func look() async {
        let (opened, known) = state.withLock { state in
            defer { state.opened = [] }
            return (state.opened, state.order)
        }
        guard !opened.isEmpty else { return }
        var (expected, next) = (known, [ItemID]())
        let surprising = opened.drop { file in
            guard let more = expected.noteExpected(file.item, by: file.process) else {
                return false
            }
            next += more
            return true
        }
        let (before, first) = (expected, next)
        guard !surprising.isEmpty else { return note(before, first) }
        do throws(CloudFSError) {
            let (order, wanted) = try await pool.engine {
                try self.files.catalog.read { reader in
                    var (order, wanted) = (before, first)
                    for file in surprising {
                        guard let folder = try reader.name(of: file.item)?.parent else { continue }
                        wanted += try order.noteOpened(
                            file.item,
                            in: folder,
                            by: file.process,
                            following: reader.files(after:order:limit:)
                        )
                    }
                    return (order, wanted)
                }
            }
            note(order, wanted)
        } catch {
            logger.error("a folder cannot be looked through", metadata: ["error": "\(error)"])
        }
    }

    private func note(_ order: ReadingOrder, _ wanted: [ItemID]) {
        state.withLock { state in
            state.order = order
            state.waiting += wanted
            // A reader that went elsewhere has no use for what was expected first.
            let surplus = max(0, state.waiting.count - ReadingOrder.mostFiles)
            state.waiting.removeFirst(surplus)
        }
    }

    private func takeWaiting() -> ItemID? {
        guard !hydrator.connection.isPaused else { return nil }
        return state.withLock { state in
            guard state.running < Self.parallelFiles, let id = state.waiting.popFirst() else {
                return nil
            }
            state.running += 1
            return id
        }
    }

    private func fetch(_ id: ItemID) async {
        do throws(CloudFSError) {
            let (file, wait) = try await pool.engine { try self.begin(id) }
            do throws(CloudFSError) {
                if let wait { try await hydrator.finish(wait) }
            } catch {
                note(error, id)
            }
            try await files.release(file, on: pool)
        } catch {
            note(error, id)
        }
    }

    private func begin(_ id: ItemID) throws(CloudFSError) -> (OpenFile, HydrationWait?) {
        let file = try files.acquire(id)
        let size = file.state.withLock { $0.plan?.size ?? 0 }
        guard (1...ReadingOrder.longestFile).contains(size) else { return (file, nil) }
        do throws(CloudFSError) {
            return (file, try hydrator.begin(file, range: 0..<size, handle: nil))
        } catch {
            try files.release(file)
            throw error
        }
    }

    /// Gone, or not to be had: who opens it is told.
    private func note(_ error: CloudFSError, _ id: ItemID) {
        logger.debug(
            "a file was not fetched ahead",
            metadata: ["item.id": "\(id)", "error": "\(error)"]
        )
    }
}

import Logging
import Synchronization

/// Files that lost their name to another just now.
///
/// The kernel finds a file by its name first, and opens it in a second request: who meets the old
/// file in between has to find it there, as on any disk. So it stays for a moment, as if somebody
/// had it open.
final class ReplacedFiles: Sendable {
    private struct Kept {
        var file: OpenFile
        var end: Duration
    }

    private let files: OpenFiles
    private let pool: BlockingPool
    private let logger: Logger
    private let entries = Mutex<[Kept]>([])
    private let wake = Signal()

    /// How long they stay: much longer than a program can stand still between the two requests.
    private static let time = Duration.seconds(1)
    /// Of more the oldest go at once: a program that replaces thousands does not look at them.
    private static let most = 256

    init(files: OpenFiles, pool: BlockingPool, logger: Logger) {
        self.files = files
        self.pool = pool
        self.logger = logger
    }

    /// Keeps a file that is there still, though its name is not.
    func keep(_ id: ItemID) {
        do throws(CloudFSError) {
            let file = try files.acquire(id)
            let entry = Kept(file: file, end: files.clocks.elapsed() + Self.time)
            let oldest = entries.withLock { entries -> OpenFile? in
                entries.append(entry)
                return entries.count > Self.most ? entries.removeFirst().file : nil
            }
            if let oldest { release(oldest) }
            wake.raise()
        } catch  where error.code == .notFound || error.code == .isDirectory {
            // Nobody can open what is no file.
        } catch {
            logger.warning("a replaced file cannot be kept", metadata: ["error": "\(error)"])
        }
    }

    /// Lets files go when their time is over, until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            let rest = entries.withLock { $0.first?.end }.map { $0 - files.clocks.elapsed() }
            if let rest, rest <= .zero {
                do throws(CloudFSError) {
                    try await pool.engine { self.releaseDue() }
                } catch {
                    return
                }
            } else {
                await wake.wait(atMost: rest)
            }
        }
    }

    private func releaseDue() {
        let now = files.clocks.elapsed()
        let due = entries.withLock { entries in
            let count = entries.prefix { $0.end <= now }.count
            defer { entries.removeFirst(count) }
            return entries.prefix(count).map(\.file)
        }
        for file in due { release(file) }
    }

    /// Lets all of them go.
    func releaseAll() {
        let all = entries.withLock { entries in
            defer { entries = [] }
            return entries.map(\.file)
        }
        for file in all { release(file) }
    }

    private func release(_ file: OpenFile) {
        do throws(CloudFSError) {
            try files.release(file)
        } catch {
            logger.error(
                "a replaced file could not be forgotten",
                metadata: ["item.id": "\(file.id)", "error": "\(error)"]
            )
        }
    }
}

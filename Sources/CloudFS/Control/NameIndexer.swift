import Logging

/// Adds names to the index that queries look into, beside everything else and only when asked to.
final class NameIndexer: Sendable {
    private let catalog: Catalog
    private let precedence: Precedence
    private let pool: BlockingPool
    private let logger: Logger
    private let wake = Signal()

    init(_ filesystem: Filesystem, pool: BlockingPool) {
        catalog = filesystem.catalog
        precedence = filesystem.feed.applier.precedence
        self.pool = pool
        logger = filesystem.logger
    }

    /// Has the index brought up to date soon.
    func request() { wake.raise() }

    /// Works until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await wake.wait(atMost: nil)
            do throws(CloudFSError) {
                try await fill()
            } catch {
                // The next query asks for it again; until then names are looked at one by one.
                logger.warning(
                    "names could not be added to the index",
                    metadata: ["error": "\(error)"]
                )
            }
        }
    }

    private func fill() async throws(CloudFSError) {
        try await pool.engine {
            guard try self.catalog.read({ try $0.hasStaleIndex() }) else { return }
            try self.catalog.write(isLong: true) { try $0.dropIndex() }
        }
        var isMore = true
        while isMore, !Task.isCancelled {
            await precedence.giveWay(with: .upload)
            isMore = try await pool.engine { try self.catalog.write { try $0.indexNames() } }
        }
    }
}

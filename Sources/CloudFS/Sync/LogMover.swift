import Logging

/// Moves the catalog's log into the database before anybody has to wait for that.
struct LogMover: Sendable {
    let catalog: Catalog
    let pool: BlockingPool
    let logger: Logger

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await catalog.isLogLong.wait()
            guard !Task.isCancelled else { return }
            do throws(CloudFSError) {
                try await pool.engine { try self.catalog.moveLog() }
            } catch {
                logger.error(
                    "the catalog's log grows, as it cannot be moved into the catalog",
                    metadata: ["error": "\(error)"]
                )
            }
        }
    }
}

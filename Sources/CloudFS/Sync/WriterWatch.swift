import Logging

/// Looks after files that programs write without the drive being asked.
///
/// What a program writes into a file that it keeps open is found by looking, now and then; and
/// nobody tells when the last mapping of a closed file is gone. While there is no such file,
/// nothing runs.
struct WriterWatch: Sendable {
    let files: OpenFiles
    let uploader: Uploader
    let pool: BlockingPool
    let logger: Logger

    /// How often is looked at files that are open, and at those that are mapped only.
    private static let openInterval = Duration.seconds(10)
    private static let mappedInterval = Duration.seconds(1)

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await files.directWriting.wait()
            while !Task.isCancelled, !files.writtenDirectly.withLock({ $0.isEmpty }) {
                let isMapped = files.hasMappedFiles
                await files.directWriting.wait(
                    atMost: isMapped ? Self.mappedInterval : Self.openInterval
                )
                await look()
            }
        }
    }

    private func look() async {
        do throws(CloudFSError) {
            let (outdated, failures) = try await pool.engine {
                let (ended, failures) = self.files.lookAfterWriters()
                for file in ended {
                    try self.files.release(file)
                    try self.files.letRest(file.id)
                }
                let outdated = ended.filter { file in file.state.withLock { $0.hasNewer } }
                return (outdated.map(\.id), failures)
            }
            for id in outdated { await uploader.feed.hintParent(of: id) }
            for (id, error) in failures {
                logger.error(
                    "the content of an open file cannot be looked at",
                    metadata: ["item.id": "\(id)", "error": "\(error)"]
                )
            }
            uploader.noteChange()
        } catch {
            logger.error(
                "what was written through a mapping could not be stored",
                metadata: ["error": "\(error)"]
            )
        }
    }
}

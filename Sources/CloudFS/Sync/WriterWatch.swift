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

    private var writers: DirectWriters { files.directWriters }

    /// How often is looked at files that are open, and at those that are mapped only.
    private static let openInterval = Duration.seconds(10)
    private static let mappedInterval = Duration.seconds(1)

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await writers.news.wait()
            while !Task.isCancelled, writers.watch() {
                await writers.news.wait(
                    atMost: writers.hasMapped ? Self.mappedInterval : Self.openInterval
                )
                await look()
            }
        }
    }

    private struct Outdated: Sendable {
        var item: ItemID
        var missedIn: ItemID?
    }

    private func look() async {
        do throws(CloudFSError) {
            let (outdated, failures) = try await pool.engine {
                let (ended, found) = self.files.lookAfterWriters()
                var failures = found
                // Some are clean now, without anything being sent.
                self.uploader.applier.hub.publish(ended.map { .attributes($0.id) })
                for file in ended {
                    do throws(CloudFSError) { try self.files.letRest(file) } catch {
                        failures[file.id] = error
                    }
                    do throws(CloudFSError) { try self.files.release(file) } catch {
                        failures[file.id] = error
                    }
                }
                let outdated = ended.compactMap { file -> Outdated? in
                    file.state.withLock { state in
                        guard state.isOutdated else { return nil }
                        return Outdated(item: file.id, missedIn: state.missedIn)
                    }
                }
                return (outdated, failures)
            }
            for file in outdated {
                await uploader.feed.hintParent(of: file.item, missedIn: file.missedIn)
            }
            for (id, error) in failures {
                logger.error(
                    "what was written without the drive being asked could not be stored",
                    metadata: ["item.id": "\(id)", "error": "\(error)"]
                )
            }
        } catch {
            logger.error(
                "files that programs write cannot be looked at",
                metadata: ["error": "\(error)"]
            )
        }
    }
}

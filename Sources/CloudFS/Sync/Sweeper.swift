import Logging

/// Unlinks content files that the catalog durably stopped naming, and stores what could not be
/// stored before.
struct Sweeper {
    let files: OpenFiles
    let pool: BlockingPool
    let logger: Logger

    /// Runs until the task is cancelled.
    func run() async {
        let files = files
        var pause: Duration?
        // At the start there may be something that an earlier process kept.
        var rest: Duration? = .zero
        while !Task.isCancelled {
            await files.catalog.leftovers.wait(atMost: pause ?? rest)
            do throws(CloudFSError) {
                rest = try await pool.engine {
                    try files.settleAgain()
                    try Self.sweep(files)
                    try files.saveUses()
                    return try files.flushReplacing()
                }
                pause = nil
            } catch {
                if pause == nil {
                    logger.error(
                        "the disk does not take what is to be stored; it is tried again",
                        metadata: ["error": "\(error)"]
                    )
                }
                pause = min((pause ?? Self.firstPause / 2) * 2, Self.longestPause)
            }
        }
    }

    private static let firstPause = Duration.milliseconds(250)
    private static let longestPause = Duration.seconds(30)

    /// The bytes go only after the commit that stopped naming them is durable.
    static func sweep(_ files: OpenFiles) throws(CloudFSError) {
        let names = try files.catalog.read { try $0.discarded() }
        guard !names.isEmpty else { return }
        try files.catalog.makeDurable()
        try FaultPoint.discardDurable.pass()
        for name in names { try files.store.remove(name.item, generation: name.generation) }
        try FaultPoint.discardUnlinked.pass()
        try files.catalog.write(isLong: true) { writer in
            for name in names { try writer.didUnlink(name) }
        }
    }
}

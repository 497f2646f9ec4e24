/// Removing what is gone from the cloud, where it may also have moved.
///
/// An item is gone when every folder was listed after its last change, and none of them has it. So
/// it stays until nothing waits to be compared, and nothing either of what is heard when the cloud
/// is asked then: whoever moved it caused news of the folder where it is now.
extension ChangeFeed {
    /// Runs until the task is cancelled, removing what is certain to be gone.
    func settleMissing() async {
        var delay = Self.firstSettlingPause
        while !Task.isCancelled {
            await missing.noted.wait()
            while !missing.isEmpty, !Task.isCancelled {
                do throws(CloudFSError) {
                    try await settle()
                    delay = Self.firstSettlingPause
                } catch {
                    guard !Task.isCancelled else { return }
                    connection.didFail(error)
                    logger.notice(
                        "what may be gone from the cloud stays for now",
                        metadata: ["error": "\(error)"]
                    )
                    await pause(delay)
                    delay = min(delay * 2, .seconds(15))
                }
            }
        }
    }

    /// Waits until it is settled what a folder lacks, as long as somebody who asked for that is
    /// patient: while everything is compared for the first time, it takes longer.
    func untilSettled(_ folder: ItemID) async {
        let end = clocks.elapsed() + Self.patience
        while missing.isLacking(in: folder), clocks.elapsed() < end, !Task.isCancelled {
            await pause(.milliseconds(10))
        }
    }

    private static let patience = Duration.seconds(5)
    private static let firstSettlingPause = Duration.seconds(1)

    private func settle() async throws(CloudFSError) {
        await untilCompared()
        let candidates = missing.all
        try await hearNews()
        await untilCompared()
        guard !Task.isCancelled else { return }
        try await scanUnlisted()
        for (folder, items) in withoutSkipped(missing.take(candidates)) {
            try await remove(items, from: folder)
        }
    }

    /// Waits until all that was heard of is compared.
    private func untilCompared() async {
        while !Task.isCancelled, !isCompared { await compared.wait() }
    }

    /// Leaves out for now what was seen in another folder, whose listing had to skip it.
    private func withoutSkipped(_ missing: MissingItems.Records) -> MissingItems.Records {
        let skipped = self.skipped
        guard !skipped.isEmpty else { return missing }
        var sure: MissingItems.Records = [:]
        for (folder, items) in missing {
            let left = items.filter { !skipped.contains($0.remoteID) }
            if left.count < items.count { noteBlurred(folder) }
            if !left.isEmpty { sure[folder] = left }
        }
        return sure
    }
}

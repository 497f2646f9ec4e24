/// What is done about thumbnails of what is gone, here and in the cloud.
extension Thumbnails {
    /// How often items that are gone are looked for.
    private static let sweepInterval = Duration.seconds(3_600)
    private static let page = 256

    /// Removes what shows nothing any more, until the task is cancelled.
    func sweep() async {
        var lookAgain = drive.clocks.elapsed()
        while !Task.isCancelled {
            do throws(CloudFSError) {
                if drive.clocks.elapsed() >= lookAgain {
                    try await forgetGoneItems()
                    await noticeUnsent()
                    lookAgain = drive.clocks.elapsed() + Self.sweepInterval
                }
                while try await removeRetired() {}
            } catch {
                drive.logger.debug("thumbnails are swept later", metadata: ["error": "\(error)"])
            }
            await retiring.wait(atMost: Self.sweepInterval)
        }
    }

    private func forgetGoneItems() async throws(CloudFSError) {
        guard try await drive.pool.engine({ self.store.exists }) else { return }
        var position = ItemID(0)
        while true {
            let after = position
            let last = try await drive.pool.engine { () throws -> ItemID? in
                let ids = try self.store.items(after: after, limit: Self.page)
                let gone = try self.drive.catalog.read { reader in
                    try ids.filter { try reader.item($0) == nil }
                }
                for id in gone { try self.store.remove(id) }
                return ids.last
            }
            guard let last else { return }
            position = last
        }
    }

    /// - Returns: Whether there may be more.
    private func removeRetired() async throws(CloudFSError) -> Bool {
        guard mayWrite, drive.isOnline(), let sidecars = drive.provider.sidecars,
            try await drive.pool.engine({ self.store.exists })
        else { return false }
        let (tokens, unused) = try await drive.pool.engine {
            let tokens = try self.store.retired(limit: Self.page)
            let unused = try self.drive.catalog.read { reader in
                try tokens.filter {
                    try $0.version.map { try !reader.isKnown(content: $0) } ?? false
                }
            }
            return (tokens, unused)
        }
        for content in unused.compactMap(\.version) {
            let version = ItemVersion(content: content, metadata: "")
            for isSmall in [true, false] {
                try await sidecars.remove(ThumbnailSidecar.name(of: version, isSmall: isSmall))
            }
        }
        try await drive.pool.engine { try self.store.forgetRetired(tokens) }
        return tokens.count == Self.page
    }
}

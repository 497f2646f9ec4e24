/// What somebody waits for, and what a user asks of the feed.
extension ChangeFeed {
    /// Lists a folder and applies all of it, deletions too, before returning; what is being changed
    /// all the time is applied later.
    func refresh(_ folder: ItemID) async throws(CloudFSError) {
        for _ in 0..<Self.mostLooks {
            let compared = try await process([folder], depth: .few)
            if let error = compared.refused[folder] { throw error }
            guard compared.blurred.contains(folder) else { return }
        }
    }

    /// Another device's change that is heard of during a listing blurs one of them, hardly three.
    private static let mostLooks = 3

    /// Brings a file up to what the cloud has now before it returns, however much else is in its
    /// folder.
    ///
    /// - Throws: why the cloud is not reached. While this machine sends the file itself, it does
    ///   not return: whoever calls it has a limit.
    func bringUpToDate(_ id: ItemID) async throws(CloudFSError) {
        var blurs = 0
        while true {
            switch try await applier.look(at: id) {
            case .clear: return
            case .elsewhere:
                guard let folder = try await knownFolder(of: id) else { return }
                return try await refresh(folder)
            case .blurred:
                // News of another device has blurred one look; what goes on takes its time.
                blurs += 1
                if blurs > 1 { await pause(Self.movingPause) }
            }
            guard !Task.isCancelled else {
                throw CloudFSError(.cancelled, "a look was ended", item: id)
            }
        }
    }

    private func knownFolder(of id: ItemID) async throws(CloudFSError) -> ItemID? {
        try await pool.engine { try self.catalog.read { try $0.base(of: id)?.parent } }
    }

    /// Compares a folder with the cloud before it returns, and all below it soon.
    ///
    /// - Throws: `notFound` when the cloud does not have the folder; why the cloud is not reached.
    func compare(_ folder: ItemID) async throws(CloudFSError) {
        try await refresh(folder)
        if try await applier.lookAtSketches(of: folder) { try await refresh(folder) }
        let path = try await applier.pool.engine {
            try self.applier.catalog.read { try $0.remotePath(of: folder) }
        }
        // Gone since it was listed: with what was in it, as a folder of a bucket without a marker.
        guard let path else { return }
        try await note([.subtree(path)])
    }

    /// Gives the provider what a user entered, and connects with it.
    func login(_ login: ProviderLogin) async throws(CloudFSError) {
        try await applier.provider.login(login)
        try await connect()
    }

    /// What is worth knowing about the server.
    var serverNotes: [String: String] { applier.provider.serverNotes }
}

/// What somebody waits for, and what a user asks of the feed.
extension ChangeFeed {
    /// Lists a folder and applies all of it, deletions too, before returning.
    func refresh(_ folder: ItemID) async throws(CloudFSError) {
        if let error = try await process([folder], depth: .few)[folder] { throw error }
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

/// What somebody waits for, and what a user asks of the feed.
extension ChangeFeed {
    /// Lists a folder and applies what is clear of it, deletions too, before returning; the rest
    /// follows.
    func refresh(_ folder: ItemID) async throws(CloudFSError) {
        _ = try await isClear(folder)
    }

    /// The same, and again while something in the folder was being changed.
    private func refreshClearly(_ folder: ItemID) async throws(CloudFSError) {
        for _ in 0..<Self.mostLooks where try await isClear(folder) { return }
    }

    /// - Returns: Whether nothing was being changed in the folder while it was listed.
    private func isClear(_ folder: ItemID) async throws(CloudFSError) -> Bool {
        let compared = try await process([folder], depth: .few)
        if let error = compared.refused[folder] { throw error }
        return !compared.blurred.contains(folder)
    }

    /// Another device's change that is heard of during a listing blurs one of them, hardly three.
    private static let mostLooks = 3

    /// Brings a file up to what the cloud has now before it returns, however much else is in its
    /// folder; whoever calls it has a limit.
    ///
    /// - Parameter isPatient: Whether to wait while somebody uses an older version.
    /// - Throws: why the cloud is not reached.
    func bringUpToDate(
        _ id: ItemID,
        isPatient: Bool = false
    ) async throws(CloudFSError) {
        var looks = 0
        while true {
            switch try await applier.look(at: id) {
            case .clear: return
            case .elsewhere:
                guard let folder = try await knownFolder(of: id) else { return }
                try await refreshClearly(folder)
                guard isPatient, try await applier.hasNewer(id) else { return }
            case .inUse: guard isPatient else { return }
            case .blurred: break
            }
            // News of another device has blurred one look; what goes on takes its time.
            looks += 1
            if looks > 1 { await pause(Self.movingPause) }
            guard !Task.isCancelled else {
                throw CloudFSError(.cancelled, "a look was ended", item: id)
            }
        }
    }

    private func knownFolder(of id: ItemID) async throws(CloudFSError) -> ItemID? {
        try await pool.engine { try self.catalog.read { try $0.base(of: id)?.parent } }
    }

    /// Looks whether the cloud has something under a name that is free here.
    ///
    /// - Throws: why the cloud is not reached.
    func look(for name: ItemName, in folder: ItemID) async throws(CloudFSError) {
        let path = try await pool.engine {
            try self.catalog.read { try $0.remotePath(of: folder) }
        }
        guard let path else { return }
        do throws(CloudFSError) {
            _ = try await applier.provider.item(at: path.appending(name))
        } catch  where error.code == .notFound || error.code == .notDirectory {
            return
        }
        try await refreshClearly(folder)
    }

    /// Compares a folder with the cloud before it returns, and all below it soon.
    ///
    /// - Throws: `notFound` when the cloud does not have the folder; why the cloud is not reached.
    func compare(_ folder: ItemID) async throws(CloudFSError) {
        try await refreshClearly(folder)
        if try await applier.lookAtSketches(of: folder) { try await refreshClearly(folder) }
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

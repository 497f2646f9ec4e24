import CloudFSControlAPI

extension DriveControl {
    func refresh(_ paths: [DrivePath]) async throws(CloudFSError) -> [ItemResult] {
        await reach(paths)
        var results: [ItemResult] = []
        for path in paths {
            do throws(CloudFSError) {
                try await filesystem.feed.compare(try await folder(of: path))
                results.append(.done(path))
            } catch {
                results.append(.refused(path, error))
            }
        }
        return results
    }

    /// The folder at `path`, or the one that the file there is in; as the cloud has it.
    private func folder(of path: DrivePath) async throws(CloudFSError) -> ItemID {
        try await pool.engine {
            try self.catalog.read { reader in
                let record = try self.find(path, reader)
                guard let base = try reader.base(of: record.id) else {
                    throw CloudFSError(.notFound, "\(path) is not in the cloud yet")
                }
                guard record.item.kind != .folder, let parent = base.parent else {
                    return record.id
                }
                return parent
            }
        }
    }
}

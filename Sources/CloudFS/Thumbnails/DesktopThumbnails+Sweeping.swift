/// Removing what shows files that are gone: those that went while nobody looked, and whole folders.
extension DesktopThumbnails {
    func sweep() async throws(CloudFSError) {
        try await drive.pool.engine {
            let places = self.places()
            self.cache.sweep { path in
                guard let root = places.roots.first(where: { path.hasPrefix($0 + "/") }),
                    !places.covered.contains(where: { path.hasPrefix($0 + "/") })
                else { return false }
                let names = path.dropFirst(root.count + 1).split(separator: "/")
                return self.isGone(names.map { Array($0.utf8) })
            }
        }
    }

    /// - Returns: `false` as well if that cannot be told now.
    private func isGone(_ names: [[UInt8]]) -> Bool {
        do throws(CloudFSError) {
            return try drive.catalog.readFew { reader in
                var folder = try reader.item(.root)
                for name in names {
                    // What a folder lacks is told by a whole listing only.
                    guard let above = folder, above.isListed else { return false }
                    folder = try reader.child(name, of: above.id)
                    if folder == nil { return true }
                }
                return false
            }
        } catch {
            drive.logger.debug(
                "pictures of what is gone are removed later",
                metadata: ["error": "\(error)"]
            )
            return false
        }
    }
}

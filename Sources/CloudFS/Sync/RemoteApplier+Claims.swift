import Synchronization

/// Coordinated programs, which what the cloud has to say waits for.
extension RemoteApplier {
    /// Claims an item that is about to be replaced or removed, unless a coordinated program has.
    ///
    /// - Parameter withAllIn: Whether what is below it counts as well.
    /// - Returns: `nil` if one has; its folder is to be looked at when that ends.
    func claimToReplace(
        _ id: ItemID,
        withAllIn: Bool = false
    ) throws(CloudFSError) -> Claim? {
        // Noted before it is tried: a claim that ends in between would be missed else.
        postponed.withLock { _ = $0.insert(id) }
        do throws(CloudFSError) {
            let intent = AccessIntent.writing(id, .forReplacing, isFolder: withAllIn)
            let claim = try coordinator.tryClaim([intent], by: .besidePlain)
            postponed.withLock { _ = $0.remove(id) }
            return claim
        } catch {
            guard error.code != .claimed else { return nil }
            postponed.withLock { _ = $0.remove(id) }
            throw error
        }
    }

    /// Items that were left as they are; whatever is claimed still will be left once more.
    func takePostponed() -> Set<ItemID> {
        postponed.withLock { postponed in
            defer { postponed = [] }
            return postponed
        }
    }
}

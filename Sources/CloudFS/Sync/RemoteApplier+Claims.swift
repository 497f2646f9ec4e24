import Synchronization

/// Coordinated programs, which what the cloud has to say waits for.
extension RemoteApplier {
    /// Claims a file that is about to be replaced or removed, unless a coordinated program has.
    ///
    /// - Returns: `nil` if one has; its folder is to be looked at when that ends.
    func claimToReplace(_ id: ItemID) throws(CloudFSError) -> Claim? {
        do throws(CloudFSError) {
            return try coordinator.tryClaim([.writing(id, .forReplacing)], by: .besidePlain)
        } catch  where error.code == .claimed {
            postponed.withLock { _ = $0.insert(id) }
            return nil
        }
    }

    /// Which of the items, let go of by a coordinated program, were left as they are meanwhile.
    func takePostponed(_ items: [ItemID]) -> [ItemID] {
        postponed.withLock { postponed in items.filter { postponed.remove($0) != nil } }
    }
}

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
            let claim = try coordinator.tryClaim([intent], by: beginning(id) ?? .besidePlain)
            postponed.withLock { _ = $0.remove(id) }
            return claim
        } catch {
            guard error.code != .claimed else { return nil }
            postponed.withLock { _ = $0.remove(id) }
            throw error
        }
    }

    /// Runs `body` while the content of some items may be replaced although a program has claimed
    /// them: that one waits for it before it begins.
    func lettingReplace(
        _ items: [ItemID],
        claimedBy purpose: Purpose,
        _ body: () async -> Void
    ) async {
        let claimant = Claimant(.mount, sponsors: [purpose])
        beginners.withLock { beginners in for id in items { beginners[id] = claimant } }
        defer { beginners.withLock { beginners in for id in items { beginners[id] = nil } } }
        await body()
    }

    private func beginning(_ id: ItemID) -> Claimant? { beginners.withLock { $0[id] } }

    /// Items that were left as they are; whatever is claimed still will be left once more.
    func takePostponed() -> Set<ItemID> {
        postponed.withLock { postponed in
            defer { postponed = [] }
            return postponed
        }
    }
}

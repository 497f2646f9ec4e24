import Synchronization

/// What the catalog could not be told when it was time: its disk was full, or failed.
///
/// Nobody asks for it a second time. Until the next start, which mends it too, a file would have
/// the size it had before it was written, and an item that nothing leads to would stay.
struct Unsettled: Sendable {
    /// Each has its last use, which goes on.
    var files: [OpenFile] = []
    /// Items that lost their names, and may be all forgotten.
    var nameless: Set<ItemID> = []
}

extension OpenFiles {
    /// Keeps a file whose state could not be stored, if that may be possible later.
    func keepUnsettled(_ file: OpenFile, after error: CloudFSError) -> Bool {
        guard error.isOfDisk else { return false }
        unsettled.withLock { $0.files.append(file) }
        catalog.leftovers.raise()
        return true
    }

    /// Erases an item that lost its name, unless somebody has it: now, or when that is possible.
    ///
    /// The name is gone, so this is no failure of who took it.
    func eraseSoon(_ id: ItemID) {
        do throws(CloudFSError) {
            try FaultPoint.unlinkNamed.pass()
            try eraseIfUnused(id)
        } catch {
            unsettled.withLock { _ = $0.nameless.insert(id) }
            catalog.leftovers.raise()
        }
    }

    /// Lets go of items that lost their names, now or with their last use.
    func forget(_ items: [ItemID]) {
        for id in items {
            live(id)?.state.withLock { $0.isUnlinked = true }
            eraseSoon(id)
        }
    }

    /// Tries once more what could not be stored.
    ///
    /// - Throws: Why some of it still cannot be; the rest is stored.
    func settleAgain() throws(CloudFSError) {
        let all = unsettled.withLock { unsettled in
            defer { unsettled = Unsettled() }
            return unsettled
        }
        var failure: CloudFSError?
        for file in all.files {
            do throws(CloudFSError) { try release(file) } catch { failure = error }
        }
        for id in all.nameless {
            do throws(CloudFSError) {
                try eraseIfUnused(id)
            } catch {
                unsettled.withLock { _ = $0.nameless.insert(id) }
                failure = error
            }
        }
        if let failure { throw failure }
    }
}

extension CloudFSError {
    /// Whether it is one of the local disk, which may be well again later.
    var isOfDisk: Bool {
        switch code {
        case .diskFull, .diskQuotaExceeded, .tooManyOpen, .readOnly, .corrupt, .internalFailure:
            true
        default: false
        }
    }
}

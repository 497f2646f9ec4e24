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
    /// Why the last of them could not be stored.
    var failure: CloudFSError?
    /// Whether what was here is being tried once more: who does that looks afterwards at what is
    /// here then, and is not to be woken by it.
    var isTrying = false

    var isEmpty: Bool { files.isEmpty && nameless.isEmpty }
}

extension OpenFiles {
    /// Keeps a file whose state could not be stored, if that may be possible later.
    func keepUnsettled(_ file: OpenFile, after error: CloudFSError) -> Bool {
        guard error.isOfDisk else { return false }
        let isTrying = unsettled.withLock { unsettled in
            unsettled.files.append(file)
            unsettled.failure = error
            return unsettled.isTrying
        }
        if !isTrying { catalog.leftovers.raise() }
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
            let isTrying = unsettled.withLock { unsettled in
                unsettled.nameless.insert(id)
                unsettled.failure = error
                return unsettled.isTrying
            }
            if !isTrying { catalog.leftovers.raise() }
        }
    }

    /// Lets go of items that lost their names, now or with their last use.
    func forget(_ items: [ItemID]) {
        for id in items {
            live(id)?.state.withLock { $0.isUnlinked = true }
            eraseSoon(id)
        }
    }

    /// Tries once more what could not be stored; one at a time.
    ///
    /// What fails again wakes nobody: who calls this does so again after a pause.
    ///
    /// - Throws: Why some of it still cannot be, or what came meanwhile; the rest is stored.
    func settleAgain() throws(CloudFSError) {
        let all = unsettled.withLock { unsettled in
            let all = unsettled
            unsettled = Unsettled(isTrying: true)
            return all
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
        let left = unsettled.withLock { unsettled in
            unsettled.isTrying = false
            return unsettled.isEmpty ? nil : unsettled.failure
        }
        if let failure = failure ?? left { throw failure }
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

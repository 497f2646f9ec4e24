/// The steps between which a process can end, and what was stored must still hold together.
///
/// `docs/durability.md` says for each what the next start does; `scripts/crash-test` ends the
/// daemon at every one of them.
extension FaultPoint {
    // MARK: - Programs

    /// A new file's content is there; the transaction that names it is not committed.
    static let createFiled = FaultPoint("create.filed")
    /// A placeholder's content file is there; the catalog does not name it.
    static let contentMade = FaultPoint("content.made")
    /// The dirty mark is committed; no byte is written.
    static let writeMarked = FaultPoint("write.marked")
    /// The content file has its time; the catalog has neither that nor the size.
    static let flushTimed = FaultPoint("flush.timed")
    /// Size and time are stored; whoever closed the file was not answered.
    static let flushStored = FaultPoint("flush.stored")
    /// A handle is closed for good; its locks are there, and the kernel has the content file.
    static let closeBegun = FaultPoint("close.begun")
    /// The content is flushed; the catalog's log is not.
    static let syncFlushed = FaultPoint("sync.flushed")
    /// An empty generation is named; the old one is not unlinked.
    static let replaceSwitched = FaultPoint("replace.switched")
    /// An item lost its name; it is not erased.
    static let unlinkNamed = FaultPoint("unlink.named")

    // MARK: - Content

    /// The commit that stopped naming content is durable; the content is not unlinked.
    static let discardDurable = FaultPoint("discard.durable")
    /// Discarded content is unlinked; the catalog still lists it.
    static let discardUnlinked = FaultPoint("discard.unlinked")
    /// Which bytes of an answer are absent here is looked up; none of them is written.
    static let hydrateChosen = FaultPoint("hydrate.chosen")
    /// All of a file is flushed; the catalog does not call it resident.
    static let hydrateFlushed = FaultPoint("hydrate.flushed")
    /// The catalog calls a file resident; nobody was told.
    static let hydrateStored = FaultPoint("hydrate.stored")
    /// An evicted file is a placeholder; its content is not unlinked.
    static let evictDropped = FaultPoint("evict.dropped")

    /// A package's content is made of its tree; the catalog calls the tree newer still.
    static let packagePacked = FaultPoint("package.packed")
    /// All that is in a package is flushed; nothing of it has a name.
    static let packageUnpacked = FaultPoint("package.unpacked")

    // MARK: - The cloud

    /// A snapshot of a file is taken; nothing is sent.
    static let uploadSnapshot = FaultPoint("upload.snapshot")
    /// A directory has the whole of a new version aside, not in place.
    static let uploadStaged = FaultPoint("upload.staged")
    /// The cloud has a new version; the catalog does not know.
    static let uploadSent = FaultPoint("upload.sent")
    /// The catalog knows the new version; nobody was told.
    static let uploadStored = FaultPoint("upload.stored")
    /// The cloud has a new folder or link; the catalog does not know.
    static let createSent = FaultPoint("create.sent")
    /// The cloud has an item in its new place; the catalog does not know.
    static let moveSent = FaultPoint("move.sent")
    /// The cloud has new metadata; the catalog does not know.
    static let metadataSent = FaultPoint("metadata.sent")
    /// The cloud no longer has an item; the catalog does not know.
    static let deleteSent = FaultPoint("delete.sent")
    /// A part of a listing is stored; the files in it with other content are not looked at.
    static let applyPage = FaultPoint("apply.page")
    /// A file has become a placeholder of a newer version; its old content is not unlinked.
    static let applyContent = FaultPoint("apply.content")

    // MARK: - The kernel

    /// The kernel is about to be told of a change.
    static let notifyTaken = FaultPoint("notify.taken")

    // MARK: - The start

    /// Sizes and times are taken from the content files; orphans are not erased.
    static let recoverySettled = FaultPoint("recovery.settled")
    /// Orphans are erased; what they leave is not unlinked.
    static let recoveryErased = FaultPoint("recovery.erased")
    /// The drive is mounted; nobody answers the kernel.
    static let mountMade = FaultPoint("mount.made")

    /// All of them.
    static let named: [FaultPoint] = [
        createFiled, contentMade, writeMarked, flushTimed, flushStored, closeBegun, syncFlushed,
        replaceSwitched, unlinkNamed, discardDurable, discardUnlinked, hydrateChosen,
        hydrateFlushed, hydrateStored, evictDropped, packagePacked, packageUnpacked,
        uploadSnapshot, uploadStaged, uploadSent, uploadStored,
        createSent, moveSent, metadataSent, deleteSent, applyPage, applyContent, notifyTaken,
        recoverySettled, recoveryErased, mountMade,
    ]

    /// What a program asked for is done, and it is about to hear of it: `answer.mkdir` and such.
    ///
    /// It can be delayed or end the process there; what is done has not failed.
    static func answering(_ operation: String) {
        guard isAnyArmed else { return }
        do throws(FaultError) { try FaultPoint("answer.\(operation)").reach() } catch { return }
    }

    /// Passes the point on a thread that may block; its failure is one as of a broken disk.
    func pass() throws(CloudFSError) {
        do throws(FaultError) { try reach() } catch { throw Self.failure(error) }
    }

    /// Passes the point in a task.
    func passInTask() async throws(CloudFSError) {
        do throws(FaultError) { try await reachInTask() } catch { throw Self.failure(error) }
    }

    private static func failure(_ error: FaultError) -> CloudFSError {
        CloudFSError(.internalFailure, error.description, cause: error)
    }
}

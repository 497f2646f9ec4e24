/// A state of a file's content that an upload reads, and how to tell whether it still holds.
struct UploadSnapshot: Sendable {
    /// What to read: a private copy, or the content file itself.
    let content: ContentFile
    let byteCount: Int64
    let changeCount: UInt64
    /// How the disk described the file.
    let facts: ContentFile.Facts
    private let modified: Timestamp
    private let isPrivate: Bool

    /// Files up to this length are copied where the disk cannot share blocks; 64 MiB.
    private static let copyLimit: Int64 = 64 << 20

    /// Takes a snapshot that no write is halfway through; blocks on the disk.
    ///
    /// - Throws: `cancelled` when the file changes meanwhile.
    init(of file: OpenFile, in files: OpenFiles) throws(CloudFSError) {
        let (original, generation, count, modified, isDirect) = try file.state.withLock {
            state throws(CloudFSError) -> (ContentFile, Int64, UInt64, Timestamp, Bool) in
            try files.observe(&state, file.id)
            try files.save(&state, file.id)
            guard state.writesInFlight == 0, state.residency == .resident else {
                throw CloudFSError(.cancelled, "the file is being written", item: file.id)
            }
            // As the catalog has it: of a file that was clean another one may have been taken over.
            let modified = try files.catalog.readFew { try $0.existing(file.id) }
                .item.metadata.modified
            // Who could write would look like a program that does.
            let content = try files.store.openToRead(file.id, generation: state.generation)
            let isDirect = state.direct != nil
            return (content, state.generation, state.changeCount, modified, isDirect)
        }
        try original.synchronize()
        facts = try original.facts()
        // What the kernel writes shows in the time only, and of two changes in one tick of a
        // coarse clock the second does not show.
        if isDirect, facts.isFresh(at: files.clocks.now()) {
            throw CloudFSError(.cancelled, "the file is being written", item: file.id)
        }
        let copy = try files.store.snapshot(of: original, copyLimit: Self.copyLimit)
        content = copy ?? original
        isPrivate = copy != nil
        byteCount = facts.size
        changeCount = count
        self.modified = modified
        let (isSame, isHeldOpen) = file.state.withLock { state in
            (state.changeCount == count && state.writesInFlight == 0, state.isBeingWritten)
        }
        guard isSame, try original.facts() == facts else {
            throw CloudFSError(.cancelled, "the file changed while it was copied", item: file.id)
        }
        // Nobody needs what it replaced, unless a program has only paused; what replaces it while
        // it is sent comes after this.
        if !isHeldOpen {
            try files.releasePrevious(of: ContentName(item: file.id, generation: generation))
        }
    }

    func metadata(_ metadata: ItemMetadata) -> ItemMetadata {
        var metadata = metadata
        metadata.modified = modified
        return metadata
    }

    /// Whether what was read is one state of the file: a copy always is.
    func isTrue(of file: OpenFile) -> Bool {
        if isPrivate { return true }
        let isSame = file.state.withLock { $0.changeCount == changeCount && $0.writesInFlight == 0 }
        return isSame && (try? content.facts()) == facts
    }
}

import Logging

/// Finishes or undoes, at the start, what the end of the last process interrupted.
struct Recovery {
    let files: OpenFiles
    /// What programs have open still, because the mount outlived the process.
    var inUse: Set<ItemID> = []
    let logger: Logger

    private var catalog: Catalog { files.catalog }

    /// Runs before anything else uses catalog and content.
    func run() throws(CloudFSError) {
        let written = try settleDirtyFiles()
        try FaultPoint.recoverySettled.pass()
        try eraseOrphans()
        try FaultPoint.recoveryErased.pass()
        try unlinkDiscarded()
        try findUnnamedContent()
        for id in written {
            do throws(CloudFSError) {
                try files.adoptWriters(of: id)
            } catch  where error.code == .notFound {
                logger.debug("it was unlinked while it was open", metadata: ["item.id": "\(id)"])
            }
        }
    }

    /// The content file of a dirty item tells its size and time: the catalog may be behind.
    ///
    /// - Returns: Those that programs may write still.
    private func settleDirtyFiles() throws(CloudFSError) -> [ItemID] {
        var written: [ItemID] = []
        for record in try catalog.read({ try $0.unsettledFiles() }) {
            let isDirty = record.item.content.cleanliness != .clean
            // Before it is opened here: that would look like a writer.
            let isWritten =
                isDirty
                && !files.store.isUnwritten(
                    record.id,
                    generation: record.item.content.generation
                )
            let content: ContentFile
            do throws(CloudFSError) {
                content = try files.store.open(
                    record.id,
                    generation: record.item.content.generation
                )
            } catch  where error.code == .notFound {
                try dropLost(record)
                continue
            }
            // A package is its tree, as long as that is here; its content is made of it.
            guard isDirty, !record.item.isPackage else { continue }
            if isWritten { written.append(record.id) }
            let facts = try content.facts()
            let isBehind =
                facts.size != record.item.size || facts.modified != record.item.metadata.modified
            // What was sent while a program had it open may have been written on.
            let isQueued = try catalog.read { try $0.outboxEntry(of: record.id) } != nil
            // What is in a package is sent with it.
            guard isBehind || !(isQueued || record.item.package != nil) else { continue }
            try catalog.write { writer in
                try writer.recordContent(
                    record.id,
                    size: facts.size,
                    modified: facts.modified,
                    changed: max(facts.changed, record.item.changed),
                    localBytes: facts.allocated
                )
                try writer.enqueue(record.id, notBefore: files.clocks.now() + files.quietTime)
            }
        }
        return written
    }

    /// A content file that is gone: only a fault of the disk or a person can have done that, or a
    /// power failure if it was never flushed.
    ///
    /// What the cloud has of it is there still; a new file of which it has nothing is forgotten.
    private func dropLost(_ record: ItemRecord) throws(CloudFSError) {
        logger.error(
            "the content of an item is gone from the state directory",
            metadata: [
                "item.id": "\(record.id)",
                "item.dirty": "\(record.item.content.cleanliness != .clean)",
            ]
        )
        try catalog.write { writer in
            try writer.dropContent(of: record)
            if record.item.isPackage, record.isListed {
                let notBefore = files.clocks.now() + files.quietTime
                return try writer.noteTreeChange(of: record.id, notBefore: notBefore)
            }
            guard let base = try writer.reader.base(of: record.id) else {
                // What the cloud may have got unheard is asked about first.
                guard try writer.reader.sent(of: record.id) == nil else { return }
                try writer.removeName(of: record.id)
                try writer.erase(record.id)
                return
            }
            guard record.item.content.cleanliness != .clean else { return }
            try writer.setSize(base.size, of: record.id)
            try writer.setMetadata(
                of: record.id,
                modified: base.modified,
                at: files.clocks.now()
            )
        }
    }

    /// Items without name and base were open when the last process ended.
    private func eraseOrphans() throws(CloudFSError) {
        try catalog.write { writer in
            for id in try writer.reader.namelessItems() where !inUse.contains(id) {
                _ = try writer.eraseIfForgotten(id)
            }
        }
    }

    private func unlinkDiscarded() throws(CloudFSError) {
        try Sweeper.sweep(files)
    }

    /// Content that nothing names is never adopted, and never deleted if there is any: a person
    /// may look at it.
    private func findUnnamedContent() throws(CloudFSError) {
        let named = try catalog.read { try $0.allContentNames() }
        for (item, generation) in try files.store.generations()
        where !named.contains(ContentName(item: item, generation: generation)) {
            let file = try files.store.open(item, generation: generation)
            guard try file.seek(from: 0, hole: false) != nil else {
                // Made for an item whose transaction was not committed, with nothing in it.
                try files.store.remove(item, generation: generation)
                continue
            }
            try files.store.moveToLostAndFound(item, generation: generation)
            logger.warning(
                "content without an item was moved to lost+found",
                metadata: ["item.id": "\(item)", "generation": "\(generation)"]
            )
        }
    }
}

/// Unlinks content files that the catalog durably stopped naming, and stores what could not be
/// stored before.
struct Sweeper {
    let files: OpenFiles
    let pool: BlockingPool
    let logger: Logger

    /// Runs until the task is cancelled.
    func run() async {
        let files = files
        var pause: Duration?
        while !Task.isCancelled {
            await files.discards.wait(atMost: pause)
            do throws(CloudFSError) {
                try await pool.engine {
                    try files.settleAgain()
                    try Self.sweep(files)
                    try files.saveUses()
                }
                pause = nil
            } catch {
                if pause == nil {
                    logger.error(
                        "the disk does not take what is to be stored; it is tried again",
                        metadata: ["error": "\(error)"]
                    )
                }
                pause = min((pause ?? Self.firstPause / 2) * 2, Self.longestPause)
            }
        }
    }

    private static let firstPause = Duration.milliseconds(250)
    private static let longestPause = Duration.seconds(30)

    /// The bytes go only after the commit that stopped naming them is durable.
    static func sweep(_ files: OpenFiles) throws(CloudFSError) {
        let names = try files.catalog.read { try $0.discarded() }
        guard !names.isEmpty else { return }
        try files.catalog.makeDurable()
        try FaultPoint.discardDurable.pass()
        for name in names { try files.store.remove(name.item, generation: name.generation) }
        try FaultPoint.discardUnlinked.pass()
        try files.catalog.write(isLong: true) { writer in
            for name in names { try writer.didUnlink(name) }
        }
    }
}

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
        let mounting = try files.store.mounting()
        let known = try catalog.read { try $0.setting(Self.mountingSetting) }
        if known != mounting {
            try restoreReplaced()
            try catalog.write { try $0.forgetUnflushedRanges() }
        }
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
        guard known != mounting else { return }
        try catalog.write { try $0.setSetting(Self.mountingSetting, to: mounting) }
    }

    /// While its value stays, everything that was written is there, flushed or not.
    private static let mountingSetting = "mounting"

    // MARK: - After a power failure

    /// Brings back what was replaced by content that is not all there now, as it was not flushed.
    private func restoreReplaced() throws(CloudFSError) {
        for previous in try catalog.read({ try $0.allPrevious() }) {
            let record = try catalog.read { try $0.existing(previous.item) }
            let generation = record.item.content.generation
            let size = try size(of: record.id, generation)
            guard try !isWhole(record, size) else { continue }
            guard try restore(previous, of: record) else {
                logger.error(
                    "a power failure has cut off what was written, and nothing else is left of it",
                    metadata: ["item.id": "\(record.id)", "kept.bytes": "\(size ?? 0)"]
                )
                continue
            }
            logger.warning(
                "a power failure has cut off what was written; the version before it is back",
                metadata: ["item.id": "\(record.id)", "kept.bytes": "\(size ?? 0)"]
            )
            // A person may look at what there is of it.
            if let size, size > 0 {
                try files.store.moveToLostAndFound(record.id, generation: generation)
            }
        }
    }

    /// Whether the disk has of a file what a program wrote until it closed it.
    ///
    /// It may have the length of what it has not got the bytes of: ext4 and XFS show such blocks as
    /// holes, as long as nobody has read them. A file that had holes when it was closed cannot be
    /// told from one that lost bytes, and counts as whole. Of one that nobody closed the catalog
    /// knows no bytes.
    ///
    /// - Parameter size: That of its content file; `nil` if it is gone.
    private func isWhole(_ record: ItemRecord, _ size: Int64?) throws(CloudFSError) -> Bool {
        let closedAt = record.item.size
        guard let size, closedAt > 0, record.localBytes > 0, size >= closedAt else { return false }
        if record.localBytes < closedAt { return true }
        let generation = record.item.content.generation
        let hole = try files.store.openToRead(record.id, generation: generation)
            .seek(from: 0, hole: true)
        return hole ?? size >= size
    }

    /// The size of a content file; `nil` if it is gone.
    private func size(of id: ItemID, _ generation: Int64) throws(CloudFSError) -> Int64? {
        do throws(CloudFSError) {
            return try files.store.openToRead(id, generation: generation).facts().size
        } catch  where error.code == .notFound {
            return nil
        }
    }

    /// - Returns: Whether what is kept, or the cloud's version, is the file's content now.
    private func restore(
        _ previous: PreviousContent,
        of record: ItemRecord
    ) throws(CloudFSError) -> Bool {
        try takePlace(of: previous, for: record.id)
        let (base, sent) = try catalog.read {
            (try $0.base(of: record.id), try $0.sent(of: record.id))
        }
        let isOfCloud = previous.version != nil && previous.version == base?.version.content
        // A later save was sent before it was replaced too: the cloud has that, and all of it.
        // So may it have what was sent and not heard of, which the cloud is asked about first.
        let isOutdated =
            previous.version != nil && base != nil && (!isOfCloud || sent?.isMove == false)
        let content = previous.content
        let size = content.generation == 0 ? nil : try size(of: content.item, content.generation)
        guard let size, size >= previous.size, !isOutdated else {
            guard let base else { return false }
            try catalog.write { try makePlaceholder(record, of: base, $0) }
            return true
        }
        let generation = files.nextGeneration()
        try files.store.link(
            content.item,
            generation: content.generation,
            as: record.id,
            generation
        )
        let now = files.clocks.now()
        try catalog.write { writer in
            try writer.discard(record)
            try writer.setContent(of: record.id, generation: generation, residency: .resident)
            try writer.recordContent(
                record.id,
                size: size,
                modified: previous.modified,
                changed: now,
                localBytes: size
            )
            try writer.releasePrevious(of: record.id)
            if isOfCloud {
                try writer.markClean(record.id)
            } else {
                try writer.enqueue(record.id, notBefore: now + files.quietTime)
            }
        }
        return true
    }

    /// Gives a file the place in the cloud of what it replaced and is again; what the cloud has of
    /// it in its own old place, as of a draft that was saved over a document, is deleted there.
    private func takePlace(
        of previous: PreviousContent,
        for id: ItemID
    ) throws(CloudFSError) {
        try catalog.write { writer in
            let reader = writer.reader
            let own = try reader.base(of: id)
            guard own == nil || own?.version.content != previous.version,
                let replaced = try reader.replacedBase(of: previous),
                // What the cloud has of something excluded is the cloud's alone.
                try [id, replaced.item].allSatisfy({
                    try reader.effectivePolicy(of: $0) != .excluded
                }),
                // Other bytes that may be on their way there are asked about first.
                try reader.sent(of: replaced.item)?.kind != .content
            else { return }
            let now = files.clocks.now()
            try writer.settle(id, inPlaceOf: replaced)
            try writer.recordOrphan(own, of: id, at: now)
            try writer.passSent(from: replaced.item, to: id)
            try writer.enqueue(id, notBefore: now)
        }
    }

    /// Makes a file what the cloud has of it.
    private func makePlaceholder(
        _ record: ItemRecord,
        of base: BaseRecord,
        _ writer: CatalogWriter
    ) throws {
        try writer.dropContent(of: record)
        try writer.setSize(base.size, of: record.id)
        try writer.setMetadata(
            of: record.id,
            modified: base.modified,
            at: files.clocks.now()
        )
    }

    // MARK: - After any end

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
            // That of a file that was being filled may be the time at which bytes came.
            let modified =
                record.item.content.residency == .partial
                ? record.item.metadata.modified : facts.modified
            let isBehind =
                facts.size != record.item.size || modified != record.item.metadata.modified
            // What was sent while a program had it open may have been written on.
            let isQueued = try catalog.read { try $0.outboxEntry(of: record.id) } != nil
            // What is in a package is sent with it.
            guard isBehind || !(isQueued || record.item.package != nil) else { continue }
            try catalog.write { writer in
                try writer.recordContent(
                    record.id,
                    size: facts.size,
                    modified: modified,
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
            if record.item.isPackage, record.isListed {
                try writer.dropContent(of: record)
                let notBefore = files.clocks.now() + files.quietTime
                return try writer.noteTreeChange(of: record.id, notBefore: notBefore)
            }
            if let base = try writer.reader.base(of: record.id) {
                guard record.item.content.cleanliness != .clean else {
                    return try writer.dropContent(of: record)
                }
                return try makePlaceholder(record, of: base, writer)
            }
            try writer.dropContent(of: record)
            // What the cloud may have got unheard is asked about first.
            guard try writer.reader.sent(of: record.id) == nil else { return }
            try writer.removeName(of: record.id)
            try writer.erase(record.id)
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

    /// A content file that stays is no reason to have no drive: the sweeper tries it again.
    private func unlinkDiscarded() throws(CloudFSError) {
        guard let failure = try Sweeper.unlinkDiscarded(files) else { return }
        logger.error(
            "content that nothing needs cannot be unlinked; it is tried again",
            metadata: ["error": "\(failure)"]
        )
    }

    /// Content that nothing names is never adopted, and never deleted if there is any: a person
    /// may look at it.
    ///
    /// What cannot be moved stays where it is until the next start.
    private func findUnnamedContent() throws(CloudFSError) {
        let named = try catalog.read { try $0.allContentNames().union($0.discarded()) }
        for (item, generation) in try files.store.generations() {
            let name = ContentName(item: item, generation: generation)
            guard !named.contains(name) else { continue }
            do throws(CloudFSError) {
                try putAside(name)
            } catch {
                logger.error(
                    "content without an item cannot be moved to lost+found",
                    metadata: [
                        "item.id": "\(item)", "generation": "\(generation)", "error": "\(error)",
                    ]
                )
            }
        }
    }

    private func putAside(_ name: ContentName) throws(CloudFSError) {
        let file = try files.store.open(name.item, generation: name.generation)
        guard try file.seek(from: 0, hole: false) != nil else {
            // Made for an item whose transaction was not committed, with nothing in it.
            return try files.store.remove(name.item, generation: name.generation)
        }
        try files.store.moveToLostAndFound(name.item, generation: name.generation)
        logger.warning(
            "content without an item was moved to lost+found",
            metadata: ["item.id": "\(name.item)", "generation": "\(name.generation)"]
        )
    }
}

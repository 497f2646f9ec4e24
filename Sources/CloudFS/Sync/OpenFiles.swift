import Synchronization

/// All files whose content is in use, and what it takes to use it.
///
/// Lock order: a file's locks, then the catalog. Never the other way round, and never two files.
final class OpenFiles: Sendable {
    let catalog: Catalog
    let store: ContentStore
    let clocks: Clocks
    let hydration: HydrationSettings
    /// How long a change rests before it is sent.
    let quietTime: Duration
    let caches = KernelCaches()
    let passthrough: Passthrough
    let directWriters = DirectWriters()
    /// Raised when whole files are wanted.
    let wanted = Signal()
    /// Whether the disk can give back parts of a file.
    let mayThin = Atomic(true)
    /// Whether others were ever saved in the places of files that programs had open.
    let hasReplaced = Atomic(false)

    private struct Slot {
        var file: OpenFile
        var uses: Int
        /// Counts the uses that there ever were.
        var begun: UInt64 = 0
        /// How many are about to erase it: no use, but who begins one waits for their lock.
        var erasures = 0

        var isNeeded: Bool { uses > 0 || erasures > 0 }
    }

    private let table = Mutex<[ItemID: Slot]>([:])
    let lastGeneration = Mutex<Int64>(0)
    /// When a file was opened.
    struct Use: Sendable, Equatable {
        var last: Timestamp
        /// When, as its time of access; `nil` once a program has set another.
        var accessed: Timestamp?
        /// When by a program that is a person's.
        var byPerson: Timestamp?
    }

    private let uses = Mutex<[ItemID: Use]>([:])
    let unsettled = Mutex(Unsettled())
    private static let mostUnsavedUses = 4096

    init(
        catalog: Catalog,
        store: ContentStore,
        clocks: Clocks,
        hydration: HydrationSettings,
        quietTime: Duration,
        passthrough: Passthrough = Passthrough(isWanted: false)
    ) {
        self.catalog = catalog
        self.store = store
        self.clocks = clocks
        self.hydration = hydration
        self.quietTime = quietTime
        self.passthrough = passthrough
    }

    // MARK: - Use

    /// The file's live state, kept until `release`.
    ///
    /// - Throws: `notFound`; what opening the content throws.
    func acquire(_ id: ItemID) throws(CloudFSError) -> OpenFile {
        let file = table.withLock { table in
            var slot = table[id] ?? Slot(file: OpenFile(id: id), uses: 0)
            slot.uses += 1
            slot.begun += 1
            table[id] = slot
            return slot.file
        }
        do {
            try file.state.withLock { state throws(CloudFSError) in try load(&state, id) }
        } catch {
            drop(file)
            throw error
        }
        return file
    }

    /// Begins to use a file that is just being made, with no content in the cloud, inside the
    /// transaction that makes it: nobody else can know it yet.
    ///
    /// - Returns: Its live state, to be released; or to be abandoned, if it is not made after all.
    func begin(
        _ record: ItemRecord,
        content: ContentFile,
        queuedFor: Timestamp
    ) -> OpenFile {
        var state = OpenFile.State()
        state.read(record)
        state.content = content
        state.queuedFor = queuedFor
        state.isLoaded = true
        let file = OpenFile(id: record.id, state: state)
        table.withLock { $0[record.id] = Slot(file: file, uses: 1, begun: 1) }
        return file
    }

    /// Forgets a file that was not made.
    func abandon(_ file: OpenFile) { drop(file) }

    /// Another use of a file, if it is in use already; to be released.
    func retainIfLive(_ id: ItemID) -> OpenFile? {
        table.withLock { table in
            guard let slot = table[id], slot.uses > 0 else { return nil }
            table[id]?.uses += 1
            table[id]?.begun += 1
            return slot.file
        }
    }

    /// Another use of a file that is in use already.
    func retain(_ file: OpenFile) {
        table.withLock { table in
            table[file.id]?.uses += 1
            table[file.id]?.begun += 1
        }
    }

    /// The files that are in use at this moment; each of them may be let go of in the next.
    var inUse: [OpenFile] {
        table.withLock { $0.values.filter { $0.uses > 0 }.map(\.file) }
    }

    /// Another use of every file that is in use.
    func retainAll() -> [OpenFile] {
        table.withLock { table in
            table.compactMap { id, slot in
                guard slot.uses > 0 else { return nil }
                table[id]?.uses += 1
                table[id]?.begun += 1
                return slot.file
            }
        }
    }

    /// Ends one use; the last one stores what the catalog does not know yet.
    ///
    /// May block on the disk. What the disk refuses is tried again by `settleAgain`.
    func release(_ file: OpenFile) throws(CloudFSError) {
        var settled: UInt64?
        // Again if somebody used it meanwhile, who was not the last and so has stored nothing.
        while let begun = endUse(file, settledAt: settled) {
            do throws(CloudFSError) {
                try settle(file)
            } catch {
                if !keepUnsettled(file, after: error) { drop(file) }
                throw error
            }
            settled = begun
        }
        // Whoever took its name, or its base, after that was stored has left it to its last user.
        if file.state.withLock({ $0.isLoaded && $0.isUnlinked }) { eraseSoon(file.id) }
    }

    /// The same on a thread that may block, where it may have to; most uses are not the last.
    func release(_ file: OpenFile, on pool: BlockingPool) async throws(CloudFSError) {
        guard endUse(file, settledAt: nil) != nil else { return }
        try await pool.engine { try self.release(file) }
    }

    /// Ends one use, unless it is the last one and something may have to be stored.
    ///
    /// - Parameter settled: The count of uses at which everything was stored.
    /// - Returns: The count of uses now, if the use goes on.
    private func endUse(_ file: OpenFile, settledAt settled: UInt64?) -> UInt64? {
        table.withLock { table in
            guard var slot = table[file.id], slot.file === file else { return nil }
            if slot.uses == 1, slot.begun != settled { return slot.begun }
            slot.uses -= 1
            table[file.id] = slot.isNeeded ? slot : nil
            return nil
        }
    }

    /// What is known of a file in use beyond the catalog.
    func live(_ id: ItemID) -> OpenFile? {
        table.withLock { table in
            guard let slot = table[id], slot.uses > 0 else { return nil }
            return slot.file
        }
    }

    /// Notes a new mode of a file that may be in use.
    func noteSetID(_ hasSetID: Bool, of id: ItemID) {
        live(id)?.state.withLock { $0.hasSetID = hasSetID }
    }

    private func drop(_ file: OpenFile) {
        table.withLock { table in
            // One that was not made may have left its number to another.
            guard var slot = table[file.id], slot.file === file else { return }
            slot.uses -= 1
            table[file.id] = slot.isNeeded ? slot : nil
        }
    }

    private func load(_ state: inout OpenFile.State, _ id: ItemID) throws(CloudFSError) {
        guard !state.isLoaded else { return }
        let (record, base, ranges, isUnflushed, newer, name) = try catalog.readFew { reader in
            let record = try reader.existing(id)
            let isPartial = record.item.content.residency == .partial
            return (
                record, try reader.base(of: id), isPartial ? try reader.ranges(of: id) : [],
                isPartial ? try reader.hasUnflushedRanges(of: id) : false,
                try reader.newer(of: id), try reader.name(of: id)
            )
        }
        guard record.item.kind == .file else {
            throw CloudFSError(.isDirectory, "only files have content", item: id)
        }
        state.read(record)
        state.base = base
        state.hasNewer = newer != nil
        state.isUnlinked = name == nil
        if state.residency != .resident {
            state.plan = plan(for: &state, stored: ranges)
        }
        // The next flush, which may be all that a program waits for, is to be stored.
        if isUnflushed { state.unstoredBytes = max(1, state.storedRanges.byteCount) }
        state.isLoaded = true
    }

    /// Reads the state anew after the engine replaced the content in the catalog.
    ///
    /// If the catalog cannot be read now, whoever uses the file next reads it, or hears of that.
    ///
    /// - Returns: What ends the fetches and waits of the old content.
    func reload(_ state: inout OpenFile.State, _ id: ItemID) -> [HydrationPlan.Action] {
        let actions =
            state.fetches.keys.map { HydrationPlan.Action.cancel($0) }
            + state.waits.keys.map { .wake($0, failure: .remoteChanged) }
        state.isLoaded = false
        state.content = nil
        state.plan = nil
        state.unstoredBytes = 0
        // Whoever opens the file must not get pages of the old content beside bytes of the new.
        caches.noteChanged(id)
        try? load(&state, id)
        return actions
    }

    private func plan(
        for state: inout OpenFile.State,
        stored: [Range<Int64>]
    ) -> HydrationPlan {
        state.storedRanges = ByteRangeSet()
        for range in stored { state.storedRanges.insert(range) }
        // Without a base a file is as long as its bytes were, of which none can come.
        let size = state.lostSize ?? state.base?.size ?? state.size
        var present = state.storedRanges
        // What was cut off here, perhaps right before a crash, does not come back.
        if state.isDirty, state.size < size { present.insert(state.size..<size) }
        return HydrationPlan(
            firstRequest: state.newFirstRequest(),
            size: size,
            present: present,
            isOutdated: state.lostSize != nil || state.base == nil,
            policy: hydration.policy,
            settings: hydration.settings
        )
    }

    /// Stores size, times and present ranges that the catalog does not know yet.
    private func settle(_ file: OpenFile) throws(CloudFSError) {
        try file.state.withLock { state throws(CloudFSError) in
            if state.isUnlinked, !state.isInUse {
                return try eraseIfForgotten(&state, file.id, ownUses: 1)
            }
            try observe(&state, file.id)
            try save(&state, file.id)
            try storeRanges(&state, file.id)
            guard !state.isInUse, !state.isBeingFetched, try state.content?.isTorn == true else {
                return
            }
            // Nobody waits for what would have to be woken.
            _ = try dropTorn(&state, file.id)
        }
    }

    /// Notes, until `saveUses`, that a program opened a file: that must not cost a transaction.
    ///
    /// - Parameter isPersons: Whether the program is one by which a person sees the file.
    func noteUse(of id: ItemID, isPersons: Bool) {
        let now = clocks.now()
        let isFull = uses.withLock { uses in
            uses[id] = Use(
                last: now,
                accessed: now,
                byPerson: isPersons ? now : uses[id]?.byPerson
            )
            return uses.count >= Self.mostUnsavedUses
        }
        if isFull { catalog.leftovers.raise() }
    }

    /// The uses that the catalog does not know yet.
    var unsavedUses: [ItemID: Use] { uses.withLock { $0 } }

    /// When a person's program opened a file, if the catalog does not know yet.
    func unsavedUse(of id: ItemID) -> Timestamp? { uses.withLock { $0[id]?.byPerson } }

    /// The time of access that the catalog does not have yet.
    func unsavedAccess(of id: ItemID) -> Timestamp? { uses.withLock { $0[id]?.accessed } }

    /// A program has set the time of access, which no earlier use changes any more.
    ///
    /// - Precondition: Called in the transaction that stores it, or before that.
    func noteAccessSet(of id: ItemID) {
        uses.withLock { $0[id]?.accessed = nil }
    }

    /// Stores when files were last opened, for eviction and for people.
    func saveUses() throws(CloudFSError) {
        guard !unsavedUses.isEmpty else { return }
        let saved = try catalog.write(isLong: true) { writer in
            // Looked at here, so that no time of access is set between this and storing it.
            let noted = unsavedUses
            for (id, use) in noted {
                try writer.setLastUsed(use.last, accessed: use.accessed, of: id)
                if let moment = use.byPerson { try writer.setOpened(moment, of: id) }
            }
            return noted
        }
        uses.withLock { uses in
            for (id, use) in saved where uses[id] == use { uses[id] = nil }
        }
    }

    /// Erases an item that has neither name nor base, if nobody uses it; else its last user does.
    ///
    /// Who begins to use it meanwhile waits until that is done, and finds nothing.
    func eraseIfUnused(_ id: ItemID) throws(CloudFSError) {
        let unused = table.withLock { table -> OpenFile? in
            var slot = table[id] ?? Slot(file: OpenFile(id: id), uses: 0)
            guard slot.uses == 0 else { return nil }
            slot.erasures += 1
            table[id] = slot
            return slot.file
        }
        guard let file = unused else { return }
        defer {
            table.withLock { table in
                table[id]?.erasures -= 1
                if table[id]?.isNeeded == false { table[id] = nil }
            }
        }
        try file.state.withLock { state throws(CloudFSError) in
            try eraseIfForgotten(&state, id, ownUses: 0)
        }
    }

    /// Erases an item that has neither name nor base.
    ///
    /// Not if somebody began to use it before the lock was had, and has read its state: it is
    /// left to them. Who still waits for the lock reads it anew.
    private func eraseIfForgotten(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        ownUses: Int
    ) throws(CloudFSError) {
        let uses = table.withLock { $0[id]?.uses ?? 0 }
        guard !state.isLoaded || uses <= ownUses else { return }
        let isErased = try catalog.write { try $0.eraseIfForgotten(id) }
        if isErased { state.isLoaded = false }
    }
}

extension OpenFile.State {
    /// Takes over what the item's row tells.
    fileprivate mutating func read(_ record: ItemRecord) {
        generation = record.item.content.generation
        residency = record.item.content.residency
        size = record.item.size
        modified = record.item.metadata.modified
        changed = record.item.changed
        isDirty = record.hasChangedContent
        lostSize = record.lostSize
        hasSetID = record.item.metadata.hasSetID
        package = record.item.package
        isPackage = record.item.isPackage
    }
}

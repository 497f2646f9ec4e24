import Synchronization

/// The live state of one file's content: shared by all its handles and by the engine.
///
/// It exists while somebody uses the content. Everything that reads, changes or replaces content
/// holds `state` while it does, so that no two versions ever mix. Who fills absent bytes shares
/// `filling` while they are written, and holds `state` only before and after; who changes what may
/// be being filled keeps them out, by `change`.
///
/// Lock order: `filling`, then `state`, then `held`.
///
/// - Invariant: `plan` is `nil` exactly when the file is resident.
final class OpenFile: Sendable {
    let id: ItemID
    let state: Mutex<State>
    /// Held by those whose bytes of the cloud are on their way to the content file.
    let filling = SharedLock()
    /// What of a file that is not all here is on its way to programs.
    let held = Mutex(HeldRanges())

    init(id: ItemID, state: consuming State = State()) {
        self.id = id
        self.state = Mutex(state)
    }

    /// Changes the content while no bytes of the cloud are on their way to it: none land on top of
    /// newer ones, or behind a new end.
    func change<Value, Failure: Error>(
        _ body: (inout State) throws(Failure) -> sending Value
    ) throws(Failure) -> Value {
        try filling.alone { () throws(Failure) in try state.withLock(body) }
    }

    /// The package that the file is in, or that it is in none; `nil` where nobody can tell without
    /// waiting.
    var knownPackage: ItemID?? {
        state.withLockIfAvailable { $0.isLoaded ? .some($0.package) : nil } ?? nil
    }

    /// What is shown of a file in use, at one moment.
    struct Snapshot: Sendable {
        var size: Int64
        var presentByteCount: Int64
        var residency: Residency
        var isDownloading: Bool
        var sentBytes: Int64?
        var hasNewer: Bool
    }

    /// `nil` while the state is not read from the catalog.
    var snapshot: Snapshot? {
        state.withLock { state in
            guard state.isLoaded else { return nil }
            return Snapshot(
                size: state.size,
                presentByteCount: state.presentByteCount,
                residency: state.residency,
                isDownloading: !state.fetches.isEmpty,
                sentBytes: state.sentBytes,
                hasNewer: state.hasNewer
            )
        }
    }

    /// What is known of a content file that programs write without the drive being asked.
    struct DirectWriting: Sendable {
        /// How the disk described it when it was last looked at.
        var seen: ContentFile.Facts
        /// How the disk described it when it was last read for the cloud.
        var sent: ContentFile.Facts?
        /// Whether it is still what it was at the open, though the catalog calls it dirty: it could
        /// have been changed at any time since then.
        var isUntouched: Bool
        /// The version in the cloud that was opened, or sent.
        var agreed: String?
        /// Whether programs can write after their last handle: through mappings, or because the
        /// drive was taken from them.
        ///
        /// Nobody hears of what is stored into a mapping; when one writes, the kernel drops the
        /// attributes that it keeps.
        var isMappable = false
        /// Whether a mapping outlives all handles.
        var isMapped = false
    }

    struct State {
        /// Whether the rest was read from the catalog.
        var isLoaded = false
        /// The open content file; opened when first needed.
        var content: ContentFile?
        var generation: Int64 = 0
        var residency = Residency.placeholder
        var size: Int64 = 0
        var modified = Timestamp(nanoseconds: 0)
        var changed = Timestamp(nanoseconds: 0)
        /// The time of the last access, if a program has set one since the file came into use; the
        /// catalog may not know it yet.
        var accessed: Timestamp?
        /// The version in the cloud that absent bytes are fetched from.
        var base: BaseRecord?
        /// How long the version was that absent bytes are of, if it is gone: no other one has them.
        var lostSize: Int64?
        var plan: HydrationPlan?
        /// How many plans there were.
        private var planCount: UInt64 = 0
        var waits: [HydrationPlan.WaiterID: Pending<Void>] = [:]
        var nextWaiter: UInt64 = 1
        var fetches: [HydrationPlan.RequestID: Task<Void, Never>] = [:]
        /// How many bring all of it here.
        var completers = 0
        /// Who waited for bytes last: what comes is counted as that program's.
        var asker: ReadingPrograms.Program?
        /// Whether its stalled readers are looked after.
        var isWatched = false
        /// Bytes that were filled since the present ranges were last stored.
        var unstoredBytes: Int64 = 0
        /// What of a partial file the catalog knows to be here.
        var storedRanges = ByteRangeSet()
        /// Whether the catalog may have forgotten some of them, and the disk not know that yet: so
        /// it may be at first, as the last process may have died just then.
        var mayHaveForgotten = true

        var handles = 0
        var writers = 0
        /// Whether the catalog knows that the content is newer than the base.
        var isDirty = false
        /// Whether size or times here are newer than the catalog's.
        var hasUnsavedChange = false
        /// For when the catalog was last told to send the changes, if here.
        var queuedFor: Timestamp?
        /// Counts local changes, so that an upload can tell whether its snapshot is still true.
        var changeCount: UInt64 = 0
        /// The count of which others were told last.
        var publishedCount: UInt64 = 0
        var writesInFlight = 0
        /// Whether the item has no name any more.
        var isUnlinked = false
        /// Who has its place in the cloud since a program saved another file there.
        var heir: ItemID?
        /// The package that the file is in.
        var package: ItemID?
        /// Whether it is a package itself.
        var isPackage = false
        /// Whether the mode has bits that somebody without privileges takes away by a change.
        var hasSetID = false
        /// Whether the cloud has a newer version, to be applied after the last close.
        var hasNewer = false
        /// The folder in which the cloud lacks it while it may be written on.
        var missedIn: ItemID?
        /// How much of the running upload was sent, in bytes; `nil` when none runs.
        var sentBytes: Int64?

        /// What the kernel calls the content file while programs reach it without the drive;
        /// decided by the first handle, for all until the last.
        var backing: Int32?
        var isBackingDecided = false
        /// Set while programs may write the content without the drive being asked.
        var direct: DirectWriting?

        /// Whether a record that was read a moment ago is of the content that is here now.
        func isContent(of item: Item) -> Bool {
            size == item.size && generation == item.content.generation
        }

        /// Whether the catalog calls it dirty only because programs may write it: the cloud has
        /// what they wrote so far.
        ///
        /// - Parameter base: What the catalog says now: a rename may have handed it on.
        func hasNothingToSend(beside base: BaseRecord?) -> Bool {
            guard let direct, let base, direct.agreed == base.version.content else { return false }
            return direct.isUntouched || direct.sent?.agrees(with: direct.seen) == true
        }

        /// How long the catalog should say that it is, in bytes; `nil` for a package, which is as
        /// long as its tree.
        ///
        /// To be stored with whatever says that the cloud has the content: nobody looks at what is
        /// clean after a crash, nor again at what is not unsaved any more.
        var length: Int64? { isPackage ? nil : size }

        /// Whether the cloud has gone on without it: it is asked once nobody uses the file.
        var isOutdated: Bool { hasNewer || missedIn != nil }

        /// Whether a program has the file open, or may have it mapped for writing.
        var isInUse: Bool { handles > 0 || direct != nil }

        /// Whether some of it is on its way here.
        ///
        /// Of what is stored as all here nothing is, though the last fetch, or who asked for all of
        /// it, may not have ended.
        var isBeingFetched: Bool {
            plan != nil && (completers > 0 || !fetches.isEmpty || !waits.isEmpty)
        }

        /// Whether a program may be writing.
        ///
        /// A mapping outlives the descriptor that it was made of, and whether there is one can be
        /// told only once nobody has the file open.
        var isBeingWritten: Bool {
            writers > 0 || direct.map { $0.isMappable || $0.isMapped } ?? false
        }

        var presentByteCount: Int64 {
            switch residency {
            case .resident: size
            case .partial: min(plan?.present.byteCount ?? 0, size)
            case .placeholder: 0
            }
        }

        /// How much is to come until everything is here.
        var missingByteCount: Int64 { plan.map { max(0, $0.size - $0.present.byteCount) } ?? 0 }

        /// What is absent can never come, whatever base the item gets.
        mutating func loseBase() {
            lostSize = lostSize ?? plan?.size
            base = nil
        }

        /// Everything is here.
        mutating func becomeResident() {
            residency = .resident
            plan = nil
            lostSize = nil
        }

        /// For a new plan: no two of a file give a request the same number.
        mutating func newFirstRequest() -> UInt64 {
            planCount += 1
            return planCount << 32
        }

        mutating func newWaiter() -> HydrationPlan.WaiterID {
            defer { nextWaiter += 1 }
            return HydrationPlan.WaiterID(rawValue: nextWaiter)
        }

        /// Notes a new handle, which is an access.
        mutating func noteOpened(isWritable: Bool, at now: Timestamp) {
            handles += 1
            if isWritable { writers += 1 }
            accessed = accessed.map { max($0, now) }
        }

        /// Notes a local change of content or times.
        mutating func didChange(at now: Timestamp) {
            modified = now
            // The kernel's clock may be ticks behind the one that told the last change.
            let ahead = changed.since(now)
            let isBehind = ahead >= .zero && ahead < .seconds(1)
            changed = isBehind ? changed + .nanoseconds(1) : now
            hasUnsavedChange = true
            changeCount += 1
        }
    }
}

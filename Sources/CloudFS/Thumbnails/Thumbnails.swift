import Collections
import Logging
import Synchronization

/// The thumbnails of a drive's files: made when content is here, fetched when it is not, and left
/// in the cloud for other devices.
///
/// Nobody waits for any of it: what is not here is asked for, and there the next time. Decisions
/// are `ThumbnailStep`'s; this class runs them, a few items at once.
final class Thumbnails: Sendable {
    /// What it needs of the rest of the drive.
    struct Surroundings: Sendable {
        var catalog: Catalog
        var content: ContentStore
        var provider: any CloudProvider
        var pool: BlockingPool
        var clocks: Clocks
        /// The MIME type of a file by its name.
        var type: @Sendable (_ name: String) -> String
        var isOnline: @Sendable () -> Bool
        /// Told when an item has another thumbnail.
        var changed: @Sendable (ItemID) -> Void
        /// Told how many bytes of a content were fetched.
        var fetched: @Sendable (Int64) -> Void
        var logger: Logger
    }

    /// Where thumbnails may come from.
    enum Use: Sendable, Equatable {
        /// Made here, and exchanged with other devices.
        case full
        /// Only those of other devices are shown.
        case fetched
        case off
    }

    struct State {
        /// Somebody wants to see them now; the last one first.
        var asked: Deque<ItemID> = []
        /// Their content passes by.
        var passing: Deque<ItemID> = []
        /// Those of them for which there is something to do.
        var due: Deque<ItemID> = []
        var wantsBig: Set<ItemID> = []
        /// All of `asked`.
        var queued: Set<ItemID> = []
        /// All of `passing` and `due`.
        var noticed: Set<ItemID> = []
        var running: Set<ItemID> = []
        /// Those of them that somebody has asked for since.
        var again: Set<ItemID> = []
        /// When the cloud is asked again for what it did not have.
        var later: [ItemID: Timestamp] = [:]
        /// Until when no program is started, as none could be.
        var unavailableUntil: Timestamp?
    }

    /// More would be forgotten anyway before anybody looks.
    static let mostQueued = 2_000
    /// Of how many the cloud is asked again without anybody's asking: those somebody looks at.
    static let mostLater = 64
    private static let parallel = 4
    /// For how long after a change, and how many answers that there is none, a picture of another
    /// device is waited for before the photo is looked into.
    private static let awaited = Duration.seconds(60)
    private static let awaitedAttempts = 2
    /// After how many answers that there is none nobody is waited for any more.
    static let mostAttempts = 6
    /// Steps from nothing to a picture that is here and in the cloud, and some to spare.
    private static let mostSteps = 8

    let drive: Surroundings
    let store: ThumbnailStore
    let maker = ThumbnailMaker()
    private let use: Use
    let mayWrite: Bool
    private let thumbnailers: Thumbnailers
    let staging: String
    /// One program at a time: what is made for nobody in particular leaves the machine to others.
    let workshop: BlockingPool
    let state = Mutex(State())
    let wake = Signal()
    /// Raised when content passes by.
    let passing = Signal()
    /// Raised when pictures in the cloud may show nothing any more.
    let retiring = Signal()

    init(
        _ surroundings: Surroundings,
        use: Use,
        mayWrite: Bool,
        stateDirectory: String,
        thumbnailers: Thumbnailers = .installed()
    ) {
        drive = surroundings
        self.use = use
        self.mayWrite = mayWrite
        self.thumbnailers = thumbnailers
        store = ThumbnailStore(path: stateDirectory + "/thumbnails.sqlite")
        staging = stateDirectory + "/staging"
        workshop = surroundings.pool.another(name: "cloudfs-thumbs", width: 1)
    }

    // MARK: - Asking

    /// The largest picture of at most `size` that is here.
    ///
    /// What is missing is asked for.
    /// - Throws: `noAttribute` if there is none yet.
    func image(
        of id: ItemID,
        atMost size: ThumbnailSize
    ) throws(CloudFSError) -> ThumbnailImage {
        let none = CloudFSError(.noAttribute, "no thumbnail is here", item: id)
        guard use != .off, let facts = try facts(of: id, isAsked: true, wantsBig: !size.isSmall)
        else { throw none }
        let image = try store.image(of: id, showing: facts.tokens, atMost: size)
        if ThumbnailStep.next(facts) != .nothing { ask(id, wantsBig: !size.isSmall) }
        guard let image else { throw none }
        return image
    }

    /// Takes the picture that a program has for an item, until the content changes.
    ///
    /// - Throws: `invalidArgument` for what is no picture; `attributeTooBig`; `noData` for an item
    ///   without content.
    func set(_ bytes: [UInt8], for id: ItemID) throws(CloudFSError) {
        guard bytes.count <= ThumbnailImage.mostBytes else {
            throw CloudFSError(.attributeTooBig, "a thumbnail has at most 64 KiB", item: id)
        }
        guard let image = ThumbnailImage(bytes) else {
            throw CloudFSError(.invalidArgument, "a thumbnail is a JPEG or a PNG", item: id)
        }
        guard use != .off else {
            throw CloudFSError(.unsupported, "the drive keeps no thumbnails", item: id)
        }
        guard let facts = try facts(of: id, isAsked: true, wantsBig: true),
            let token = facts.tokens.first
        else { throw CloudFSError(.noData, "the item has no content to show", item: id) }
        try store.replace(with: [.doubleExtraLarge: image], of: id, record(.given, token))
        drive.changed(id)
        ask(id, wantsBig: false)
    }

    /// Takes back what a program has set; the next one is made or fetched.
    ///
    /// - Throws: `noAttribute` if none was set.
    func reset(_ id: ItemID) throws(CloudFSError) {
        guard let facts = try facts(of: id, isAsked: true, wantsBig: false),
            let record = facts.record, facts.tokens.contains(record.token),
            [.given, .cloud].contains(record.source)
        else { throw CloudFSError(.noAttribute, "no program has set a thumbnail", item: id) }
        try store.remove(id)
        drive.changed(id)
        guard mayWrite, let version = facts.version, let sidecars = drive.provider.sidecars else {
            return ask(id, wantsBig: false)
        }
        Task {
            do throws(CloudFSError) {
                for isSmall in [true, false] {
                    try await sidecars.remove(
                        ThumbnailSidecar.name(of: version, isSmall: isSmall)
                    )
                }
            } catch {
                drive.logger.notice(
                    "a thumbnail stays in the cloud",
                    metadata: ["item.id": "\(id)", "error": "\(error)"]
                )
            }
            ask(id, wantsBig: false)
        }
    }

    /// Somebody wants to see the thumbnail of an item.
    func ask(_ id: ItemID, wantsBig: Bool) {
        guard use != .off else { return }
        state.withLock { state in
            if wantsBig, state.wantsBig.count < Self.mostQueued { state.wantsBig.insert(id) }
            guard !state.queued.contains(id) else { return }
            state.queued.insert(id)
            state.asked.prepend(id)
            if state.asked.count > Self.mostQueued, let last = state.asked.popLast() {
                state.queued.remove(last)
            }
        }
        wake.raise()
    }

    /// Content of these items may have come or changed.
    func notice(_ ids: some Sequence<ItemID>) {
        guard use != .off else { return }
        state.withLock { state in
            for id in ids where state.passing.count < Self.mostQueued {
                guard state.noticed.insert(id).inserted else { continue }
                state.passing.append(id)
            }
        }
        passing.raise()
    }

    /// The cloud is reached: what was not sent is, and what is gone goes there too.
    func noticeConnected() async {
        await noticeUnsent()
        retiring.raise()
    }

    func noticeUnsent() async {
        guard use != .off, mayWrite else { return }
        do throws(CloudFSError) {
            let unsent = try await drive.pool.engine {
                self.store.exists ? try self.store.unsent(limit: Self.mostQueued) : []
            }
            notice(unsent)
        } catch {
            drive.logger.warning("thumbnails cannot be read", metadata: ["error": "\(error)"])
        }
    }

    // MARK: - Running

    /// Works until the task is cancelled.
    func run() async {
        await withTaskCancellationHandler {
            await work()
        } onCancel: {
            maker.end()
        }
    }

    private func work() async {
        guard use != .off else { return }
        await withDiscardingTaskGroup { group in
            group.addTask { await self.sweep() }
            group.addTask { await self.sift() }
            while !Task.isCancelled {
                guard let (id, isAsked) = next() else {
                    await wake.wait(atMost: untilLater())
                    continue
                }
                group.addTask {
                    await self.advance(id, isAsked: isAsked)
                    self.finish(id)
                }
            }
        }
    }

    /// How long until the next item's time comes; `nil` if none waits for one.
    private func untilLater() -> Duration? {
        let now = drive.clocks.now()
        let first = state.withLock { $0.later.values.min() }
        return first.map { max(.milliseconds(50), .nanoseconds($0.nanoseconds - now.nanoseconds)) }
    }

    private func next() -> (ItemID, isAsked: Bool)? {
        let now = drive.clocks.now()
        return state.withLock { state in
            for (id, time) in state.later where time <= now {
                state.later[id] = nil
                if state.queued.insert(id).inserted { state.asked.append(id) }
            }
            guard state.running.count < Self.parallel else { return nil }
            while true {
                let asked = state.asked.popFirst()
                guard let id = asked ?? state.due.popFirst() else { return nil }
                if asked != nil { state.queued.remove(id) } else { state.noticed.remove(id) }
                // One thing after the other for each item.
                if state.running.insert(id).inserted { return (id, asked != nil) }
                state.again.insert(id)
            }
        }
    }

    private func finish(_ id: ItemID) {
        let isAskedAgain = state.withLock { state in
            state.running.remove(id)
            return state.again.remove(id) != nil
        }
        if isAskedAgain { ask(id, wantsBig: false) }
        wake.raise()
    }

    /// Picks out what there is something to do about: most content that passes by shows nothing,
    /// so that many items are looked at together.
    private func sift() async {
        while !Task.isCancelled {
            await passing.wait()
            let ids = state.withLock { state in
                defer { state.passing = [] }
                // Whoever changes one from here on has it looked at again.
                state.noticed.subtract(state.passing)
                return state.passing
            }
            guard !ids.isEmpty else { continue }
            do throws(CloudFSError) {
                let due = try await drive.pool.engine { ids.filter(self.isDue) }
                state.withLock { state in
                    for id in due where state.due.count < Self.mostQueued {
                        if state.noticed.insert(id).inserted { state.due.append(id) }
                    }
                }
                if !due.isEmpty { wake.raise() }
            } catch {
                drive.logger.error("thumbnails are not made", metadata: ["error": "\(error)"])
            }
        }
    }

    private func isDue(_ id: ItemID) -> Bool {
        do throws(CloudFSError) {
            guard let facts = try facts(of: id, isAsked: false, wantsBig: false) else {
                return false
            }
            return ThumbnailStep.next(facts) != .nothing
        } catch {
            // Whoever takes the step says what is wrong.
            return true
        }
    }

    private func advance(_ id: ItemID, isAsked: Bool) async {
        let wantsBig = state.withLock { $0.wantsBig.remove(id) != nil }
        do throws(CloudFSError) {
            for _ in 0..<Self.mostSteps {
                let facts = try await drive.pool.engine {
                    try self.facts(of: id, isAsked: isAsked, wantsBig: wantsBig)
                }
                guard let facts else { return }
                let step = ThumbnailStep.next(facts)
                guard step != .nothing else { return }
                try await take(step, id, facts)
            }
        } catch {
            // The next one who asks, or the next connection, begins again.
            drive.logger.log(
                level: error.isTransient ? .debug : .notice,
                "a thumbnail has to wait",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
    }

    /// - Returns: `nil` for what has no thumbnail whatever happens.
    func facts(
        of id: ItemID,
        isAsked: Bool,
        wantsBig: Bool
    ) throws(CloudFSError) -> ThumbnailFacts? {
        let found = try drive.catalog.readFew { reader -> (Item, ItemSurroundings)? in
            guard let item = try reader.item(id)?.item, item.shownKind == .file else { return nil }
            return (item, try reader.surroundings(of: id))
        }
        guard let (item, known) = found, item.size > 0, let name = known.name else { return nil }
        // What programs write is looked at each time it is sent: most of it has no picture.
        let canBeMade = use == .full && !ways(for: name).isEmpty
        guard isAsked || canBeMade || store.exists else { return nil }
        let isClean = item.content.cleanliness == .clean
        let now = drive.clocks.now()
        let isPossible = state.withLock { $0.unavailableUntil.map { $0 < now } ?? true }
        let record = try store.record(of: id)
        // The device that has just saved it may be about to leave a picture.
        let isAwaited =
            item.metadata.modified + Self.awaited > now
            && record?.attempts ?? 0 < Self.awaitedAttempts
        return ThumbnailFacts(
            canBeMade: canBeMade && isPossible,
            canRun: isPossible && thumbnailers.hasVips,
            canPeek: isAsked && use == .full && isPossible && thumbnailers.hasVips && !isAwaited
                && CameraTypes.all.contains(drive.type(String(decoding: name, as: UTF8.self))),
            isReadable: item.content.residency == .resident && (isClean || isAsked),
            version: isClean ? known.baseVersion : nil,
            local: ThumbnailToken(item),
            record: record,
            isAsked: isAsked,
            wantsBig: wantsBig,
            isOnline: drive.isOnline() && drive.provider.sidecars != nil,
            mayWrite: mayWrite && use == .full,
            now: now
        )
    }

    func ways(for name: [UInt8]) -> [ThumbnailMaker.Way] {
        thumbnailers.ways(for: drive.type(String(decoding: name, as: UTF8.self)))
    }
}

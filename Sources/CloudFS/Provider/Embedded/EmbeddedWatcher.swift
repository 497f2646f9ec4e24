import CLinux
import Glibc

/// What a watcher keeps to; tests make it small.
struct EmbeddedWatchLimits: Sendable {
    /// How many folders it watches at most; the kernel has a limit of its own.
    var mostWatches = Int.max
    /// How often everything is compared when watches ran out.
    var pollInterval = Duration.seconds(30)
}

/// Listens to the kernel on behalf of a feed; lives on one thread and is seen by no other.
///
/// inotify only hints: a watch knows its own folder's entries, not what is below, and the queue
/// can overflow. So a folder that appears is watched first, then walked, then hinted as a whole,
/// and whatever could have been missed is hinted as the whole container.
final class EmbeddedWatcher {
    private let gate: EmbeddedGate
    private let feed: EmbeddedFeed
    private let wakeUp: EmbeddedDescriptor
    private let limits: EmbeddedWatchLimits
    private let beforeReading: (@Sendable () -> Void)?

    private var root: EmbeddedRoot?
    private var inotify: EmbeddedDescriptor?
    private var mounts: EmbeddedDescriptor?
    private var tree = EmbeddedFolderTree()
    private var hints = EmbeddedHints()
    /// Folders that were renamed away, until it is known where to.
    private var movedAway: [UInt32: Int32] = [:]
    /// When everything is compared for the next time, as folders are left that the kernel gives no
    /// watch for; `nil` while there are none.
    private var nextPoll: ContinuousClock.Instant?
    /// When everything is watched anew: folders were passed by that the disk could not read, or
    /// that may be hidden no longer.
    private var nextWalk: ContinuousClock.Instant?
    private var lastWalk: ContinuousClock.Instant?
    /// Whether folders were passed by that another file system hides.
    private var isHiding = false
    /// Whether some were that the disk could not read, and how long until they are tried again.
    private var isDamaged = false
    private var damagePause = shortestDamagePause
    private var isRootLost = false

    /// How often everything is compared while the disk cannot read a folder, at first and at least.
    private static let shortestDamagePause = Duration.seconds(30)
    private static let longestDamagePause = Duration.seconds(600)
    /// How long after a walk another one may follow, for changes of mounts.
    private static let walkPause = Duration.seconds(10)
    /// After this long the feed begins although not all folders are watched yet.
    private static let longestStart = Duration.seconds(1)

    init(
        gate: EmbeddedGate,
        feed: EmbeddedFeed,
        wakeUp: EmbeddedDescriptor,
        limits: EmbeddedWatchLimits,
        beforeReading: (@Sendable () -> Void)?
    ) {
        self.gate = gate
        self.feed = feed
        self.wakeUp = wakeUp
        self.limits = limits
        self.beforeReading = beforeReading
    }

    /// Watches until it is told to stop or the root is lost.
    func run() {
        do {
            try start()
            while try step() {}
        } catch let error as CloudFSError {
            feed.end(error)
        } catch let failure as EmbeddedFailure {
            feed.end(failure.error(at: .root))
        } catch {
            feed.end(CloudFSError(.internalFailure, "the watcher failed", cause: error))
        }
    }

    // MARK: - Watching

    private func start() throws {
        let root = try gate.enter()
        self.root = root
        mounts = EmbeddedDescriptor(
            owning: try EmbeddedSystem.check("open") {
                open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
            }
        )
        switch EmbeddedSystem.attempt("inotify_init1", { clinux_inotify_open() }) {
        case .success(let raw): inotify = EmbeddedDescriptor(owning: raw)
        case .failure(let failure):
            guard [EMFILE, ENFILE].contains(failure.errorNumber) else { throw failure }
            hintAtAll()
        }
        if let watch = try watch(root.descriptor) {
            tree.setRoot(watch)
            let begun = ContinuousClock.now
            var isLate = false
            try walk(root.descriptor, watch) { [feed] in
                guard !isLate, ContinuousClock.now - begun > Self.longestStart else { return }
                isLate = true
                feed.begin()
            }
            if isLate { hint(.subtree(.root)) }
        }
        feed.begin()
        if nextPoll != nil { hintAtAll() }
    }

    /// Watches a folder; `nil` when it is gone or there are no watches left.
    private func watch(_ folder: EmbeddedDescriptor) throws(EmbeddedFailure) -> Int32? {
        guard let inotify else { return nil }
        guard tree.count < limits.mostWatches else {
            notePolling()
            return nil
        }
        let path = folder.magicPath
        do throws(EmbeddedFailure) {
            return try EmbeddedSystem.check("inotify_add_watch") {
                clinux_inotify_watch(inotify.rawValue, path)
            }
        } catch {
            switch error.errorNumber {
            case ENOSPC, ENOMEM:
                notePolling()
                return nil
            case EACCES, ENOENT:
                // Not readable, so its listing fails too and there is nothing to hear of; or gone.
                return nil
            default: throw error
            }
        }
    }

    /// Watches every folder below one that is watched already.
    private func walk(
        _ folder: EmbeddedDescriptor,
        _ watch: Int32,
        _ progress: () -> Void = {}
    ) throws {
        var pending = [(folder, watch)]
        while let (folder, parent) = pending.popLast() {
            progress()
            for bytes in try folderNames(in: folder, parent) {
                let name = try ItemName(bytes)
                if parent == tree.root, name == .reserved { continue }
                guard let child = try openFolder(name, in: folder),
                    let watch = try self.watch(child)
                else { continue }
                // Not followed a second time: it is being walked, or was.
                let isKnown = tree.contains(watch)
                tree.place(watch, named: name, in: parent)
                if !isKnown { pending.append((child, watch)) }
            }
        }
    }

    private func folderNames(in folder: EmbeddedDescriptor, _ watch: Int32) throws -> [[UInt8]] {
        do {
            return try EmbeddedSystem.names(in: folder, foldersOnly: true)
        } catch {
            let isPassedBy = error.isDamage && watch != tree.root
            guard isPassedBy || [ENOENT, EACCES].contains(error.errorNumber) else { throw error }
            if isPassedBy { noteDamage() }
            return []
        }
    }

    /// Opens a folder of this file system, or returns `nil` for anything else.
    private func openFolder(
        _ name: ItemName,
        in folder: EmbeddedDescriptor
    ) throws(EmbeddedFailure) -> EmbeddedDescriptor? {
        do {
            return try EmbeddedSystem.open(
                name.bytes,
                in: folder,
                flags: clinux_o_path | O_DIRECTORY
            )
        } catch  where canPassBy(error) {
            return nil
        }
    }

    /// Whether a failure to enter a folder says that there is nothing to hear of in it now.
    private func canPassBy(_ failure: EmbeddedFailure) -> Bool {
        if failure.isDamage { noteDamage() }
        if failure.errorNumber == EXDEV { isHiding = true }
        return failure.isDamage
            || [ENOENT, ENOTDIR, ELOOP, EXDEV, EACCES].contains(failure.errorNumber)
    }

    // MARK: - Waiting

    /// Waits for one thing to happen and deals with it; `false` when told to stop.
    private func step() throws -> Bool {
        var polled = [
            pollfd(fd: wakeUp.rawValue, events: Int16(POLLIN), revents: 0),
            // The kernel reports a change of mounts as an exceptional condition.
            pollfd(fd: mounts?.rawValue ?? -1, events: Int16(POLLPRI), revents: 0),
            pollfd(fd: inotify?.rawValue ?? -1, events: Int16(POLLIN), revents: 0),
        ]
        let timeout = timeoutMilliseconds()
        _ = try EmbeddedSystem.check("poll") {
            poll(&polled, nfds_t(polled.count), timeout)
        }
        if polled[0].revents != 0 { return false }
        if polled[1].revents != 0 {
            _ = try gate.enter()
            if isHiding { walkAgain(in: .milliseconds(100)) }
        }
        if polled[2].revents != 0 {
            beforeReading?()
            try readEvents()
        }
        if isRootLost {
            // Says what happened, if it can be told; the path may lead to another folder by now.
            _ = try gate.enter()
            throw CloudFSError(.offline, "the cloud directory was moved or removed")
        }
        // Whatever woke the thread: a folder that is in use must not hide those without a watch.
        if let nextPoll, ContinuousClock.now >= nextPoll { hintAtAll() }
        if let nextWalk, ContinuousClock.now >= nextWalk { try beginAgain() }
        if let due = hints.due, ContinuousClock.now >= due { try publish() }
        return true
    }

    private func timeoutMilliseconds() -> Int32 {
        guard let due = [hints.due, nextWalk, nextPoll].compactMap({ $0 }).min() else { return -1 }
        let left = max(.zero, due - ContinuousClock.now)
        return Int32((left / .milliseconds(1)).rounded(.up))
    }

    /// Has everything watched anew after a while; not again and again while many mounts change.
    private func walkAgain(in pause: Duration) {
        let now = ContinuousClock.now
        let soonest = lastWalk.map { $0 + Self.walkPause } ?? now
        let moment = max(now + pause, soonest)
        nextWalk = min(nextWalk ?? moment, moment)
    }

    private func noteDamage() {
        isDamaged = true
        walkAgain(in: damagePause)
    }

    private func publish() throws(EmbeddedFailure) {
        // What left and did not arrive anywhere is outside now.
        for watch in movedAway.values { forget(watch) }
        movedAway = [:]
        feed.publish(hints.take())
    }

    private func hint(_ hint: ChangeHint) {
        hints.add(hint, at: .now)
    }

    /// Has everything compared now and again, as folders are left that nothing is heard of.
    private func notePolling() {
        if nextPoll == nil { hintAtAll() }
    }

    private func hintAtAll() {
        hint(.subtree(.root))
        nextPoll = ContinuousClock.now + limits.pollInterval
    }

    /// Drops the watches of a folder that is gone, and of all below it.
    private func forget(_ watch: Int32) {
        guard let inotify else { return }
        for watch in tree.remove(watch) {
            // Fails for watches that the kernel has dropped itself, with their folders.
            _ = clinux_inotify_forget(inotify.rawValue, watch)
        }
    }

    // MARK: - Events

    private func readEvents() throws {
        guard let inotify else { return }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        // One buffer at a time: between two the hints may be due.
        do {
            let length = try EmbeddedSystem.check("read") {
                buffer.withUnsafeMutableBytes { read(inotify.rawValue, $0.baseAddress, $0.count) }
            }
            for event in EmbeddedEvent.all(in: buffer[..<length]) { try handle(event) }
        } catch let failure as EmbeddedFailure where failure.errorNumber == EAGAIN {
            // Woken for nothing.
        }
    }

    private func handle(_ event: EmbeddedEvent) throws {
        if event.has(clinux_in_overflow) {
            // Folders may have come and gone unseen: watch what is there, compare everything.
            try beginAgain()
            return
        }
        if event.watch == tree.root,
            event.has(clinux_in_delete_self) || event.has(clinux_in_move_self)
                || event.has(clinux_in_unmount)
        {
            isRootLost = true
            return
        }
        if event.has(clinux_in_ignored) {
            _ = tree.remove(event.watch)
            return
        }
        guard let path = tree.path(of: event.watch), let name = event.name else { return }
        if event.watch == tree.root, name == .reserved { return }
        hint(.children(of: path))
        if event.has(clinux_in_is_folder) { try handleFolder(event, name, in: path) }
    }

    private func handleFolder(
        _ event: EmbeddedEvent,
        _ name: ItemName,
        in parent: RemotePath
    ) throws {
        if event.has(clinux_in_moved_from) {
            if let watch = tree.child(of: event.watch, named: name) {
                movedAway[event.cookie] = watch
            }
        } else if event.has(clinux_in_moved_to), let watch = movedAway[event.cookie] {
            movedAway[event.cookie] = nil
            tree.place(watch, named: name, in: event.watch)
        } else if event.has(clinux_in_create) || event.has(clinux_in_moved_to) {
            try handleNewFolder(name, at: parent.appending(name), in: event.watch)
        }
    }

    private func handleNewFolder(_ name: ItemName, at path: RemotePath, in parent: Int32) throws {
        hint(.subtree(path))
        guard let root else { return }
        do {
            let folder = try EmbeddedSystem.open(
                path.names[...],
                below: root.descriptor,
                flags: clinux_o_path | O_DIRECTORY
            )
            guard let watch = try watch(folder) else { return }
            tree.place(watch, named: name, in: parent)
            try walk(folder, watch)
        } catch let failure as EmbeddedFailure where canPassBy(failure) {
            // Gone again, or not a folder of this container: its parent's listing will tell.
        }
    }

    /// Watches everything anew, and has it compared.
    private func beginAgain() throws {
        hint(.subtree(.root))
        damagePause =
            isDamaged ? min(damagePause * 2, Self.longestDamagePause) : Self.shortestDamagePause
        (nextWalk, isHiding, isDamaged) = (nil, false, false)
        lastWalk = .now
        if let root, let watch = tree.root { try rewalk(root.descriptor, watch) }
    }

    /// Watches everything anew after events were lost.
    private func rewalk(_ folder: EmbeddedDescriptor, _ watch: Int32) throws {
        var fresh = EmbeddedFolderTree()
        fresh.setRoot(watch)
        let before = tree
        tree = fresh
        movedAway = [:]
        try walk(folder, watch)
        guard let inotify else { return }
        for old in before.watches where !tree.contains(old) {
            _ = clinux_inotify_forget(inotify.rawValue, old)
        }
    }
}

import Dispatch
import Foundation
import Glibc
import Logging
import Synchronization

/// What the kernel is told to forget.
enum KernelNotification: Hashable, Sendable {
    case attributes(ItemID)
    /// Attributes and pages; of a folder, its kept listing.
    case content(ItemID)
    case entry(parent: ItemID, name: ItemName)
    /// Like `entry`, of an item that is gone: whoever watches it hears so, and a folder counts as
    /// removed for who is in it, under whatever name it were found later.
    case deletion(parent: ItemID, name: ItemName, item: ItemID)
}

extension ItemChange {
    /// The item or folder whose notifications must stay in order with those of this change.
    var orderKey: ItemID {
        switch self {
        case .attributes(let id), .state(let id), .content(let id), .listed(let id): id
        case .entryAppeared(let parent, _), .entryReplaced(let parent, _): parent
        case .entryVanished(let parent, _, _, _, _): parent
        }
    }

    /// A changed entry changes its folder too: the kernel marks the folder only if it knew the
    /// name, so its times and kept listing are dropped explicitly.
    var notifications: [KernelNotification] {
        switch self {
        case .listed, .state:
            []
        case .attributes(let id):
            [.attributes(id)]
        case .content(let id):
            [.content(id)]
        case .entryAppeared(let parent, let name), .entryReplaced(let parent, let name):
            [.entry(parent: parent, name: name), .content(parent)]
        case .entryVanished(let parent, let name, let item, _, isGone: true):
            [.deletion(parent: parent, name: name, item: item), .content(parent)]
        case .entryVanished(let parent, let name, _, _, isGone: false):
            [.entry(parent: parent, name: name), .content(parent)]
        }
    }
}

/// Tells the kernel what has changed elsewhere, from a few threads of its own.
///
/// A notification can block in the kernel behind a request that is not yet answered, so it is
/// never sent from a thread that answers requests, nor with a mutex held. What concerns one
/// folder or one item is sent in order, by one thread. A notification that waits already is not
/// queued twice, so the queue never outgrows the number of things it can name; that is right
/// because the catalog changed before the news of it.
final class KernelNotifier: Sendable {
    /// Sends one notification; 0, or the errno the kernel answered with.
    typealias Sink = @Sendable (KernelNotification) -> Int32

    private let lanes: [NotificationLane]
    private let threads = DispatchGroup()
    private let watchdog = DispatchQueue(label: "cloudfs.notify-watchdog")
    private let stuckAfter: Duration
    private let isWatched = Mutex(false)
    private let logger: Logger

    init(
        width: Int = 3,
        stuckAfter: Duration = .seconds(5),
        logger: Logger,
        sink: @escaping Sink
    ) {
        self.stuckAfter = stuckAfter
        self.logger = logger
        lanes = (0..<width).map { _ in NotificationLane(logger: logger, sink: sink) }
    }

    /// Starts the threads, which begin with what was queued before.
    ///
    /// - Parameter prepare: Called first on each of them.
    func start(_ prepare: @escaping @Sendable () -> Void = {}) {
        for (index, lane) in lanes.enumerated() {
            threads.enter()
            OwnThread.start("cloudfs-notify\(index)") { [threads] in
                prepare()
                lane.run()
                threads.leave()
            }
        }
    }

    /// Queues what `changes` mean to the kernel, without ever blocking.
    func enqueue(_ changes: [ItemChange]) {
        for change in changes {
            let index = Int(change.orderKey.rawValue.magnitude % UInt64(lanes.count))
            for notification in change.notifications { lanes[index].enqueue(notification) }
        }
        watch()
    }

    /// Waits until everything that was queued before has been sent, or dropped.
    func settled() async {
        for lane in lanes { await lane.settled() }
    }

    /// Drops what is queued and takes nothing more; a notification under way goes on.
    func close() {
        for lane in lanes { lane.close() }
    }

    /// Waits until no thread will send anything any more.
    ///
    /// - Returns: Whether that is so; if not, the kernel still holds one of them.
    func waitUntilStopped(within limit: DispatchTimeInterval) -> Bool {
        threads.wait(timeout: .now() + limit) == .success
    }

    // MARK: - Watchdog

    /// Looks again after a while, as long as anything is under way.
    private func watch() {
        let begins = isWatched.withLock { isWatched in
            defer { isWatched = true }
            return !isWatched
        }
        guard begins else { return }
        let components = stuckAfter.components
        let delay = Double(components.seconds) + Double(components.attoseconds) / 1e18
        watchdog.asyncAfter(deadline: .now() + delay) { [weak self] in
            self?.inspect()
        }
    }

    private func inspect() {
        isWatched.withLock { $0 = false }
        let now = ContinuousClock.now
        for stuck in lanes.compactMap({ $0.stuck(since: now - stuckAfter) }) {
            logger.warning(
                "A notification has been stuck in the kernel; some request is not answered.",
                metadata: ["notification": "\(stuck)"]
            )
        }
        if lanes.contains(where: \.isBusy) { watch() }
    }
}

/// One thread's notifications, in order.
private final class NotificationLane: Sendable {
    private struct State {
        var queue: [KernelNotification] = []
        var next = 0
        var queued: Set<KernelNotification> = []
        var current: (notification: KernelNotification, began: ContinuousClock.Instant)?
        var isClosed = false
        var isReported = false
        /// How many were queued so far, and how many of them are done with.
        var arrived: UInt64 = 0
        var done: UInt64 = 0
        /// Who waits until so many are.
        var waiting: [(count: UInt64, continuation: CheckedContinuation<Void, Never>)] = []

        /// Those whose time has come.
        mutating func takeSettled() -> [CheckedContinuation<Void, Never>] {
            let ready = waiting.filter { isClosed || $0.count <= done }
            waiting.removeAll { isClosed || $0.count <= done }
            return ready.map(\.continuation)
        }

        mutating func take() -> KernelNotification? {
            guard next < queue.count else { return nil }
            let notification = queue[next]
            next += 1
            if next == queue.count || next >= 1024 {
                queue.removeFirst(next)
                next = 0
            }
            queued.remove(notification)
            return notification
        }

        /// Whether a queued notification already does what `notification` would.
        func covers(_ notification: KernelNotification) -> Bool {
            if queued.contains(notification) { return true }
            guard case .attributes(let id) = notification else { return false }
            return queued.contains(.content(id))
        }
    }

    private let state = Mutex(State())
    private let work = DispatchSemaphore(value: 0)
    private let sink: KernelNotifier.Sink
    private let logger: Logger

    init(logger: Logger, sink: @escaping KernelNotifier.Sink) {
        self.logger = logger
        self.sink = sink
    }

    var isBusy: Bool { state.withLock { $0.current != nil || $0.next < $0.queue.count } }

    func enqueue(_ notification: KernelNotification) {
        let isNew = state.withLock { state in
            guard !state.isClosed, !state.covers(notification) else { return false }
            state.queued.insert(notification)
            state.queue.append(notification)
            state.arrived += 1
            return true
        }
        if isNew { work.signal() }
    }

    func close() {
        let settled = state.withLock { state in
            state.isClosed = true
            state.queue.removeAll()
            state.queued.removeAll()
            state.next = 0
            return state.takeSettled()
        }
        for continuation in settled { continuation.resume() }
        work.signal()
    }

    /// Waits until what is queued now has been sent, or dropped.
    func settled() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.isClosed || state.done == state.arrived { return true }
                state.waiting.append((state.arrived, continuation))
                return false
            }
            if isOver { continuation.resume() }
        }
    }

    /// Sends until closed.
    func run() {
        while true {
            work.wait()
            let (notification, isClosed) = state.withLock { state in
                let notification = state.take()
                state.current = notification.map { ($0, .now) }
                state.isReported = false
                return (notification, state.isClosed)
            }
            if let notification {
                report(send(notification), of: notification)
                let settled = state.withLock { state in
                    state.current = nil
                    state.done += 1
                    return state.takeSettled()
                }
                for continuation in settled { continuation.resume() }
            } else if isClosed {
                return
            }
        }
    }

    private func send(_ notification: KernelNotification) -> Int32 {
        do throws(CloudFSError) { try FaultPoint.notifyTaken.pass() } catch { return EIO }
        return sink(notification)
    }

    /// What has been under way since before `moment`, told once.
    func stuck(since moment: ContinuousClock.Instant) -> KernelNotification? {
        state.withLock { state in
            guard let current = state.current, current.began <= moment, !state.isReported else {
                return nil
            }
            state.isReported = true
            return current.notification
        }
    }

    /// The kernel need not know an item or a name (ENOENT), may still use a folder (ENOTEMPTY,
    /// EBUSY), or may be gone (ENOTCONN, ENODEV): none of that is a failure.
    private func report(_ number: Int32, of notification: KernelNotification) {
        guard ![0, ENOENT, ENOTEMPTY, EBUSY, ENOTCONN, ENODEV].contains(number) else { return }
        logger.info(
            "The kernel refused a notification; what it shows of the item may be old.",
            metadata: [
                "notification": "\(notification)", "reason": "\(String(cString: strerror(number)))",
            ]
        )
    }
}

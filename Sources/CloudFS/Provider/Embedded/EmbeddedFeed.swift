import Synchronization

/// What an embedded provider has heard of changes since it began to listen.
///
/// A folder is remembered with the number of its latest change only, so that the memory is bounded
/// by the folders that change and a page never names one twice. When there are too many, all is
/// forgotten and every older anchor is answered with the whole container.
final class EmbeddedFeed: Sendable {
    private enum Phase {
        /// Watches are still being set; a change could be missed.
        case starting
        case listening
        case ended(CloudFSError)
    }

    private struct State {
        var phase = Phase.starting
        var sequence: UInt64 = 0
        /// Anchors below this one are no longer known.
        var floor: UInt64 = 0
        var latest: [ChangeHint: UInt64] = [:]
        var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var nextWaiter: UInt64 = 0
        /// Moves with everything a waiter may wait for.
        var pulse: UInt64 = 0
    }

    private enum Step {
        case page(ChangePage)
        case wait(pulse: UInt64)
    }

    private let instance = EmbeddedText.random()
    private let state = Mutex(State())

    /// How many folders are remembered one by one.
    static let rememberedCount = 4_096

    /// Whether the feed can still tell of changes.
    var isAlive: Bool {
        state.withLock { state in
            if case .ended = state.phase { return false }
            return true
        }
    }

    /// Waits until something changed after `anchor`.
    func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        while true {
            guard !Task.isCancelled else {
                throw CloudFSError(.cancelled, "waiting for changes was cancelled")
            }
            switch try step(after: anchor) {
            case .page(let page): return page
            case .wait(let pulse): await wait(since: pulse)
            }
        }
    }

    // MARK: - For the watcher

    /// Every folder is watched from now on, or its changes are accounted for otherwise.
    func begin() {
        wake { state in
            if case .starting = state.phase { state.phase = .listening }
        }
    }

    func publish(_ hints: Set<ChangeHint>) {
        guard !hints.isEmpty else { return }
        wake { state in
            state.sequence += 1
            if state.latest.count + hints.count > Self.rememberedCount {
                state.latest = [.subtree(.root): state.sequence]
                state.floor = state.sequence
            } else {
                for hint in hints { state.latest[hint] = state.sequence }
            }
        }
    }

    /// Tells everybody who waits, or will, why there is nothing to hear any more.
    func end(_ error: CloudFSError) {
        wake { $0.phase = .ended(error) }
    }

    // MARK: - Waiting

    private func step(after anchor: SyncAnchor?) throws(CloudFSError) -> Step {
        let result = state.withLock { state -> Result<Step, CloudFSError> in
            switch state.phase {
            case .ended(let error): return .failure(error)
            case .starting: return .success(.wait(pulse: state.pulse))
            case .listening: break
            }
            let current = SyncAnchor("\(instance)-\(state.sequence)")
            guard let anchor else {
                return .success(.page(ChangePage(hints: [], anchor: current)))
            }
            guard let seen = sequence(of: anchor), seen <= state.sequence, seen >= state.floor
            else {
                return .success(.page(ChangePage(hints: [.subtree(.root)], anchor: current)))
            }
            let hints = state.latest.filter { $0.value > seen }.map(\.key)
            guard !hints.isEmpty else { return .success(.wait(pulse: state.pulse)) }
            return .success(.page(ChangePage(hints: hints, anchor: current)))
        }
        return try result.get()
    }

    private func sequence(of anchor: SyncAnchor) -> UInt64? {
        let parts = anchor.rawValue.split(separator: "-")
        guard parts.count == 2, parts[0] == instance else { return nil }
        return UInt64(parts[1])
    }

    private func wait(since pulse: UInt64) async {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.pulse == pulse else { return false }
                    state.waiting[number] = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
                // The handler below may have run before there was anything to resume.
                if mustWait, Task.isCancelled { resume(number) }
            }
        } onCancel: {
            resume(number)
        }
    }

    private func resume(_ number: UInt64) {
        state.withLock { $0.waiting.removeValue(forKey: number) }?.resume()
    }

    private func wake(_ change: (inout State) -> Void) {
        let waiting = state.withLock { state in
            change(&state)
            state.pulse += 1
            defer { state.waiting = [:] }
            return state.waiting
        }
        for continuation in waiting.values { continuation.resume() }
    }
}

/// The feed of the moment: begins with the first question and anew after the root was lost.
final class EmbeddedFeeds: Sendable {
    private struct Running {
        var feed: EmbeddedFeed
        var watcher: EmbeddedWatcherThread
    }

    private let gate: EmbeddedGate
    private let running = Mutex<Running?>(nil)

    /// Of the watchers that are begun from now on; tests make them small.
    let limits = Mutex(EmbeddedWatchLimits())

    /// What the watcher's thread does before it reads events; tests hold it there.
    let beforeReading: Mutex<(@Sendable () -> Void)?> = Mutex(nil)

    init(gate: EmbeddedGate) {
        self.gate = gate
    }

    func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        let feed = try current()
        return try await feed.changes(after: anchor)
    }

    func stop() {
        let last = running.withLock { running in
            defer { running = nil }
            return running
        }
        last?.watcher.stop()
        last?.feed.end(CloudFSError(.cancelled, "the provider was closed"))
    }

    private func current() throws(CloudFSError) -> EmbeddedFeed {
        let result = running.withLock { running -> Result<EmbeddedFeed, CloudFSError> in
            if let running, running.feed.isAlive { return .success(running.feed) }
            running?.watcher.stop()
            let feed = EmbeddedFeed()
            do throws(CloudFSError) {
                let gate = gate
                let bounds = limits.withLock { $0 }
                let hook = beforeReading.withLock { $0 }
                let watcher = try EmbeddedWatcherThread { wakeUp in
                    EmbeddedWatcher(
                        gate: gate,
                        feed: feed,
                        wakeUp: wakeUp,
                        limits: bounds,
                        beforeReading: hook
                    ).run()
                }
                running = Running(feed: feed, watcher: watcher)
                return .success(feed)
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}

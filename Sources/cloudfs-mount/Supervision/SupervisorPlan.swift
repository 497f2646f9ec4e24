import CloudFS
import Glibc

/// What a supervisor does about its workers: it decides, and does nothing itself.
///
/// There is one worker that serves the drive, and while another takes over a next one. A worker
/// says how it ends; one that is lost without a word was killed or has crashed.
struct SupervisorPlan {
    enum Event: Sendable {
        case began
        case report(worker: Int, WorkerReport)
        case lost(worker: Int, how: String)
        /// There is no process of that worker, and why.
        case unstarted(worker: Int, CloudFSError)
        /// The worker that was to wait is to start now.
        case due(worker: Int)
        case signalled(Int32)
        /// The launcher, who waits for the drive, is gone.
        case abandoned
        case deadline(worker: Int)
    }

    enum Action {
        /// Start a worker, which is to stand by and then to serve in time.
        case start(worker: Int, within: Duration?)
        /// Say that the worker is due after this time.
        case wait(worker: Int, Duration)
        /// Have the worker mount the drive, or go on with its mount.
        case handOver(worker: Int)
        case kill(worker: Int)
        case order(worker: Int, SupervisorOrder)
        /// Say that the drive is usable.
        case announce
        case tell(String)
        /// Tell the service manager.
        case status(String)
        case stopping(String)
        /// Close the device of the mount.
        case letGo
        /// Take the mount away, whatever state it is in; nobody hangs on it afterwards.
        case removeMount
        /// Take away a mount that nobody serves, if there is one.
        case removeDeadMount
        case exit(status: Int32, CloudFSError?)
    }

    private struct Serving {
        var worker: Int
        var isReady = false
        /// Whether it began with the mount of another.
        var hasAdopted: Bool
        /// Whether its mount is gone, and it only sends what is queued.
        var isOver = false
        var lastWord: WorkerReport?
    }

    private enum Mount {
        case none
        /// A worker has the order to mount, and did not say that kernel and drive agree.
        case begun
        case resumable
        /// The kernel cannot send requests again: a next worker has to mount anew.
        case unresumable
    }

    private enum Purpose {
        case serving
        /// Another worker is to take over: the present one is killed when the next stands by.
        case replacing
        /// The same where the mount cannot be taken over: the present one ends, and takes it along.
        case remounting
        case ending
    }

    /// How long a drive may be without a worker that answers.
    static let longestAbsence = Duration.seconds(30)
    /// How many workers may crash within a minute.
    static let mostCrashes = 5
    private static let crashPeriod = Duration.seconds(60)

    private var serving: Serving?
    /// A worker that was started and is to take over.
    private var next: (worker: Int, standsBy: Bool)?
    /// Of the next worker, once it stands by.
    private var nextFormat = ""
    private var mount = Mount.none
    /// What a worker must be able to go on with.
    private var format = ""
    private var purpose = Purpose.serving
    private var isAnnounced = false
    private var hasRemounted = false
    private var count = 0
    private var crashes: [Duration] = []

    /// What to do about `event`.
    ///
    /// - Parameter now: The time since some fixed moment.
    mutating func decide(_ event: Event, at now: Duration) -> [Action] {
        switch event {
        case .began: start(within: nil)
        case .report(let worker, let report): hear(worker, report)
        case .lost(let worker, let how): lose(worker, how, now)
        case .unstarted(let worker, let error): lack(worker, error, now)
        case .due(let worker): startLate(worker)
        case .signalled(let signal): end(signal)
        case .abandoned: end(SIGTERM)
        case .deadline(let worker): miss(worker)
        }
    }

    private mutating func start(within limit: Duration?) -> [Action] {
        count += 1
        next = (count, false)
        return [.start(worker: count, within: limit)]
    }

    // MARK: - Reports

    private mutating func hear(_ worker: Int, _ report: WorkerReport) -> [Action] {
        if case .standsBy(let format) = report {
            guard next?.worker == worker else { return [] }
            next?.standsBy = true
            nextFormat = format
            return standBy(worker)
        }
        guard serving?.worker == worker else { return [] }
        switch report {
        case .standsBy: return []
        case .note(let sentence): return [.tell(sentence)]
        case .mounted(let isResumable):
            mount = isResumable ? .resumable : .unresumable
            return []
        case .ready: return becomeReady()
        case .status(let sentence): return [.status(sentence)]
        case .stopping(let reason): return purpose == .remounting ? [] : [.stopping(reason)]
        case .over: return becomeOver(worker)
        case .restart: return restart(asker: worker)
        case .failed, .ended:
            serving?.lastWord = report
            return []
        }
    }

    private mutating func standBy(_ worker: Int) -> [Action] {
        guard let serving else { return handOver() }
        guard nextFormat == format else {
            next = nil
            purpose = .serving
            let reason =
                "the new version cannot go on with this mount; to upgrade, unmount the drive and "
                + "mount it again"
            return [.kill(worker: worker), .order(worker: serving.worker, .goOn(reason: reason))]
        }
        // Its loss is what the next one waits for.
        return [.kill(worker: serving.worker)]
    }

    private mutating func handOver() -> [Action] {
        guard let next else { return [] }
        var actions: [Action] = []
        if mount == .resumable, nextFormat != format {
            actions = [.tell("another version of the drive's daemon mounts it anew")] + removal()
        }
        format = nextFormat
        serving = Serving(worker: next.worker, hasAdopted: mount == .resumable)
        if mount == .none { mount = .begun }
        self.next = nil
        return actions + [.handOver(worker: next.worker)]
    }

    private mutating func becomeReady() -> [Action] {
        serving?.isReady = true
        hasRemounted = false
        guard isAnnounced else {
            isAnnounced = true
            return [.announce]
        }
        return [.tell("another worker has taken over the drive")]
    }

    /// The mount is gone, and nobody is to mount the drive anew but where that was the way to
    /// restart it.
    private mutating func becomeOver(_ worker: Int) -> [Action] {
        mount = .none
        serving?.isOver = true
        guard purpose == .replacing else { return [.letGo] }
        purpose = .serving
        var actions = [Action.letGo]
        if let next { actions.append(.kill(worker: next.worker)) }
        next = nil
        return actions + [.order(worker: worker, .goOn(reason: "the drive was unmounted"))]
    }

    private mutating func restart(asker: Int) -> [Action] {
        guard purpose == .serving, next == nil, isAnnounced, serving?.isOver == false else {
            return [
                .order(worker: asker, .goOn(reason: "the drive is changing its daemon or ends"))
            ]
        }
        guard mount == .resumable else {
            purpose = .remounting
            return [.order(worker: asker, .end(signal: SIGTERM))]
        }
        purpose = .replacing
        return start(within: Self.longestAbsence)
    }

    // MARK: - Losses

    private mutating func lose(_ worker: Int, _ how: String, _ now: Duration) -> [Action] {
        if next?.worker == worker { return loseNext(how, now) }
        guard let lost = serving, lost.worker == worker else { return [] }
        serving = nil
        switch (purpose, lost.lastWord) {
        case (.remounting, .ended(_)?):
            purpose = .serving
            return removal() + start(within: Self.longestAbsence)
        case (_, .ended(let status)?): return removal() + [.exit(status: status, nil)]
        case (_, .failed(let error)?): return fail(error, lost)
        case (.replacing, _):
            purpose = .serving
            return next?.standsBy == true ? handOver() : []
        case (.ending, _):
            return removal() + [.exit(status: 1, Self.failure("ended with \(how) before its time"))]
        case _ where lost.isOver:
            return [
                .exit(status: 1, Self.failure("ended with \(how) after the drive was unmounted"))
            ]
        case (.serving, _), (.remounting, _):
            guard isAnnounced else {
                let sentence = "the daemon ended with \(how) before the drive was usable"
                return removal() + [.exit(status: 1, CloudFSError(.internalFailure, sentence))]
            }
            purpose = .serving
            let reason = "the drive's worker ended with \(how)"
            return lost.isReady ? replace(reason, now) : tryLater(reason, now)
        }
    }

    /// Starts another worker in place of one that served, unless they crash over and over.
    private mutating func replace(_ reason: String, _ now: Duration) -> [Action] {
        if let last = giveUpIfEnough(reason, now) { return last }
        let actions: [Action] = [.tell("\(reason); another one takes over")]
        return actions + (mount == .resumable ? [] : removal()) + start(within: Self.longestAbsence)
    }

    /// Has another worker started after a pause, as the last one came to nothing.
    ///
    /// What it lacked, a thread, memory or a program file that is just being written, may be there
    /// a little later. Tried again at once, all tries would be over within a second.
    private mutating func tryLater(_ reason: String, _ now: Duration) -> [Action] {
        if let last = giveUpIfEnough(reason, now) { return last }
        count += 1
        next = (count, false)
        let pause = crashes.count
        var actions: [Action] = [.tell("\(reason); it is tried again in \(pause) s")]
        if mount != .resumable { actions += removal() }
        return actions + [.wait(worker: count, .seconds(pause))]
    }

    /// Counts a loss; what to do if it was the last that is borne.
    private mutating func giveUpIfEnough(_ reason: String, _ now: Duration) -> [Action]? {
        crashes = crashes.filter { now - $0 < Self.crashPeriod } + [now]
        guard crashes.count >= Self.mostCrashes else { return nil }
        return giveUp("\(reason), the \(Self.mostCrashes)th time in a minute")
    }

    private mutating func loseNext(_ how: String, _ now: Duration) -> [Action] {
        next = nil
        if let serving { return keep(serving, "the new daemon ended with \(how)") }
        guard isAnnounced else {
            let sentence = "the daemon ended with \(how) before the drive was usable"
            return [.exit(status: 1, CloudFSError(.internalFailure, sentence))]
        }
        guard purpose != .ending else { return removal() + [.exit(status: 1, nil)] }
        return tryLater("the drive's next worker ended with \(how)", now)
    }

    /// Whoever asked for another worker hears why there is none.
    private mutating func keep(_ serving: Serving, _ reason: String) -> [Action] {
        purpose = .serving
        let sentence = "\(reason); the old one goes on"
        return [.order(worker: serving.worker, .goOn(reason: sentence))]
    }

    /// A worker that could not be started.
    private mutating func lack(_ worker: Int, _ error: CloudFSError, _ now: Duration) -> [Action] {
        guard next?.worker == worker else { return [] }
        next = nil
        if let serving { return keep(serving, error.message) }
        guard isAnnounced else { return [.exit(status: 1, error)] }
        return tryLater(error.message, now)
    }

    private func startLate(_ worker: Int) -> [Action] {
        guard next?.worker == worker else { return [] }
        return [.start(worker: worker, within: Self.longestAbsence)]
    }

    /// A worker that said why it cannot serve; one that could not go on may be able to mount anew.
    private mutating func fail(_ error: CloudFSError, _ failed: Serving) -> [Action] {
        guard isAnnounced, failed.hasAdopted, !failed.isOver, !hasRemounted, purpose != .ending
        else {
            return removal() + [.exit(status: 1, error)]
        }
        hasRemounted = true
        purpose = .serving
        let sentence =
            "the drive is mounted anew, as its next worker cannot go on: \(error.message)"
        return [.tell(sentence)] + removal() + start(within: Self.longestAbsence)
    }

    private mutating func miss(_ worker: Int) -> [Action] {
        let seconds = Self.longestAbsence.components.seconds
        if let next, next.worker == worker {
            guard let serving else {
                return [.kill(worker: worker)] + giveUp("no worker came up within \(seconds) s")
            }
            self.next = nil
            return [.kill(worker: worker)]
                + keep(serving, "the new daemon did not come up within \(seconds) s")
        }
        guard let serving, serving.worker == worker, !serving.isReady else { return [] }
        return [.kill(worker: worker)] + giveUp("no worker answered within \(seconds) s")
    }

    private mutating func giveUp(_ reason: String) -> [Action] {
        removal() + [.exit(status: 1, CloudFSError(.internalFailure, "\(reason); the drive ends"))]
    }

    private mutating func removal() -> [Action] {
        defer { mount = .none }
        return switch mount {
        case .none: []
        case .begun: [.removeDeadMount]
        case .resumable, .unresumable: [.letGo, .removeMount]
        }
    }

    private static func failure(_ what: String) -> CloudFSError {
        CloudFSError(.internalFailure, "the drive's worker \(what)")
    }

    // MARK: - The end

    private mutating func end(_ signal: Int32) -> [Action] {
        let isFirst = purpose != .ending
        purpose = .ending
        var actions: [Action] = []
        if isFirst, let next {
            self.next = nil
            actions.append(.kill(worker: next.worker))
        }
        guard let serving else { return actions + removal() + [.exit(status: 0, nil)] }
        return actions + [.order(worker: serving.worker, .end(signal: signal))]
    }
}

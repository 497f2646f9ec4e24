import Logging
import Synchronization

/// Files that are to come whole after a pause.
struct HeldFiles: Sendable {
    /// Whether that is so whatever the policy says, by the files' ids.
    var forced: [ItemID: Bool] = [:]

    /// What is left out comes when it is read again, or before it is sent.
    private static let most = 64

    /// - Parameter isForced: `nil` for a file that is not to come whole.
    mutating func note(_ id: ItemID, _ isForced: Bool?) {
        guard isForced == nil || forced[id] != nil || forced.count < Self.most else { return }
        forced[id] = isForced
    }
}

/// During a pause files get what is read, and nothing beyond it.
extension Hydrator {
    /// Tells the plan of a file whether there is a pause, if it does not know.
    ///
    /// - Returns: What follows from that.
    func heedPause(_ state: inout OpenFile.State) -> [HydrationPlan.Action] {
        // What was written on needs the rest of its version, which the cloud may lose meanwhile.
        let isToBeHeld = connection.isPaused && !state.isDirty
        guard let isHeld = state.plan?.isHeld, isHeld != isToBeHeld else { return [] }
        return files.handle(.hold(isToBeHeld), &state, files.clocks.elapsed())
    }

    /// What of `actions` is to be done during a pause.
    ///
    /// Whatever leads to a fetch comes by here: plans need not be told when a pause begins.
    func holding(
        _ actions: [HydrationPlan.Action],
        of file: OpenFile
    ) -> [HydrationPlan.Action] {
        let (more, isForced) = file.state.withLock {
            state -> ([HydrationPlan.Action], Bool?) in
            let more = heedPause(&state)
            guard let plan = state.plan, plan.isHeld, plan.isCompleting, !plan.isComplete,
                !plan.isOutdated
            else { return (more, nil) }
            return (more, plan.isForced)
        }
        held.withLock { $0.note(file.id, isForced) }
        guard !more.isEmpty else { return actions }
        let begun = actions.filter { action in
            guard case .fetch(let request, _) = action else { return true }
            return !more.contains(.cancel(request))
        }
        return begun + more
    }

    /// Goes on, after a pause, with the files that are to come whole.
    ///
    /// May block on the disk.
    func goOn() {
        let held = held.withLock { held in
            defer { held = HeldFiles() }
            return held.forced
        }
        for (id, isForced) in held {
            do throws(CloudFSError) {
                let file = try files.acquire(id)
                defer { releaseNow(file) }
                perform(try goOn(file, isForced: isForced), on: file)
            } catch {
                logger.debug(
                    "a file does not go on after a pause",
                    metadata: ["item.id": "\(id)", "error": "\(error)"]
                )
            }
        }
    }

    private func goOn(
        _ file: OpenFile,
        isForced: Bool
    ) throws(CloudFSError) -> [HydrationPlan.Action] {
        try file.state.withLock { state throws(CloudFSError) -> [HydrationPlan.Action] in
            // It may have been evicted meanwhile.
            guard state.plan != nil, state.generation != 0 else { return [] }
            _ = try files.writableContent(of: &state, file.id)
            let now = files.clocks.elapsed()
            return heedPause(&state) + files.handle(.completeAll(forced: isForced), &state, now)
        }
    }
}

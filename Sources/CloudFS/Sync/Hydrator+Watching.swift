import Synchronization

/// Files that somebody waits for, each once.
struct WatchedFiles: Sendable {
    var files: [OpenFile] = []
    /// Whether a task looks after them, until there are no more.
    var areWatched = false
}

/// Readers for whom nothing comes for too long are told so.
extension Hydrator {
    /// Looks after stalled readers of a file while there are any.
    func watch(_ file: OpenFile) {
        let isNews = file.state.withLock { state in
            defer { state.isWatched = true }
            return !state.isWatched
        }
        guard isNews else { return }
        files.retain(file)
        let begins = watched.withLock { watched in
            watched.files.append(file)
            defer { watched.areWatched = true }
            return !watched.areWatched
        }
        guard begins else { return }
        let pause = max(.milliseconds(50), files.hydration.settings.stallTimeout / 8)
        Task {
            repeat {
                // Cancelled never: the task ends when nobody waits any more.
                try? await Task.sleep(for: pause)
                release(lookAfterWatched())
            } while isWatching()
        }
    }

    /// - Returns: Files that nobody waits for any more.
    private func lookAfterWatched() -> [OpenFile] {
        let looked = watched.withLock { watched in
            defer { watched.files = [] }
            return watched.files
        }
        var (rest, done) = ([OpenFile](), [OpenFile]())
        for file in looked {
            let (actions, goesOn) = file.state.withLock { state in
                let now = files.clocks.elapsed()
                let actions = files.handle(.expireStalled(.timedOut), &state, now)
                state.isWatched = state.plan?.waiters.isEmpty == false
                return (actions, state.isWatched)
            }
            perform(actions, on: file)
            if goesOn { rest.append(file) } else { done.append(file) }
        }
        watched.withLock { $0.files += rest }
        return done
    }

    private func isWatching() -> Bool {
        watched.withLock { watched in
            watched.areWatched = !watched.files.isEmpty
            return watched.areWatched
        }
    }

    private func release(_ done: [OpenFile]) {
        guard !done.isEmpty else { return }
        pool.start { for file in done { self.releaseNow(file) } }
    }
}

import CLinux
import Foundation
import Glibc

/// A program that is run without a shell, with nothing of this process but what it is given, and
/// within bounds of time and output.
struct ChildRun: Sendable {
    /// The program, by its path or looked up in `PATH`, and its arguments.
    var words: [String]
    var environment: [String: String]
    /// How long it may take; then it is killed with all it started.
    var limit: Duration
    /// Most bytes that it may print.
    var outputLimit = 64 << 10
    /// Asked several times a second; when it says yes the program is killed.
    var isCancelled: @Sendable () -> Bool = { false }

    /// What the program reads from its standard input; without it there is none.
    struct Input: Sendable {
        /// At most what a pipe takes at once: 64 KiB.
        var bytes: [UInt8]
        /// Called with the program's process before it gets any of it.
        var begun: @Sendable (pid_t) -> Void
    }

    var input: Input?

    enum Failure: Error {
        case noPipe
        case notStarted(reason: String)
        /// Or it printed too much, or was cancelled; it was killed.
        case tookTooLong
        /// With the status of `waitpid`, which is not 0.
        case ended(status: Int32)
    }

    /// Runs the program; blocks as long as it runs.
    ///
    /// - Returns: What it printed.
    func output() throws(Failure) -> [UInt8] {
        let (reading, child, errorNumber) = start()
        guard reading >= 0 else { throw .noPipe }
        defer { close(reading) }
        guard errorNumber == 0 else {
            throw .notStarted(reason: String(cString: strerror(errorNumber)))
        }
        let end = ContinuousClock.now + limit
        let output = read(reading, until: end)
        let status = output == nil ? nil : wait(for: child, until: end)
        guard let output, let status else {
            // The group: a program that a script started goes with it.
            kill(-child, SIGKILL)
            _ = waitpid(child, nil, 0)
            throw .tookTooLong
        }
        guard status == 0 else { throw .ended(status: status) }
        return output
    }

    /// Starts the program with a pipe for its output; a `reading` of -1 means that there is none.
    private func start() -> (reading: Int32, child: pid_t, errorNumber: Int32) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return (-1, 0, errno) }
        // The child's copy has another number; these must not reach any other child.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[1]) }
        var given: [Int32] = [-1, -1]
        if input != nil {
            guard pipe(&given) == 0 else {
                close(ends[0])
                return (-1, 0, errno)
            }
            for end in given { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        }
        defer { for end in given where end >= 0 { close(end) } }
        let (child, errorNumber) = spawn(input: given[0], output: ends[1])
        if errorNumber == 0, let input { give(input, to: child, given[1]) }
        return (ends[0], child, errorNumber)
    }

    /// A program that is gone already, or takes less, is told by its own end.
    private func give(_ input: Input, to child: pid_t, _ descriptor: Int32) {
        precondition(input.bytes.count <= 64 << 10, "a pipe would make this wait")
        input.begun(child)
        _ = write(descriptor, input.bytes, input.bytes.count)
    }

    private func spawn(input: Int32, output: Int32) -> (child: pid_t, errorNumber: Int32) {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        if input >= 0 {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        // The child is to have nothing of this process, also what others forgot to mark.
        clinux_spawn_close_from(&actions, 3)
        // The mount's own threads block signals; the child gets them as a shell would give them.
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
        )
        var arguments = words.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var child: pid_t = 0
        let errorNumber = posix_spawnp(
            &child,
            words[0],
            &actions,
            &attributes,
            &arguments,
            &variables
        )
        return (child, errorNumber)
    }

    /// What comes until the other end is closed; `nil` when it takes too long or is too much.
    private func read(_ descriptor: Int32, until end: ContinuousClock.Instant) -> [UInt8]? {
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4_096)
        while output.count <= outputLimit {
            let rest = ContinuousClock.now.duration(to: end)
            guard rest > .zero, !isCancelled() else { return nil }
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let milliseconds = rest.components.seconds * 1_000 + 1
            let ready = poll(&waiting, 1, Int32(clamping: min(milliseconds, 200)))
            guard ready > 0 else { continue }
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count == 0 { return output }
            if count > 0 {
                output += piece[..<count]
            } else if errno != EINTR {
                return nil
            }
        }
        return nil
    }

    /// How the child ended; `nil` when it has not.
    private func wait(for child: pid_t, until end: ContinuousClock.Instant) -> Int32? {
        var status: Int32 = 0
        while ContinuousClock.now < end, !isCancelled() {
            let ended = waitpid(child, &status, WNOHANG)
            if ended == child { return status }
            if ended < 0, errno != EINTR { return nil }
            // A child that closed its output and lives on is rare; nothing tells of its end.
            usleep(5_000)
        }
        return nil
    }
}

import Synchronization

/// Tells which programs read, what for, and what that has cost.
///
/// Who asks is looked up where bytes are absent, and once for each open: one link of `/proc` is
/// read, the rest is remembered for a moment.
final class ReadingPrograms: Sendable {
    /// A program that asks for bytes.
    struct Program: Sendable, Hashable {
        var name: String
        var purpose: ProgramPurpose
        /// Whether it gets only what is here.
        var isRefused: Bool

        /// One that ended, or runs where its name cannot be seen.
        static let unknown = Program(name: "?", purpose: .person, isRefused: false)
    }

    private struct Known {
        var executable: String?
        var program: Program
        var since: Duration
    }

    let rules: ProgramRules
    let activity = ProgramActivity()
    private let elapsed: @Sendable () -> Duration
    private let known = Mutex<[Int32: Known]>([:])

    /// For how long a thread with the same executable counts as the same program: scripts of one
    /// interpreter follow each other in one process only by `exec`.
    private static let memory = Duration.seconds(2)
    private static let capacity = 256

    init(rules: ProgramRules = ProgramRules(), elapsed: @escaping @Sendable () -> Duration) {
        self.rules = rules
        self.elapsed = elapsed
    }

    /// The program of a thread.
    ///
    /// - Parameter opener: Who opened the file, for a read that the kernel names nobody for.
    func program(of thread: Int32, openedBy opener: Int32 = 0) -> Program {
        let thread = thread > 0 ? thread : opener
        guard thread > 0 else { return .unknown }
        let executable = RunningProgram.executable(of: thread)
        let now = elapsed()
        let found = known.withLock { known -> Program? in
            guard let entry = known[thread], entry.executable == executable, executable != nil,
                now - entry.since < Self.memory
            else { return nil }
            return entry.program
        }
        if let found { return found }
        guard let running = RunningProgram(thread: thread, executable: executable) else {
            return .unknown
        }
        let purpose = rules.purpose(of: running)
        let program = Program(
            name: running.name,
            purpose: purpose,
            isRefused: rules.refuses(running, for: purpose)
        )
        known.withLock { known in
            if known.count >= Self.capacity { known = [:] }
            known[thread] = Known(executable: executable, program: program, since: now)
        }
        return program
    }

    /// What a refused read is answered with.
    func refusal(of program: Program, _ item: ItemID) -> CloudFSError {
        CloudFSError(
            rules.refusal.code,
            "\(program.name) gets nothing that is not here; hydration-allow lets it",
            item: item
        )
    }
}

import Synchronization

/// Which programs had bytes brought here since this process began.
///
/// Kept in memory: it is for a person who asks why something is being downloaded.
final class ProgramActivity: Sendable {
    /// What one program has caused.
    struct Counts: Sendable, Equatable {
        var purpose: ProgramPurpose
        /// Opens of files that waited for bytes.
        var files: Int64 = 0
        /// What came from the cloud for it, with what was read ahead.
        var bytes: Int64 = 0
        var refusedReads: Int64 = 0
        var last: Timestamp
    }

    /// Of how many programs is known what they did; the one that did something longest ago goes.
    static let capacity = 128

    private let counts = Mutex<[String: Counts]>([:])

    /// All programs, the last one to do something first.
    var all: [(name: String, counts: Counts)] {
        counts.withLock { $0.map { (name: $0.key, counts: $0.value) } }
            .sorted { ($1.counts.last, $0.name) < ($0.counts.last, $1.name) }
    }

    func noteFile(_ program: ReadingPrograms.Program, at now: Timestamp) {
        change(program, at: now) { $0.files += 1 }
    }

    func noteBytes(_ count: Int, for program: ReadingPrograms.Program, at now: Timestamp) {
        change(program, at: now) { $0.bytes += Int64(count) }
    }

    func noteRefusal(of program: ReadingPrograms.Program, at now: Timestamp) {
        change(program, at: now) { $0.refusedReads += 1 }
    }

    private func change(
        _ program: ReadingPrograms.Program,
        at now: Timestamp,
        _ change: (inout Counts) -> Void
    ) {
        counts.withLock { counts in
            if counts[program.name] == nil, counts.count >= Self.capacity,
                let oldest = counts.min(by: { $0.value.last < $1.value.last })
            {
                counts[oldest.key] = nil
            }
            var own = counts[program.name] ?? Counts(purpose: program.purpose, last: now)
            own.purpose = program.purpose
            own.last = now
            change(&own)
            counts[program.name] = own
        }
    }
}

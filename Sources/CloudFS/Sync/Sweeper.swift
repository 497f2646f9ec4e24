import Logging

/// Unlinks content files that the catalog durably stopped naming, and stores what could not be
/// stored before.
struct Sweeper {
    let files: OpenFiles
    let pool: BlockingPool
    let logger: Logger

    /// What one turn came to.
    private struct Turn: Sendable {
        /// Why something cannot be stored still; `nil` also if that was not tried.
        var unsettled: CloudFSError?
        /// Why another step has failed.
        var failure: CloudFSError?
        /// In which time there is something to flush.
        var rest: Duration?
        /// Whether something was unlinked, for which the catalog was flushed, and nobody may be
        /// waiting for the room.
        var mayGather = false
    }

    /// What is let go of in this time is unlinked together: that costs one flush, and not one each.
    private static let gathering = Duration.milliseconds(250)

    /// Runs until the task is cancelled.
    func run() async {
        var settling = Pauses()
        var sweeping = Pauses()
        // At the start there may be something that an earlier process kept.
        var rest: Duration? = .zero
        while !Task.isCancelled {
            let begin = files.clocks.elapsed()
            let waits = [settling.left(at: begin), sweeping.left(at: begin), rest]
            await files.catalog.leftovers.wait(atMost: waits.compactMap { $0 }.min())
            let isSettling = settling.isDue(at: files.clocks.elapsed())
            let done = await takeTurn(isSettling: isSettling)
            if isSettling { note(done.unsettled, in: &settling) }
            note(done.failure, in: &sweeping)
            rest = done.rest
            // Cancelled, the loop ends.
            if done.mayGather { try? await Task.sleep(for: Self.gathering) }
        }
    }

    private func note(_ failure: CloudFSError?, in pauses: inout Pauses) {
        if let failure, !pauses.isFailing {
            logger.error(
                "the disk does not take what is to be stored; it is tried again",
                metadata: ["error": "\(failure)"]
            )
        }
        pauses.note(isFailure: failure != nil, at: files.clocks.elapsed())
    }

    private func takeTurn(isSettling: Bool) async -> Turn {
        let files = files
        do throws(CloudFSError) {
            return try await pool.engine { Self.turn(files, isSettling: isSettling) }
        } catch {
            return Turn(failure: error)
        }
    }

    /// One step that fails keeps no other: what is unlinked may be the room that is missing.
    private static func turn(_ files: OpenFiles, isSettling: Bool) -> Turn {
        var turn = Turn()
        if isSettling {
            turn.unsettled = failure { () throws(CloudFSError) in try files.settleAgain() }
        }
        let failures = [
            failure { () throws(CloudFSError) in
                if try sweep(files) { turn.mayGather = try files.hasRoomToSpare() }
            },
            failure { () throws(CloudFSError) in try files.saveUses() },
            failure { () throws(CloudFSError) in turn.rest = try files.flushReplacing() },
            failure { () throws(CloudFSError) in
                turn.rest = [turn.rest, try files.flushWritten()].compactMap { $0 }.min()
            },
        ]
        turn.failure = failures.compactMap { $0 }.first
        return turn
    }

    private static func failure(of step: () throws(CloudFSError) -> Void) -> CloudFSError? {
        do throws(CloudFSError) { try step() } catch { return error }
        return nil
    }

    // MARK: - Unlinking

    /// The bytes go only after the commit that stopped naming them is durable.
    ///
    /// - Returns: Whether there were any.
    /// - Throws: Why some of them are there still; the others are gone.
    @discardableResult
    static func sweep(_ files: OpenFiles) throws(CloudFSError) -> Bool {
        let names = try files.catalog.read { try $0.discarded() }
        if let failure = try unlink(names, files) { throw failure }
        return !names.isEmpty
    }

    /// The same; a file that cannot be unlinked stays listed, and keeps no other.
    ///
    /// - Returns: Why some are there still.
    static func unlinkDiscarded(_ files: OpenFiles) throws(CloudFSError) -> CloudFSError? {
        try unlink(try files.catalog.read { try $0.discarded() }, files)
    }

    private static func unlink(
        _ names: some Collection<ContentName>,
        _ files: OpenFiles
    ) throws(CloudFSError) -> CloudFSError? {
        guard !names.isEmpty else { return nil }
        try files.catalog.makeDurable()
        try FaultPoint.discardDurable.pass()
        var failure: CloudFSError?
        var unlinked: [ContentName] = []
        for name in names {
            do throws(CloudFSError) {
                try files.store.remove(name.item, generation: name.generation)
                unlinked.append(name)
            } catch {
                failure = error
            }
        }
        try FaultPoint.discardUnlinked.pass()
        guard !unlinked.isEmpty else { return failure }
        try files.catalog.write(isLong: true) { writer in
            for name in unlinked { try writer.didUnlink(name) }
        }
        return failure
    }
}

extension Sweeper {
    /// When something that failed is tried again: after pauses that grow, and sooner where there is
    /// other work, as that may have changed something.
    struct Pauses {
        private var pause: Duration?
        private var last = Duration.zero

        private static let first = Duration.milliseconds(250)
        private static let longest = Duration.seconds(30)

        var isFailing: Bool { pause != nil }

        /// How long is to be waited for the next try; `nil` if nothing has failed.
        func left(at now: Duration) -> Duration? {
            pause.map { max($0 - (now - last), .zero) }
        }

        /// Whether it is tried now, as there is other work: however much of that there is, this
        /// is not much.
        func isDue(at now: Duration) -> Bool {
            pause == nil || now - last >= Self.first
        }

        /// Notes a try, which lengthens the pause if it was not made early.
        mutating func note(isFailure: Bool, at now: Duration) {
            guard isFailure else {
                pause = nil
                return
            }
            if let pause {
                if now - last >= pause / 2 { self.pause = min(pause * 2, Self.longest) }
            } else {
                pause = Self.first
            }
            last = now
        }
    }
}

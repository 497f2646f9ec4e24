import Logging

/// What arrives leaves the disk the room that it should.
extension Hydrator {
    /// Keeps room on the disk, whoever takes it, until the task is cancelled.
    func keepRoomFree() async {
        while !Task.isCancelled {
            var pause = Evictor.shortestPause
            do throws(CloudFSError) {
                pause = try await blocking { self.keepRoom() }
            } catch {
                logger.error("no room could be made", metadata: ["error": "\(error)"])
            }
            await evictor.waitForUse(restingFor: pause)
        }
    }

    /// Makes room if there is less than there should be: of files that nobody uses, then of those
    /// that are being read.
    ///
    /// Blocks on the disk: who fetches more than there is room for is no faster than who makes it.
    ///
    /// - Returns: How long there is no need to do that again.
    func keepRoom() -> Duration {
        do throws(CloudFSError) {
            let outcome = try evictor.takeTurn()
            let excess = outcome.excessInUse
            let thinned = excess > 0 ? try thin(by: excess, sparing: .usual) : 0
            evictor.tell(outcome.excess - thinned)
            return thinned > 0 ? Evictor.shortestPause : outcome.pause
        } catch {
            logger.error("no room could be made", metadata: ["error": "\(error)"])
            return Evictor.shortestPause
        }
    }

    /// Makes room for the rest of a fetch that found none.
    ///
    /// For what nobody waits for, no reader is deprived; for who waits, what others read ahead goes
    /// too, and they may let go of more in a moment.
    func outlookForRoom(
        for request: HydrationPlan.RequestID,
        _ range: Range<Int64>,
        of file: OpenFile
    ) async -> Outlook {
        let hasMadeRoom = await makeRoom(for: request, range, of: file)
        let isAwaited = file.state.withLock { $0.plan?.isAwaited(request) == true }
        return Outlook(chance: hasMadeRoom || isAwaited ? .later : .none, isAwaited: isAwaited)
    }

    /// - Returns: Whether there may be some, now or in a moment.
    private func makeRoom(
        for request: HydrationPlan.RequestID,
        _ range: Range<Int64>,
        of file: OpenFile
    ) async -> Bool {
        do throws(CloudFSError) {
            return try await blocking {
                let byteCount = Int64(range.count)
                var lack = byteCount - (try self.evictor.makeRoom(for: byteCount))
                if lack > 0 { lack -= try self.thin(by: lack, sparing: .usual) }
                let isAwaited = file.state.withLock { $0.plan?.isAwaited(request) == true }
                if lack > 0, isAwaited {
                    _ = try self.thin(by: lack + Self.slack, sparing: .least)
                }
                return lack < byteCount || self.evictor.hasJustDropped
            }
        } catch {
            logger.error("no room could be made", metadata: ["error": "\(error)"])
            return false
        }
    }

    /// How much more is dropped for who waits, as others take of the same room in that moment.
    private static let slack: Int64 = 32 << 20

    /// Drops content of files in use, as far as no reader is near of it.
    ///
    /// - Returns: How many bytes were dropped.
    private func thin(
        by byteCount: Int64,
        sparing: HydrationPlan.Sparing
    ) throws(CloudFSError) -> Int64 {
        var dropped: Int64 = 0
        var failure: CloudFSError?
        for file in files.retainAll() {
            defer { releaseNow(file) }
            guard dropped < byteCount else { continue }
            do throws(CloudFSError) {
                let thinned = try files.thin(file, by: byteCount - dropped, sparing: sparing)
                perform(thinned.actions, on: file)
                dropped += thinned.byteCount
                failure = failure ?? thinned.failure
            } catch {
                failure = failure ?? error
            }
        }
        if dropped == 0, let failure { throw failure }
        return dropped
    }
}

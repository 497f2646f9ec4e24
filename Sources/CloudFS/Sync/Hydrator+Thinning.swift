import Logging

/// What arrives leaves the disk the room that it should.
extension Hydrator {
    /// Makes room if what has arrived takes too much: of files that nobody uses, then of those that
    /// are being read.
    ///
    /// Blocks on the disk: who fetches more than there is room for is no faster than who makes it.
    func keepRoom() {
        do throws(CloudFSError) {
            let excess = try evictor.takeTurnWhileFilling()
            if excess > 0 { _ = try thin(by: excess, sparing: .usual) }
        } catch {
            logger.error("no room could be made", metadata: ["error": "\(error)"])
        }
    }

    /// Makes room for the rest of a fetch that found none.
    ///
    /// For a guess, nobody who reads is deprived; for who waits, all that is a guess is dropped,
    /// and others who read may let go of more in a moment.
    ///
    /// - Returns: Whether it is worth another try.
    func makeRoom(
        for request: HydrationPlan.RequestID,
        _ range: Range<Int64>,
        of file: OpenFile
    ) async -> Bool {
        do throws(CloudFSError) {
            return try await blocking {
                let byteCount = Int64(range.count)
                if try self.evictor.makeRoom(for: byteCount) { return true }
                if try self.thin(by: byteCount, sparing: .usual) > 0 { return true }
                guard file.state.withLock({ $0.plan?.isAwaited(request) == true }) else {
                    return false
                }
                _ = try self.thin(by: byteCount, sparing: .least)
                return true
            }
        } catch {
            logger.error("no room could be made", metadata: ["error": "\(error)"])
            return false
        }
    }

    /// Drops content of files in use, as far as no reader is near of it.
    ///
    /// - Returns: How many bytes were dropped.
    private func thin(
        by byteCount: Int64,
        sparing: HydrationPlan.Sparing
    ) throws(CloudFSError) -> Int64 {
        var dropped: Int64 = 0
        for file in files.retainAll() {
            defer { releaseNow(file) }
            guard dropped < byteCount else { continue }
            let thinned = try files.thin(file, by: byteCount - dropped, sparing: sparing)
            perform(thinned.actions, on: file)
            dropped += thinned.byteCount
            if let failure = thinned.failure { throw failure }
        }
        return dropped
    }
}

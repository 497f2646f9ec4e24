/// Writes records, those that come while one is on its way together.
actor S3JournalWriter {
    private let client: S3Client
    private let folder: [UInt8]
    private let deviceID: String
    /// How records of this start are signed; `nil` before the first.
    private var device: String?
    private var count: Int64 = 0
    private var batch: Batch?
    private var running: Task<CloudFSError?, Never>?
    /// When the last record was begun, in `Clocks.elapsed`.
    private var lastBegun: Duration?
    /// How soon records follow each other: many small changes are fewer records, each of which
    /// every other device reads.
    private static let interval = Duration.milliseconds(25)

    /// Hints that go into one record.
    private struct Batch {
        var hints: Set<ChangeHint> = []
        var task: Task<CloudFSError?, Never>
    }

    init(client: S3Client, folder: [UInt8], deviceID: String) {
        self.client = client
        self.folder = folder
        self.deviceID = deviceID
    }

    func record(_ hints: [ChangeHint]) async throws(CloudFSError) {
        let task: Task<CloudFSError?, Never>
        if batch != nil {
            batch?.hints.formUnion(hints)
            task = batch?.task ?? Task { nil }
        } else {
            let previous = running
            task = Task {
                _ = await previous?.value
                await self.waitForTurn()
                return await self.write()
            }
            batch = Batch(hints: Set(hints), task: task)
            running = task
        }
        if let error = await task.value { throw error }
    }

    private func waitForTurn() async {
        guard let lastBegun else { return }
        let rest = lastBegun + Self.interval - client.clocks.elapsed()
        guard rest > .zero else { return }
        // Nobody holds the task, so nobody cancels it.
        try? await Task.sleep(for: rest)
    }

    private func write() async -> CloudFSError? {
        lastBegun = client.clocks.elapsed()
        let hints = batch?.hints ?? []
        batch = nil
        do throws(CloudFSError) {
            for body in S3JournalRecord.bodies(of: hints) { try await put(body) }
            return nil
        } catch {
            return error
        }
    }

    /// How often a record is written that arrives late: a server whose clock runs ahead, or one
    /// behind whose address are several, would have it written for ever.
    private static let mostTries = 3

    /// A record that arrives long after the time in its key may be overlooked: it is written again.
    private func put(_ body: [UInt8]) async throws(CloudFSError) {
        for _ in 1...Self.mostTries {
            let now = client.serverNow ?? client.clocks.now()
            let milliseconds = now.nanoseconds / 1_000_000
            let device = device ?? S3JournalKey.device(deviceID, since: milliseconds)
            self.device = device
            let key = S3JournalKey(milliseconds: milliseconds, device: device, count: count + 1)
            _ = try await client.put(folder + key.bytes, body: .bytes(body), isOwn: true)
            // Only now: a count that is missing makes others compare everything.
            count += 1
            guard let end = client.serverNow, end.since(now) > .seconds(60) else { return }
        }
    }
}

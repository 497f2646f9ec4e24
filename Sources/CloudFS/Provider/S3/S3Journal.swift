import Logging
import Synchronization

/// How devices tell each other what they changed: small objects, one LIST to see all new ones.
///
/// A record's key is the server's time, the device, and its count: so that records sort by time
/// and a lost one leaves a gap. What a record says is a hint; the truth is looked up.
final class S3Journal: Sendable {
    private let client: S3Client
    private let folder: [UInt8]
    private let deviceID: String
    private let settings: S3ProviderSettings
    private let logger: Logger
    private let writing: S3JournalWriter
    private let state = Mutex(State())
    private let used = Signal()

    private struct State {
        var epoch = 0
        /// Counts what was told since the beginning.
        var page = 0
        /// Keys of the records that were read, and of those from before the beginning.
        var seen: Set<[UInt8]> = []
        /// The time of the latest record that was seen, in milliseconds.
        var latest: Int64 = 0
        /// The last count that was seen of each device, and since when counts are missing.
        var counts: [String: Int64] = [:]
        var gaps: [String: Duration] = [:]
        /// What other devices should have been told.
        var owed: Set<ChangeHint> = []
        var lastUse = Duration.zero
        var lastPoll = Duration.zero
        var lastScan = Duration.zero
    }

    /// How long before the latest record another may still turn up.
    private static let overlap: Int64 = 120_000
    /// After which time without a look everything is compared; records may be gone by then.
    private static let longestAbsence = Duration.seconds(1_800)

    init(
        client: S3Client,
        folder: [UInt8],
        deviceID: String,
        settings: S3ProviderSettings,
        logger: Logger
    ) {
        self.client = client
        self.folder = folder
        self.deviceID = deviceID
        self.settings = settings
        self.logger = logger
        writing = S3JournalWriter(client: client, folder: folder, deviceID: deviceID)
    }

    // MARK: - Writing

    /// Tells the other devices; returns when they can know.
    func record(_ hints: [ChangeHint]) async throws(CloudFSError) {
        noteUse()
        let owed = state.withLock { state in
            defer { state.owed = [] }
            return state.owed
        }
        do throws(CloudFSError) {
            try await writing.record(hints + owed)
        } catch {
            state.withLock { $0.owed.formUnion(owed) }
            throw error
        }
    }

    /// Tells the other devices of something that is done and stays done: what cannot be told now
    /// is told with the next record.
    func announce(_ hints: [ChangeHint]) async {
        do throws(CloudFSError) {
            try await record(hints)
        } catch {
            state.withLock { $0.owed.formUnion(hints) }
            logger.warning(
                "other devices could not be told of a change yet",
                metadata: ["error": "\(error)"]
            )
        }
    }

    // MARK: - Reading

    /// The drive is in use: looks into the journal follow each other quickly for a while.
    func noteUse() {
        let now = client.clocks.elapsed()
        let wasIdle = state.withLock { state in
            defer { state.lastUse = now }
            return now - state.lastUse > settings.idleAfter
        }
        if wasIdle { used.raise() }
    }

    /// Waits until there is something new after `anchor`.
    func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        guard let anchor else { return try await begin() }
        guard anchor == current else {
            return ChangePage(hints: [.subtree(.root)], anchor: try await begin().anchor)
        }
        while true {
            await waitForTurn()
            if Task.isCancelled { throw CloudFSError(.cancelled, "waiting for changes ended") }
            let hints = try await poll()
            guard !hints.isEmpty else { continue }
            state.withLock { $0.page += 1 }
            return ChangePage(hints: hints, anchor: current)
        }
    }

    private var current: SyncAnchor {
        state.withLock { SyncAnchor("\($0.epoch).\($0.page)") }
    }

    /// Takes everything that is there for known: what comes later is news.
    private func begin() async throws(CloudFSError) -> ChangePage {
        let time = try await serverMilliseconds()
        let keys = try await list(from: time - Self.overlap)
        let now = client.clocks.elapsed()
        state.withLock { state in
            state.epoch += 1
            state.seen = Set(keys)
            state.latest = time
            state.counts = [:]
            state.gaps = [:]
            state.lastPoll = now
            state.lastScan = now
            state.lastUse = now
        }
        return ChangePage(hints: [], anchor: current)
    }

    private func serverMilliseconds() async throws(CloudFSError) -> Int64 {
        if client.serverNow == nil {
            _ = try await client.list(prefix: folder, delimiter: false, limit: 1)
        }
        return (client.serverNow ?? client.clocks.now()).nanoseconds / 1_000_000
    }

    private func waitForTurn() async {
        let (lastPoll, lastUse) = state.withLock { ($0.lastPoll, $0.lastUse) }
        let now = client.clocks.elapsed()
        let isIdle = now - lastUse > settings.idleAfter
        let interval = isIdle ? settings.idlePollInterval : settings.pollInterval
        let rest = lastPoll + interval - now
        if rest > .zero { await used.wait(atMost: rest) }
    }

    private func poll() async throws(CloudFSError) -> [ChangeHint] {
        let start = state.withLock { $0.latest } - Self.overlap
        let listed = try await list(from: start)
        let time = try await serverMilliseconds()
        let now = client.clocks.elapsed()
        let fresh = state.withLock { state in listed.filter { !state.seen.contains($0) } }
        var hints = await read(fresh)
        // Only what was read is known: after a failure above it is news again.
        let mustScan = state.withLock { state in
            let wasAway = now - state.lastPoll > Self.longestAbsence
            // What is older than the overlap is never listed again.
            state.seen = Set(listed)
            state.lastPoll = now
            var isScanDue = now - state.lastScan > settings.scanInterval
            if !fresh.isEmpty { state.lastUse = now }
            note(fresh, at: now, notAfter: time, &state)
            if let gap = state.gaps.values.min(), now - gap > .milliseconds(Self.overlap) {
                state.gaps = [:]
                isScanDue = true
            }
            if wasAway || isScanDue { state.lastScan = now }
            return wasAway || isScanDue
        }
        if mustScan { hints.insert(.subtree(.root)) }
        return Array(hints)
    }

    /// Notes counts and times, and which counts are missing.
    ///
    /// - Parameter time: The server's, in milliseconds: a record of the future says nothing of it.
    private func note(
        _ keys: [[UInt8]],
        at now: Duration,
        notAfter time: Int64,
        _ state: inout State
    ) {
        for key in keys.compactMap({ S3JournalKey($0) }) {
            state.latest = max(state.latest, min(key.milliseconds, time))
            let last = state.counts[key.device]
            if let last, key.count > last + 1 {
                state.gaps[key.device] = state.gaps[key.device] ?? now
            }
            state.counts[key.device] = max(last ?? 0, key.count)
        }
    }

    private func list(from milliseconds: Int64) async throws(CloudFSError) -> [[UInt8]] {
        var keys: [[UInt8]] = []
        let start = folder + S3JournalKey.time(max(0, milliseconds))
        try await client.listAll(prefix: folder, delimiter: false, startAfter: start) {
            page throws(CloudFSError) in
            keys += page.objects.map(\.key)
            return true
        }
        return keys
    }

    /// Reads records; one that cannot be read means that everything may have changed.
    private func read(_ keys: [[UInt8]]) async -> Set<ChangeHint> {
        let others = keys.filter { S3JournalKey($0)?.device != deviceID }
        guard others.count <= Self.mostRecords else { return [.subtree(.root)] }
        return await withTaskGroup(of: Set<ChangeHint>.self) { group in
            for key in others {
                group.addTask { await self.hints(in: key) }
            }
            return await group.reduce(into: []) { $0.formUnion($1) }
        }
    }

    /// Of more new records than this, comparing everything is the shorter way.
    private static let mostRecords = 500

    private func hints(in key: [UInt8]) async -> Set<ChangeHint> {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            let limit = Int64(S3JournalRecord.maximumByteCount) + 1
            _ = try await client.get(key, range: 0..<limit, ifMatch: nil) { _, piece in
                bytes.append(piece)
            }
        } catch {
            logger.notice("a record cannot be read", metadata: ["error": "\(error)"])
            return [.subtree(.root)]
        }
        guard bytes.all.count <= S3JournalRecord.maximumByteCount else { return [.subtree(.root)] }
        return S3JournalRecord.hints(in: bytes.all)
    }
}

/// Writes records, those that come while one is on its way together.
private actor S3JournalWriter {
    private let client: S3Client
    private let folder: [UInt8]
    private let deviceID: String
    private var count: Int64 = 0
    private var batch: Batch?
    private var running: Task<CloudFSError?, Never>?

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
                return await self.write()
            }
            batch = Batch(hints: Set(hints), task: task)
            running = task
        }
        if let error = await task.value { throw error }
    }

    private func write() async -> CloudFSError? {
        let hints = batch?.hints ?? []
        batch = nil
        do throws(CloudFSError) {
            for body in S3JournalRecord.bodies(of: hints) { try await put(body) }
            return nil
        } catch {
            return error
        }
    }

    /// A record that arrives long after the time in its key may be overlooked: it is written again.
    private func put(_ body: [UInt8]) async throws(CloudFSError) {
        while true {
            let now = client.serverNow ?? client.clocks.now()
            count += 1
            let key = S3JournalKey(
                milliseconds: now.nanoseconds / 1_000_000,
                device: deviceID,
                count: count
            )
            _ = try await client.put(folder + key.bytes, body: .bytes(body))
            guard let end = client.serverNow, end.since(now) > .seconds(60) else { return }
        }
    }
}

/// The key of a record, without the journal's folder.
struct S3JournalKey: Sendable, Equatable {
    var milliseconds: Int64
    /// Letters and digits.
    var device: String
    var count: Int64

    init(milliseconds: Int64, device: String, count: Int64) {
        self.milliseconds = milliseconds
        self.device = device
        self.count = count
    }

    /// Reads the end of a key; `nil` if it is no record's.
    init?(_ key: [UInt8]) {
        let name = key.suffix(while: { $0 != UInt8(ascii: "/") })
        let parts = String(decoding: name, as: UTF8.self).split(separator: "-")
        guard parts.count == 3, let milliseconds = Int64(parts[0]), let count = Int64(parts[2]),
            milliseconds >= 0, (0..<Int64.max / 2).contains(count)
        else { return nil }
        self.milliseconds = milliseconds
        self.count = count
        device = String(parts[1])
    }

    var bytes: [UInt8] { Self.time(milliseconds) + Array("-\(device)-\(count)".utf8) }

    /// 15 digits, so that keys sort by time.
    static func time(_ milliseconds: Int64) -> [UInt8] {
        let digits = String(milliseconds)
        return Array((String(repeating: "0", count: max(0, 15 - digits.count)) + digits).utf8)
    }
}

/// What a record says: one line for each folder, `children` or `subtree` and its path.
enum S3JournalRecord {
    static let maximumByteCount = 1 << 20
    private static let linesPerRecord = 1_000

    static func bodies(of hints: Set<ChangeHint>) -> [[UInt8]] {
        let lines = hints.map { hint in
            switch hint {
            case .children(let path): "children \(encode(path))\n"
            case .subtree(let path): "subtree \(encode(path))\n"
            }
        }.sorted()
        return stride(from: 0, to: lines.count, by: linesPerRecord).map { start in
            Array(lines[start..<min(start + linesPerRecord, lines.count)].joined().utf8)
        }
    }

    /// Reads a record; what cannot be read means that everything may have changed.
    static func hints(in body: [UInt8]) -> Set<ChangeHint> {
        var hints: Set<ChangeHint> = []
        for line in String(decoding: body, as: UTF8.self).split(separator: "\n") {
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            guard words.count == 2, let path = decode(words[1]) else { return [.subtree(.root)] }
            switch words[0] {
            case "children": hints.insert(.children(of: path))
            case "subtree": hints.insert(.subtree(path))
            default: return [.subtree(.root)]
            }
        }
        return hints
    }

    private static func encode(_ path: RemotePath) -> String {
        path.names.map { URIEncoding.encode($0.bytes, keepingSlash: false) }.joined(separator: "/")
    }

    private static func decode(_ text: Substring) -> RemotePath? {
        var names: [ItemName] = []
        for part in text.split(separator: "/") {
            guard let bytes = URIEncoding.decode(part.utf8) else { return nil }
            do throws(CloudFSError) {
                names.append(try ItemName(bytes))
            } catch {
                return nil
            }
        }
        return RemotePath(names)
    }
}

extension Array where Element == UInt8 {
    /// The longest end of the bytes that all satisfy `predicate`.
    fileprivate func suffix(while predicate: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let start = lastIndex { !predicate($0) }.map { $0 + 1 } ?? startIndex
        return self[start...]
    }
}

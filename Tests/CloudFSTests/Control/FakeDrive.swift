import CloudFSControlAPI
import Glibc
import Synchronization

@testable import CloudFS

/// A drive that answers what a test tells it to, and remembers what it was asked.
final class FakeDrive: ControlledDrive {
    struct State {
        var calls: [String] = []
        var failure: CloudFSError?
        /// What was entered last.
        var login: ProviderLogin?
        var isPaused = false
        var outbox = OutboxCounts.none
        var items: [ItemStatus] = []
        var refusals: [DrivePath: CloudFSError] = [:]
        /// Held requests end when the test resumes them.
        var holds = false
        var held: [CheckedContinuation<Void, Never>] = []
        /// What presenters hear before their streams end, one list for each; further ones go on.
        var presentations: [[PresenterEvent.Kind]] = []
        /// Where `status` says it is mounted; long for an answer that is large.
        var mountpoint = "/mnt/drive"
    }

    let state = Mutex(State())

    var calls: [String] { state.withLock { $0.calls } }

    /// Lets everybody go who waits because of `holds`.
    func release() {
        let held = state.withLock { state in
            state.holds = false
            defer { state.held = [] }
            return state.held
        }
        for continuation in held { continuation.resume() }
    }

    func note(_ call: String) async throws(CloudFSError) {
        let failure = state.withLock { state in
            state.calls.append(call)
            return state.failure
        }
        if let failure { throw failure }
        await withCheckedContinuation { continuation in
            let isHeld = state.withLock { state in
                if state.holds { state.held.append(continuation) }
                return state.holds
            }
            if !isHeld { continuation.resume() }
        }
    }

    private static func text(_ paths: [DrivePath]) -> String {
        paths.map(\.text).joined(separator: " ")
    }

    func status() async throws(CloudFSError) -> DriveStatus {
        try await note("status")
        return state.withLock { state in
            DriveStatus(
                mountpoint: state.mountpoint,
                containerURL: "local:/srv/cloud",
                containerDisplayName: "cloud",
                deviceName: "desk",
                stateDirectory: "/var/lib/drive",
                pid: getpid(),
                worker: 4_243,
                since: WireTime(nanoseconds: 1_795_185_005_123_456_789),
                connection: state.isPaused
                    ? .paused(since: WireTime(nanoseconds: 0)) : .online,
                isReadOnly: false,
                mode: .init(name: "splice", reason: "not root"),
                cache: CacheStatus(
                    usedBytes: 1 << 33,
                    limitBytes: 1 << 40,
                    freeFloorBytes: 0,
                    freeBytes: .max
                ),
                counts: ItemCounts(
                    items: 3,
                    resident: 2,
                    partial: 1,
                    dirty: 0,
                    conflicts: 0,
                    errors: 0
                ),
                listing: ListingProgress(isComplete: true, items: 3, foldersLeft: 0),
                outbox: state.outbox
            )
        }
    }

    func items(_ query: ItemQuery) async throws(CloudFSError) -> ItemPage {
        try await note(
            "items \(Self.text(query.paths)) \(query.depth) \(query.limit) \(query.after ?? "-")"
        )
        let items = state.withLock { $0.items }
        let start = query.after.flatMap { Int($0) } ?? 0
        let end = min(items.count, start + query.limit)
        return ItemPage(
            items: Array(items[start..<end]),
            next: end < items.count ? "\(end)" : nil
        )
    }

    func query(_ request: QueryRequest) async throws(CloudFSError) -> ItemPage {
        try await note(
            "query \(request.query) \(request.scope) \(request.below?.text ?? "-") "
                + "\(request.limit) \(request.after ?? "-")"
        )
        return ItemPage(items: state.withLock { $0.items })
    }

    func setPolicy(_ policy: PinPolicy, at path: DrivePath) async throws(CloudFSError) {
        if let refusal = state.withLock({ $0.refusals[path] }) { throw refusal }
        try await note("policy \(policy.rawValue) \(path.text)")
    }

    func evict(
        _ paths: [DrivePath],
        recursive: Bool
    ) async throws(CloudFSError) -> [ItemResult] {
        try await note("evict \(Self.text(paths)) \(recursive)")
        return results(paths)
    }

    func download(_ paths: [DrivePath]) async throws(CloudFSError) -> [ItemResult] {
        try await note("download \(Self.text(paths))")
        return results(paths)
    }

    func downloadProgress(_ paths: [DrivePath]) async throws(CloudFSError) -> [DownloadStatus] {
        try await note("progress \(Self.text(paths))")
        return paths.map {
            DownloadStatus(
                path: $0,
                files: 2,
                filesDone: 1,
                bytes: 10,
                localBytes: 5,
                filesWanted: 1
            )
        }
    }

    func refresh(_ paths: [DrivePath]) async throws(CloudFSError) -> [ItemResult] {
        try await note("refresh \(Self.text(paths))")
        return results(paths)
    }

    func check(_ request: CheckRequest) async throws(CloudFSError) -> CheckPage {
        try await note("check \(request.after ?? "-")")
        return CheckPage(findings: [], checked: 1)
    }

    func login(_ login: ProviderLogin) async throws(CloudFSError) -> DriveStatus {
        state.withLock { $0.login = login }
        try await note("login")
        return try await status()
    }

    func outbox(_ page: PageRequest) async throws(CloudFSError) -> OutboxPage {
        try await note("outbox \(page.limit) \(page.after ?? "-")")
        guard let path = DrivePath(text: "a") else {
            throw CloudFSError(.internalFailure, "a is a path")
        }
        let entry = OutboxPage.Entry(
            path: path,
            operation: .createFolder,
            bytes: 0,
            state: .retrying,
            attempts: 2,
            nextAttempt: WireTime(nanoseconds: 1),
            lastError: "no route"
        )
        return OutboxPage(counts: state.withLock { $0.outbox }, entries: [entry])
    }

    func drain(timeout: Duration) async throws(CloudFSError) -> DrainResult {
        try await note("drain")
        return state.withLock { state in
            // Every turn sends one.
            state.outbox.waiting = max(0, state.outbox.waiting - 1)
            return DrainResult(remaining: state.outbox, isOver: state.outbox.waiting == 0)
        }
    }

    func pause() async throws(CloudFSError) {
        try await note("pause")
        state.withLock { $0.isPaused = true }
    }

    func resume() async throws(CloudFSError) {
        try await note("resume")
        state.withLock { $0.isPaused = false }
    }

    func conflictVersions(
        _ request: ConflictQuery
    ) async throws(CloudFSError) -> ConflictGroup {
        try await note("versions \(request.path)")
        return ConflictGroup(path: request.path, versions: [])
    }

    func resolve(
        _ request: ConflictResolution,
        for peer: ControlPeer
    ) async throws(CloudFSError) -> ConflictOutcome {
        let known = request.versions.map { Self.text($0) } ?? "-"
        let isOwn = peer.process == getpid()
        try await note("resolve \(request.path) \(request.keep) \(known) \(isOwn)")
        return ConflictOutcome(path: request.path, removed: [.root], renamed: [])
    }

    func conflicts(_ page: PageRequest) async throws(CloudFSError) -> ConflictPage {
        try await note("conflicts \(page.limit) \(page.after ?? "-")")
        return ConflictPage(conflicts: [
            ConflictGroup(
                path: .root,
                versions: [
                    .init(
                        path: .root,
                        device: "desk",
                        modified: WireTime(nanoseconds: -1),
                        size: 7
                    )
                ]
            )
        ])
    }

    func restart() async throws(CloudFSError) {
        try await note("restart")
    }

    func unmount(force: Bool, sending: Duration?) async throws(CloudFSError) -> OutboxCounts {
        try await note("unmount \(force) \(sending.map { "\($0)" } ?? "-")")
        return state.withLock { $0.outbox }
    }

    private func results(_ paths: [DrivePath]) -> [ItemResult] {
        let refusals = state.withLock { $0.refusals }
        return paths.map { path in
            refusals[path].map { .refused(path, $0) } ?? .done(path)
        }
    }
}

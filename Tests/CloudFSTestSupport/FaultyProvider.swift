public import CloudFS
import Synchronization

/// A provider that a test can hang, break, disconnect and count.
///
/// Behaves as the one behind it until it is told otherwise.
public final class FaultyProvider: ProviderLayer {
    public enum Operation: Sendable, Hashable, CaseIterable {
        case connect
        case item
        case children
        case changes
        case fetch
        case digest
        case upload
        case createFolder
        case createSymlink
        case setMetadata
        case move
        case delete
        case quota
        case leases
        case sidecars
    }

    /// When a planned failure happens.
    public enum Moment: Sendable {
        /// Before the provider hears of the request.
        case before
        /// After the provider did it: the answer is lost.
        case after
    }

    private struct Fault {
        var operation: Operation?
        var callsLeft: Int
        var error: CloudFSError
        var moment: Moment
    }

    private struct State {
        var isOffline = false
        var hanging: Set<Operation> = []
        /// Those that the provider does at once, and answers later.
        var hangingAnswers: Set<Operation> = []
        var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var nextWaiter: UInt64 = 0
        var counts: [Operation: Int] = [:]
        var fetchedByteCount: Int64 = 0
        var faults: [Fault] = []
        var arrivals: [UInt64: (Operation, Int, CheckedContinuation<Void, Never>)] = [:]
    }

    public let base: any CloudProvider
    private let state = Mutex(State())

    public init(_ base: any CloudProvider) {
        self.base = base
    }

    // MARK: - What tests ask

    /// How often an operation was called, including calls that failed or hang.
    public func count(of operation: Operation) -> Int {
        state.withLock { $0.counts[operation, default: 0] }
    }

    /// Calls of all operations.
    public var totalCount: Int { state.withLock { $0.counts.values.reduce(0, +) } }

    /// Bytes that were delivered by fetches.
    public var fetchedByteCount: Int64 { state.withLock { $0.fetchedByteCount } }

    public func resetCounts() {
        state.withLock { state in
            state.counts = [:]
            state.fetchedByteCount = 0
        }
    }

    /// Waits until an operation was called `count` times since the counts began.
    public func waitForCall(_ count: Int = 1, of operation: Operation) async {
        await suspend { state, number, continuation in
            guard state.counts[operation, default: 0] < count else { return false }
            state.arrivals[number] = (operation, count, continuation)
            return true
        }
    }

    // MARK: - What tests order

    /// Whether every request fails with `offline`.
    public var isOffline: Bool {
        get { state.withLock { $0.isOffline } }
        set { state.withLock { $0.isOffline = newValue } }
    }

    /// Lets requests wait until `release`; calls can still be cancelled.
    ///
    /// - Parameter moment: Whether they wait to be done, or to be answered.
    public func hang(
        _ operations: Set<Operation> = Set(Operation.allCases),
        _ moment: Moment = .before
    ) {
        state.withLock { state in
            switch moment {
            case .before: state.hanging.formUnion(operations)
            case .after: state.hangingAnswers.formUnion(operations)
            }
        }
    }

    /// How many requests hang.
    public var hangingCount: Int { state.withLock { $0.waiting.count } }

    /// Ends all hanging, for those who wait and for those who come.
    public func release() {
        let waiting = state.withLock { state in
            state.hanging = []
            state.hangingAnswers = []
            defer { state.waiting = [:] }
            return state.waiting
        }
        for continuation in waiting.values { continuation.resume() }
    }

    /// Makes the `call`-th call from now on fail; of any operation if none is named.
    public func fail(
        _ operation: Operation? = nil,
        call: Int = 1,
        with error: CloudFSError = CloudFSError(.offline, "a planned failure"),
        _ moment: Moment = .before
    ) {
        precondition(call > 0, "calls are counted from 1")
        state.withLock {
            $0.faults.append(
                Fault(operation: operation, callsLeft: call, error: error, moment: moment)
            )
        }
    }

    /// Forgets planned failures that did not happen yet, and tells how many there were.
    @discardableResult
    public func forgetFaults() -> Int {
        state.withLock { state in
            defer { state.faults = [] }
            return state.faults.count
        }
    }

    // MARK: - Requests

    /// Counts and perhaps spoils one request.
    fileprivate func request<Value>(
        _ operation: Operation,
        _ body: () async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        let fault = arrive(operation)
        await waitWhileHanging(operation)
        guard !Task.isCancelled else {
            throw CloudFSError(.cancelled, "cancelled at a faulty provider")
        }
        if isOffline { throw CloudFSError(.offline, "a faulty provider is offline") }
        if let fault, fault.moment == .before { throw fault.error }
        let value = try await body()
        if let fault { throw fault.error }
        await waitWhileHanging(operation, .after)
        return value
    }

    private func arrive(_ operation: Operation) -> Fault? {
        let (fault, arrived) = state.withLock { state in
            state.counts[operation, default: 0] += 1
            let counts = state.counts
            let arrived = state.arrivals.filter { counts[$0.value.0, default: 0] >= $0.value.1 }
            for number in arrived.keys { state.arrivals[number] = nil }
            var due: Fault?
            for index in state.faults.indices.reversed()
            where (state.faults[index].operation ?? operation) == operation {
                state.faults[index].callsLeft -= 1
                if state.faults[index].callsLeft == 0 { due = state.faults.remove(at: index) }
            }
            return (due, arrived.values.map(\.2))
        }
        for continuation in arrived { continuation.resume() }
        return fault
    }

    private func waitWhileHanging(_ operation: Operation, _ moment: Moment = .before) async {
        await suspend { state, number, continuation in
            let hanging =
                switch moment {
                case .before: state.hanging
                case .after: state.hangingAnswers
                }
            guard hanging.contains(operation) else { return false }
            state.waiting[number] = continuation
            return true
        }
    }

    /// Suspends until resumed or cancelled, if `enqueue` says that there is something to wait for.
    private func suspend(
        _ enqueue: (inout sending State, UInt64, CheckedContinuation<Void, Never>) -> Bool
    ) async {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isWaiting = state.withLock { enqueue(&$0, number, continuation) }
                if !isWaiting { continuation.resume() }
                // The handler may have run before there was anything to resume.
                if isWaiting, Task.isCancelled { cancel(number) }
            }
        } onCancel: {
            cancel(number)
        }
    }

    private func cancel(_ number: UInt64) {
        let continuation = state.withLock { state in
            state.waiting.removeValue(forKey: number)
                ?? state.arrivals.removeValue(forKey: number)?.2
        }
        continuation?.resume()
    }
}

extension FaultyProvider {
    public func connect(expecting: ContainerExpectation) async throws(CloudFSError) -> String {
        try await request(.connect) { () async throws(CloudFSError) in
            try await base.connect(expecting: expecting)
        }
    }

    public func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        try await request(.item) { () async throws(CloudFSError) in
            try await base.item(at: path)
        }
    }

    public var leases: (any LeaseStore)? { base.leases.map { FaultyLeases($0, of: self) } }

    public var sidecars: (any SidecarStore)? {
        base.sidecars.map { FaultySidecars(base: $0, provider: self) }
    }

    public func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        try await request(.children) { () async throws(CloudFSError) in
            try await base.children(of: path, after: page)
        }
    }

    public func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        try await request(.changes) { () async throws(CloudFSError) in
            try await base.changes(after: anchor)
        }
    }

    public func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        try await request(.fetch) { () async throws(CloudFSError) in
            try await base.fetch(path, range: range, version: version) {
                [self]
                offset,
                bytes async throws(CloudFSError) in
                // A link that hangs or breaks does so in the middle of a transfer too.
                await waitWhileHanging(.fetch)
                guard !Task.isCancelled else {
                    throw CloudFSError(.cancelled, "cancelled at a faulty provider")
                }
                if isOffline { throw CloudFSError(.offline, "a faulty provider is offline") }
                state.withLock { $0.fetchedByteCount += Int64(bytes.count) }
                try await deliver(offset, bytes)
            }
        }
    }

    public func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest? {
        try await request(.digest) { () async throws(CloudFSError) in
            try await base.digest(of: path, version: version)
        }
    }

    public func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        try await request(.upload) { () async throws(CloudFSError) in
            try await self.base.upload(source, to: path, replacing: base)
        }
    }

    public func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await request(.createFolder) { () async throws(CloudFSError) in
            try await base.createFolder(at: path, documentID: documentID, metadata: metadata)
        }
    }

    public func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await request(.createSymlink) { () async throws(CloudFSError) in
            try await base.createSymlink(
                at: path,
                target: target,
                documentID: documentID,
                metadata: metadata
            )
        }
    }

    public func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await request(.setMetadata) { () async throws(CloudFSError) in
            try await self.base.setMetadata(update, at: path, base: base)
        }
    }

    public func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await request(.move) { () async throws(CloudFSError) in
            try await self.base.move(from: source, to: destination, base: base)
        }
    }

    public func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError) {
        try await request(.delete) { () async throws(CloudFSError) in
            try await self.base.delete(path, base: base)
        }
    }

    public func quota() async throws(CloudFSError) -> Quota? {
        try await request(.quota) { () async throws(CloudFSError) in
            try await base.quota()
        }
    }
}

/// Leases whose requests fail as the provider's do.
private struct FaultyLeases: LeaseStore {
    private let base: any LeaseStore
    private let provider: FaultyProvider

    init(_ base: any LeaseStore, of provider: FaultyProvider) {
        self.base = base
        self.provider = provider
    }

    func latest(of document: DocumentID) async throws(CloudFSError) -> LeaseRecord? {
        try await provider.request(.leases) { () async throws(CloudFSError) in
            try await base.latest(of: document)
        }
    }

    func append(_ record: LeaseRecord) async throws(CloudFSError) -> Bool {
        try await provider.request(.leases) { () async throws(CloudFSError) in
            try await base.append(record)
        }
    }

    func all(atMost limit: Int) async throws(CloudFSError) -> [LeaseRecord] {
        try await provider.request(.leases) { () async throws(CloudFSError) in
            try await base.all(atMost: limit)
        }
    }
}

/// Sidecars whose requests fail as the provider's do.
private struct FaultySidecars: SidecarStore {
    let base: any SidecarStore
    let provider: FaultyProvider

    func read(_ name: SidecarName, atMost limit: Int) async throws(CloudFSError) -> [UInt8]? {
        try await provider.request(.sidecars) { () async throws(CloudFSError) in
            try await base.read(name, atMost: limit)
        }
    }

    func write(_ bytes: [UInt8], to name: SidecarName) async throws(CloudFSError) {
        try await provider.request(.sidecars) { () async throws(CloudFSError) in
            try await base.write(bytes, to: name)
        }
    }

    func remove(_ name: SidecarName) async throws(CloudFSError) {
        try await provider.request(.sidecars) { () async throws(CloudFSError) in
            try await base.remove(name)
        }
    }
}

/// What could not be downloaded, and when it is tried again.
///
/// Where there is no room for one file, there is none for any that lacks as many bytes: of many,
/// only a few are tried.
struct DownloadFailures: Sendable {
    private struct Failure: Sendable {
        var error: CloudFSError
        var retryAt: Duration
    }

    /// Which files of those that are wanted are not tried yet.
    struct Waiting: Sendable, Equatable {
        var items: Set<ItemID> = []
        /// All that miss this many bytes or more; `nil` for none.
        var missing: Int64?
    }

    private var items: [ItemID: Failure] = [:]
    private var lack: (byteCount: Int64, failure: Failure)?

    static let pause = Duration.seconds(30)

    /// Notes how an attempt has failed.
    ///
    /// - Parameter missing: How many bytes the file lacks.
    /// - Returns: Whether it is worth telling: no room is so once.
    mutating func note(
        _ error: CloudFSError,
        of id: ItemID,
        missing: Int64,
        at now: Duration
    ) -> Bool {
        let failure = Failure(error: error, retryAt: now + Self.pause)
        guard error.isLackOfRoom else {
            items[id] = failure
            return true
        }
        items[id] = nil
        let known = lack
        lack = (min(missing, waiting(at: now).missing ?? .max), failure)
        return known?.failure.error.code != error.code
    }

    mutating func forget(_ id: ItemID) { items[id] = nil }

    /// Forgets what was to be tried again by now: nobody wants it any more.
    mutating func forgetDue(at now: Duration) {
        items = items.filter { $0.value.retryAt > now }
        if let due = lack?.failure.retryAt, due <= now { lack = nil }
    }

    func waiting(at now: Duration) -> Waiting {
        Waiting(
            items: Set(items.filter { $0.value.retryAt > now }.keys),
            missing: lack.flatMap { $0.failure.retryAt > now ? $0.byteCount : nil }
        )
    }

    /// When the next is tried again.
    var retryAt: Duration? {
        (items.values.map(\.retryAt) + [lack?.failure.retryAt].compactMap { $0 }).min()
    }

    /// Why a file that is wanted is not here, and misses so many bytes.
    func error(of id: ItemID, missing: Int64) -> CloudFSError? {
        if let failure = items[id] { return failure.error }
        return lack.flatMap { missing >= $0.byteCount ? $0.failure.error : nil }
    }

    /// The same of all files.
    func all(_ reader: CatalogReader) throws -> [ItemID: CloudFSError] {
        var all = items.mapValues(\.error)
        guard let lack else { return all }
        for id in try reader.wantedFiles(missing: lack.byteCount) where all[id] == nil {
            all[id] = lack.failure.error
        }
        return all
    }
}

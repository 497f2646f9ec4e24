import Foundation
import Logging
import Synchronization

/// A bucket, or a part of one, as a container.
///
/// One object for each file under its own path, so that every other tool can read the bucket. What
/// other devices did is heard from their journal, what other tools did is found by comparing.
final class S3Provider: CloudProvider {
    let client: S3Client
    let keys: S3Keys
    let settings: S3ProviderSettings
    let journal: S3Journal
    let deviceID: String
    /// The file that is there when nothing could be written the last time.
    let readOnlyMark: String?
    let uploads: S3UploadLedger
    let folderLooks: S3FolderLooks
    /// Threads that read files and keep the list of uploads.
    let pool: BlockingPool
    let logger: Logger
    let keepLogin: KeepLogin?
    /// When it was made.
    let begun: Duration
    private let state = Mutex(State())

    typealias KeepLogin = @Sendable (S3Credentials) async throws(CloudFSError) -> Void

    private struct State {
        var identity: String?
        var rules = S3WriteRules()
        /// Folders that are known to exist, by their keys.
        var folders: Set<[UInt8]> = []
        /// Folders that are known to have a marker object.
        var marked: Set<[UInt8]> = []
        /// Folders that are halves of moves, by the keys of their intents.
        var hidden: [[UInt8]: [UInt8]] = [:]
        var hiddenChanges = 0
        /// Moves of this device whose old folder is being deleted, by the keys of their intents.
        var emptying: [[UInt8]: S3MoveIntent] = [:]
        /// What this process began to move, by the keys of intents.
        var moves: [[UInt8]: OwnMove] = [:]
        /// Parts that are too long for a name, by the folder's key and the name they are shown by.
        var longParts: [LongName: S3Keys.Part] = [:]
        /// What was sent without an answer, by its key.
        var unheard: [[UInt8]: [S3SentVersion]] = [:]
        /// The key of a probe that could not be deleted.
        var leftProbe: [UInt8]?
        /// When what is left behind is cleared away; `nil`: not known yet.
        var nextSweep: Duration?
    }

    /// A move of a folder that this process has begun.
    enum OwnMove: Sendable {
        case isUnderWay
        /// And where one of both folders has appeared or disappeared.
        case hasEnded([ChangeHint])

        fileprivate var isUnderWay: Bool { if case .isUnderWay = self { true } else { false } }
    }

    private struct LongName: Hashable {
        var folder: [UInt8]
        var name: ItemName
    }

    /// How many folders and long names are remembered; beyond it, all are forgotten.
    private static let memoryLimit = 100_000

    /// - Parameters:
    ///   - client: Speaks to the bucket.
    ///   - prefix: Where in the bucket the container is; empty for all of it.
    ///   - deviceID: Names this machine in the journal; another on every device and drive.
    ///   - stateDirectory: Where uploads that are under way are noted; `nil`: nowhere.
    ///   - pool: Where files are read and written.
    ///   - settings: What it may be told.
    ///   - logger: Hears what is worth noting.
    ///   - keepLogin: Stores credentials that were entered, so that they are used from now on;
    ///     `nil` where none are used.
    init(
        client: S3Client,
        prefix: [UInt8],
        deviceID: String,
        stateDirectory: String?,
        pool: BlockingPool,
        settings: S3ProviderSettings = S3ProviderSettings(),
        logger: Logger,
        keepLogin: KeepLogin? = nil
    ) {
        self.client = client
        begun = client.clocks.elapsed()
        self.keepLogin = keepLogin
        self.settings = settings
        self.logger = logger
        self.deviceID = deviceID
        keys = S3Keys(prefix: prefix)
        journal = S3Journal(
            client: client,
            folder: keys.room + Array("journal/".utf8),
            deviceID: deviceID,
            settings: settings,
            logger: logger
        )
        folderLooks = S3FolderLooks(client: client)
        self.pool = pool
        readOnlyMark = stateDirectory.map { $0 + "/s3-read-only" }
        uploads = S3UploadLedger(
            path: stateDirectory.map { $0 + "/s3-uploads.json" },
            pool: pool,
            logger: logger
        )
        if let readOnlyMark, FileManager.default.fileExists(atPath: readOnlyMark) {
            state.withLock { $0.rules.isReadOnly = true }
        }
    }

    var capabilities: ProviderCapabilities {
        let rules = rules
        var capabilities: ProviderCapabilities = [.changeFeed, .lastingPages]
        if rules.replace != .none { capabilities.insert(.conditionalUpload) }
        if rules.isReadOnly { capabilities.insert(.readOnly) }
        return capabilities
    }

    /// Which conditions the server was found to honour.
    var rules: S3WriteRules { state.withLock { $0.rules } }

    var identity: String { state.withLock { $0.identity ?? "" } }

    func setConnected(identity: String, rules: S3WriteRules) {
        state.withLock { state in
            state.identity = identity
            state.rules = rules
        }
    }

    var hasProbed: Bool { state.withLock { $0.rules.isProbed } }

    /// Makes the next connection find out again what may be written; until then all stays.
    func forgetProbe() {
        state.withLock { $0.rules.isProbed = false }
    }

    func noteLeftProbe(_ key: [UInt8]) {
        state.withLock { $0.leftProbe = key }
    }

    /// - Returns: The key of a probe that was left behind; to one caller only.
    func takeLeftProbe() -> [UInt8]? {
        state.withLock { state in
            defer { state.leftProbe = nil }
            return state.leftProbe
        }
    }

    /// - Returns: Whether it is time to clear away what is left behind; then not again soon.
    func beginsSweep() -> Bool {
        let now = client.clocks.elapsed()
        return state.withLock { state in
            guard !state.rules.isReadOnly else { return false }
            let due = state.nextSweep ?? now + settings.firstSweep
            state.nextSweep = now < due ? due : now + settings.sweepInterval
            return now >= due
        }
    }

    // MARK: - Lost answers

    func hasUnheard(_ key: [UInt8]) -> Bool { !unheard(key).isEmpty }

    func unheard(_ key: [UInt8]) -> [S3SentVersion] { state.withLock { $0.unheard[key] ?? [] } }

    /// Remembers the last few that were sent to a key.
    func noteUnheard(_ sent: S3SentVersion, at key: [UInt8]) {
        state.withLock { state in
            if state.unheard.count >= Self.memoryLimit { state.unheard = [:] }
            state.unheard[key] = ((state.unheard[key] ?? []) + [sent]).suffix(4)
        }
    }

    func forgetUnheard(_ key: [UInt8]) {
        state.withLock { $0.unheard[key] = nil }
    }

    // MARK: - Paths and keys

    /// Where a path is in the bucket.
    struct Place: Sendable {
        /// Of the file; for the container's root, its prefix.
        var key: [UInt8]
        /// Of the folder's marker, and the beginning of all that is in it.
        var folderKey: [UInt8]
        var isRoot: Bool
        /// Whether the name can only mean a folder: a file has the plain name, or can have none.
        var isFolderOnly: Bool
        /// Whether it can only mean a file: `.cloudfs` in the root.
        var isFileOnly = false
    }

    /// - Throws: `notFound` for the provider's own room and for names that no key has.
    func place(_ path: RemotePath) async throws(CloudFSError) -> Place {
        guard let last = path.name else {
            return Place(
                key: keys.prefix,
                folderKey: keys.prefix,
                isRoot: true,
                isFolderOnly: true
            )
        }
        guard path.names.first != .reserved else { throw Self.notFound(path) }
        var parts: [[UInt8]] = []
        for name in path.names.dropLast() { parts.append(try await part(name, in: parts).bytes) }
        let (part, isFolderOnly) = try await part(last, in: parts)
        parts.append(part)
        let isReserved = parts.first == ItemName.reserved.bytes
        guard !isReserved || parts.count == 1 else { throw Self.notFound(path) }
        let key = try keys.key(parts)
        return Place(
            key: key,
            folderKey: key + [UInt8(ascii: "/")],
            isRoot: false,
            // The key of a file without a name would be that of the folder it is in.
            isFolderOnly: isFolderOnly || part.isEmpty,
            isFileOnly: isReserved
        )
    }

    /// The place of something that is to be made or changed.
    ///
    /// - Throws: `denied` for the provider's own room.
    func placeToChange(_ path: RemotePath) async throws(CloudFSError) -> Place {
        guard !path.isRoot, path.names.first != .reserved else {
            throw CloudFSError(.denied, "\"\(path)\" belongs to CloudFS itself")
        }
        return try await place(path)
    }

    private func part(
        _ name: ItemName,
        in parents: [[UInt8]]
    ) async throws(CloudFSError) -> (bytes: [UInt8], isFolderOnly: Bool) {
        var part = try S3Keys.part(of: name, isInRoot: parents.isEmpty)
        if case .long(let stem) = part { part = try await longPart(name, stem, in: parents) }
        switch part {
        case .part(let bytes): return (bytes, false)
        case .folderBesideFile(let bytes): return (bytes, true)
        case .long: throw CloudFSError(.notFound, "\"\(name)\" is not in the bucket")
        }
    }

    /// Finds the part that a name stands for which is too short to hold it.
    private func longPart(
        _ name: ItemName,
        _ stem: [UInt8],
        in parents: [[UInt8]]
    ) async throws(CloudFSError) -> S3Keys.Part {
        let folder = try keys.folderKey(parents)
        let key = LongName(folder: folder, name: name)
        if let known = state.withLock({ $0.longParts[key] }) { return known }
        var found: S3Keys.Part?
        try await client.listAll(prefix: folder + stem, delimiter: true) {
            page throws(CloudFSError) in
            let candidates =
                page.objects.map { $0.key.dropFirst(folder.count) }
                + page.prefixes.map { $0.dropFirst(folder.count).dropLast() }
            for part in candidates {
                found = try S3Keys.long(name, as: Array(part))
                if found != nil { return false }
            }
            return true
        }
        guard let found else {
            throw CloudFSError(.notFound, "\"\(name)\" is not in the bucket")
        }
        state.withLock { state in
            if state.longParts.count >= Self.memoryLimit { state.longParts = [:] }
            state.longParts[key] = found
        }
        return found
    }

    func requireName(_ name: ItemName, isInRoot: Bool) throws(CloudFSError) {
        try S3Keys.requireNew(name, isInRoot: isInRoot)
    }

    func plainName(of name: ItemName) -> ItemName { S3Keys.plain(name) }

    static func notFound(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.notFound, "\"\(path)\" is not in the bucket")
    }

    static func changed(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.remoteChanged, "\"\(path)\" is another version by now")
    }

    // MARK: - Unfinished moves

    func noteMove(_ intent: [UInt8], _ move: OwnMove) {
        state.withLock { state in
            if state.moves.count >= Self.memoryLimit {
                state.moves = state.moves.filter { $0.value.isUnderWay }
            }
            state.moves[intent] = move
        }
    }

    func noteEmptying(_ move: S3MoveIntent?, by intent: [UInt8]) {
        state.withLock { $0.emptying[intent] = move }
    }

    /// Where an object is whose folder this device moves and deletes in the old place already.
    func movedKey(of key: [UInt8]) -> [UInt8]? {
        state.withLock { state in
            let move = state.emptying.values.first { key.starts(with: $0.source) }
            return move.map { $0.target + key.dropFirst($0.source.count) }
        }
    }

    func ownMove(_ intent: [UInt8]) -> OwnMove? { state.withLock { $0.moves[intent] } }

    /// Whether a folder is half of a move, and another one stands for it.
    func isHidden(_ folderKey: [UInt8]) -> Bool {
        state.withLock { state in
            !state.hidden.isEmpty && state.hidden.values.contains { folderKey.starts(with: $0) }
        }
    }

    /// Counts the changes of what is hidden.
    var hiddenChanges: Int { state.withLock { $0.hiddenChanges } }

    /// The keys of folders that are halves of moves, with the count of changes.
    var hiddenFolders: (changes: Int, keys: [[UInt8]]) {
        state.withLock { ($0.hiddenChanges, Array($0.hidden.values)) }
    }

    /// - Parameters:
    ///   - folderKey: `nil` when the move has ended.
    ///   - intent: The key of its intent.
    func setHidden(_ folderKey: [UInt8]?, by intent: [UInt8]) {
        state.withLock { state in
            state.hidden[intent] = folderKey
            state.hiddenChanges += 1
        }
    }

    /// - Returns: Whether nothing was changed since `mark`, and so what was read is true.
    func setHidden(_ hidden: [[UInt8]: [UInt8]], unlessChangedSince mark: Int) -> Bool {
        state.withLock { state in
            guard state.hiddenChanges == mark else { return false }
            if state.hidden != hidden { state.hiddenChanges += 1 }
            state.hidden = hidden
            return true
        }
    }

    // MARK: - Folders

    /// Notes that a folder was seen.
    func noteFolder(_ key: [UInt8], isMarked: Bool = false) {
        state.withLock { state in
            if state.folders.count >= Self.memoryLimit {
                state.folders = []
                state.marked = []
            }
            state.folders.insert(key)
            if isMarked { state.marked.insert(key) }
        }
    }

    /// Others have changed something: what folders there are is asked again.
    func forgetFolders() {
        state.withLock { state in
            state.folders = []
            state.marked = []
        }
    }

    func knowsFolder(_ key: [UInt8]) -> Bool { state.withLock { $0.folders.contains(key) } }

    /// Forgets a folder that was removed, with nothing in it.
    func forgetEmptyFolder(_ key: [UInt8]) {
        state.withLock { state in
            state.folders.remove(key)
            state.marked.remove(key)
        }
    }

    /// Forgets a folder and all in it, which takes as long as looking at all that are known.
    func forgetFolder(_ key: [UInt8]) {
        state.withLock { state in
            state.folders = state.folders.filter { !$0.starts(with: key) }
            state.marked = state.marked.filter { !$0.starts(with: key) }
        }
    }

    /// - Throws: `notFound` unless the folder exists; one that was seen is believed.
    func requireFolder(_ path: RemotePath) async throws(CloudFSError) {
        let place = try await place(path)
        guard !place.isRoot else { return }
        if state.withLock({ $0.folders.contains(place.folderKey) }) { return }
        guard try await !firstObjects(in: place, limit: 1).isEmpty else {
            throw Self.notFound(path)
        }
        noteFolder(place.folderKey)
    }

    /// The first objects below a folder, whatever pages the server makes.
    func firstObjects(in place: Place, limit: Int) async throws(CloudFSError) -> [S3Object] {
        guard !place.isFileOnly, !isHidden(place.folderKey) else { return [] }
        var found: [S3Object] = []
        var check = S3ListingCheck()
        var token: String?
        repeat {
            let page = try await client.list(
                prefix: place.folderKey,
                delimiter: false,
                after: token,
                limit: limit
            )
            try check.note(page)
            found += page.objects
            token = page.next
        } while found.count < limit && token != nil
        return found
    }

    /// Gives a folder a marker before its last object may go: without, it would go too.
    ///
    /// - Returns: Whether time has passed meanwhile, as it was not known to have one.
    @discardableResult
    func keepFolder(_ path: RemotePath) async throws(CloudFSError) -> Bool {
        let place = try await place(path)
        guard !place.isRoot, !state.withLock({ $0.marked.contains(place.folderKey) }) else {
            return false
        }
        do throws(CloudFSError) {
            _ = try await client.head(place.folderKey)
        } catch  where error.code == .notFound {
            _ = try await client.put(
                place.folderKey,
                body: .bytes([]),
                contentType: S3Metadata.folderType,
                condition: rules.create ? .ifNoneMatchAny : .none
            )
        }
        noteFolder(place.folderKey, isMarked: true)
        return true
    }
}

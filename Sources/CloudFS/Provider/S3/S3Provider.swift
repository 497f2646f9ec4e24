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
    let uploads: S3UploadLedger
    let logger: Logger
    private let state = Mutex(State())

    private struct State {
        var identity: String?
        var rules = S3WriteRules()
        /// Folders that are known to exist, by their keys.
        var folders: Set<[UInt8]> = []
        /// Folders that are known to have a marker object.
        var marked: Set<[UInt8]> = []
        /// Folders that are being copied to, by their intents: nothing of them is shown yet.
        var unfinished: [[UInt8]: [UInt8]] = [:]
        /// Parts that are too long for a name, by the folder's key and the name they are shown by.
        var longParts: [LongName: [UInt8]] = [:]
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
    init(
        client: S3Client,
        prefix: [UInt8],
        deviceID: String,
        stateDirectory: String?,
        settings: S3ProviderSettings = S3ProviderSettings(),
        logger: Logger
    ) {
        self.client = client
        self.settings = settings
        self.logger = logger
        keys = S3Keys(prefix: prefix)
        journal = S3Journal(
            client: client,
            folder: keys.room + Array("journal/".utf8),
            deviceID: deviceID,
            settings: settings,
            logger: logger
        )
        uploads = S3UploadLedger(path: stateDirectory.map { $0 + "/s3-uploads.json" })
    }

    var capabilities: ProviderCapabilities {
        rules.replace == .none ? [.changeFeed] : [.changeFeed, .conditionalUpload]
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

    // MARK: - Paths and keys

    /// Where a path is in the bucket.
    struct Place: Sendable {
        /// Of the file; for the container's root, its prefix.
        var key: [UInt8]
        /// Of the folder's marker, and the beginning of all that is in it.
        var folderKey: [UInt8]
        var isRoot: Bool
        /// Whether the name can only mean a folder, as a file has the name itself.
        var isFolderOnly: Bool
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
        return Place(
            key: try keys.key(parts, isFolder: false),
            folderKey: try keys.key(parts, isFolder: true),
            isRoot: false,
            isFolderOnly: isFolderOnly
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
        switch try S3Keys.part(of: name) {
        case .part(let bytes): return (bytes, false)
        case .folderBesideFile(let bytes): return (bytes, true)
        case .long(let stem):
            return (try await longPart(name, stem, in: parents), false)
        }
    }

    /// Finds the part that a name stands for which is too short to hold it.
    private func longPart(
        _ name: ItemName,
        _ stem: [UInt8],
        in parents: [[UInt8]]
    ) async throws(CloudFSError) -> [UInt8] {
        let folder = try keys.key(parents, isFolder: true)
        let key = LongName(folder: folder, name: name)
        if let known = state.withLock({ $0.longParts[key] }) { return known }
        var found: [UInt8]?
        try await client.listAll(prefix: folder + stem, delimiter: true) {
            page throws(CloudFSError) in
            let candidates =
                page.objects.map { $0.key.dropFirst(folder.count) }
                + page.prefixes.map { $0.dropFirst(folder.count).dropLast() }
            for part in candidates where try S3Keys.isName(name, of: Array(part)) {
                found = Array(part)
                return false
            }
            return true
        }
        guard let found else {
            throw CloudFSError(.notFound, "\"\(name)\" is not in the bucket")
        }
        remember(found, as: name, in: folder)
        return found
    }

    /// Remembers what a name stands for that does not tell itself.
    func remember(_ part: [UInt8], as name: ItemName, in folder: [UInt8]) {
        guard part.count > ItemName.maximumByteCount - 64 else { return }
        state.withLock { state in
            if state.longParts.count >= Self.memoryLimit { state.longParts = [:] }
            state.longParts[LongName(folder: folder, name: name)] = part
        }
    }

    static func notFound(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.notFound, "\"\(path)\" is not in the bucket")
    }

    static func changed(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.remoteChanged, "\"\(path)\" is another version by now")
    }

    // MARK: - Unfinished moves

    /// Whether a folder is the half-made copy of another.
    func isUnfinished(_ folderKey: [UInt8]) -> Bool {
        state.withLock { state in
            !state.unfinished.isEmpty
                && state.unfinished.values.contains { folderKey.starts(with: $0) }
        }
    }

    /// - Parameter target: `nil` when the move has ended.
    func setUnfinished(_ intent: [UInt8], _ target: [UInt8]?) {
        state.withLock { $0.unfinished[intent] = target }
    }

    func setUnfinished(_ moves: [[UInt8]: [UInt8]]) {
        state.withLock { $0.unfinished = moves }
    }

    // MARK: - Folders

    /// Notes that a folder was seen.
    func noteFolder(_ key: [UInt8], isMarked: Bool = false) {
        state.withLock { state in
            if state.folders.count >= Self.memoryLimit { state.folders = [] }
            state.folders.insert(key)
            if isMarked { state.marked.insert(key) }
        }
    }

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
        let page = try await client.list(prefix: place.folderKey, delimiter: false, limit: 1)
        guard !page.objects.isEmpty else { throw Self.notFound(path) }
        noteFolder(place.folderKey)
    }

    /// Gives a folder a marker before its last object may go: without, it would go too.
    func keepFolder(_ path: RemotePath) async throws(CloudFSError) {
        let place = try await place(path)
        guard !place.isRoot, !state.withLock({ $0.marked.contains(place.folderKey) }) else {
            return
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
    }
}

/// What one provider may be told.
struct S3ProviderSettings: Sendable {
    /// Files up to this length are sent in one request, larger ones in parts of it; 8 MiB.
    var partByteCount: Int64 = 8 << 20
    /// How many parts of one file are sent at once.
    var parallelParts = 4
    /// How many objects are looked at at once.
    var parallelLooks = 32
    /// The time between two looks into the journal, while the drive is in use and when it is not.
    var pollInterval: Duration = .seconds(1)
    var idlePollInterval: Duration = .seconds(30)
    /// After which time without use or changes the drive counts as idle.
    var idleAfter: Duration = .seconds(300)
    /// How often everything is compared, to find what other tools did.
    var scanInterval: Duration = .seconds(900)
}

/// Which conditions a server honours when objects are written.
struct S3WriteRules: Sendable, Equatable {
    enum Replacing: String, Sendable {
        /// `If-Match` means nothing: what is there is looked at before.
        case none
        case quoted
        case unquoted
    }

    /// Whether `If-None-Match: *` keeps what is there.
    var create = false
    var replace = Replacing.none
    var isProbed = false
    /// Whether nothing can be written at all.
    var isReadOnly = false

    func condition(replacing tag: String?) -> S3Condition {
        guard let tag else { return create ? .ifNoneMatchAny : .none }
        switch replace {
        case .none: return .none
        case .quoted: return .ifMatch(tag, quoted: true)
        case .unquoted: return .ifMatch(tag, quoted: false)
        }
    }
}

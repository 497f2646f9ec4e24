import Logging
import Synchronization

/// What POSIX calls mean on a drive: the dependencies, and what all operations share.
///
/// Methods run on the kernel adapter's worker threads. They finish without the network; what must
/// wait comes back as `Answer.pending`.
///
/// Lock order: claim, then a file's state, then the handle table or the catalog. One of each kind
/// at a time; none is held across a reply or a notification.
final class Filesystem: Sendable {
    let files: OpenFiles
    let hydrator: Hydrator
    let feed: ChangeFeed
    let uploader: Uploader
    let evictor: Evictor
    let downloader: Downloader
    let siblings: SiblingFetcher
    let programs: ReadingPrograms
    let coordinator: Coordinator
    let board = PresenterBoard()
    let promisedNames: PromisedNames
    let locks: LockCoordinator
    let lockClaims = LockClaims()
    let ownerNoted = Signal()
    let handles: HandleTable
    let gone = GoneItems()
    let announced: AnnouncedCalls
    let hub: ChangeHub
    let connection: Connection
    let contentTypes: ContentTypes
    let thumbnails: Thumbnails
    /// `nil` where no desktop's cache is filled.
    let desktop: DesktopThumbnails?
    let virtual: VirtualFolders
    /// `nil` where nobody else hears what people open.
    let recents: RecentUses?
    let options: Options
    let logger: Logger

    struct Options: Sendable {
        var isReadOnly = false
        /// Whether programs that only read wait for coordinated writers, too.
        var isCoordinationEnforced = false
        /// How long an open waits for others to let go of the file.
        var claimTimeout = Duration.seconds(30)
        /// How long the first listing of a folder is waited for.
        var listingDeadline = Duration.seconds(10)
        /// The same for a lookup, which blocks others in its folder.
        var lookupDeadline = Duration.seconds(2)
        var isIgnored: @Sendable (ItemName, Bool) -> Bool
        /// The name of the container that attributes show.
        var containerName: String
    }

    var catalog: Catalog { files.catalog }
    var packages: Packages { feed.applier.packages }
    var replaced: ReplacedFiles { packages.replaced }
    var clocks: Clocks { files.clocks }

    init(
        files: OpenFiles,
        hydrator: Hydrator,
        feed: ChangeFeed,
        uploader: Uploader,
        evictor: Evictor,
        downloader: Downloader,
        siblings: SiblingFetcher,
        programs: ReadingPrograms,
        coordinator: Coordinator,
        promisedNames: PromisedNames,
        locks: LockCoordinator,
        handles: HandleTable,
        announced: AnnouncedCalls = AnnouncedCalls(),
        hub: ChangeHub,
        connection: Connection,
        contentTypes: ContentTypes,
        thumbnails: Thumbnails,
        desktop: DesktopThumbnails?,
        virtual: VirtualFolders,
        recents: RecentUses?,
        options: Options,
        logger: Logger
    ) {
        self.files = files
        self.hydrator = hydrator
        self.feed = feed
        self.uploader = uploader
        self.evictor = evictor
        self.downloader = downloader
        self.siblings = siblings
        self.programs = programs
        self.coordinator = coordinator
        self.promisedNames = promisedNames
        self.locks = locks
        self.handles = handles
        self.announced = announced
        self.hub = hub
        self.connection = connection
        self.contentTypes = contentTypes
        self.thumbnails = thumbnails
        self.desktop = desktop
        self.virtual = virtual
        self.recents = recents
        self.options = options
        self.logger = logger
        hub.subscribeToAll { [virtual] changes, origin in
            // What the engine stores of items all the time is hardly ever what listings show.
            let isQuiet = origin == .engine && !changes.contains { $0.changesNames }
            if !isQuiet { virtual.noteChanged() }
        }
    }

    /// When a change made now may be sent.
    var notBefore: Timestamp { clocks.now() + files.quietTime }

    func requireWritable() throws(CloudFSError) {
        guard !options.isReadOnly else {
            throw CloudFSError(.readOnly, "the drive is mounted read-only")
        }
        guard !isCloudReadOnly else {
            throw CloudFSError(.readOnly, "the cloud permits nothing but reading")
        }
    }

    /// Whether what is written here could never be sent.
    var isCloudReadOnly: Bool { feed.applier.provider.capabilities.contains(.readOnly) }

    var isReadOnly: Bool { options.isReadOnly || isCloudReadOnly }

    /// Refuses what belongs to CloudFS itself.
    ///
    /// - Throws: `notPermitted`.
    func requireFree(_ name: ItemName, in parent: ItemID) throws(CloudFSError) {
        try requireNotVirtual(parent)
        guard parent == .root, name == .reserved else { return }
        throw CloudFSError(.notPermitted, "the name .cloudfs belongs to CloudFS", item: parent)
    }

    /// Refuses what nothing new can be called in the cloud.
    ///
    /// What has the name there can be replaced.
    ///
    /// - Throws: `invalidName`.
    func requireName(_ name: ItemName, in parent: ItemID) throws(CloudFSError) {
        do throws(CloudFSError) {
            try feed.applier.provider.requireName(name, isInRoot: parent == .root)
        } catch {
            let isKnown = try catalog.read { try $0.base(named: name.bytes, in: parent) != nil }
            guard isKnown else { throw error }
        }
    }

    // MARK: - Attributes

    /// What `stat` shows; for a file in use its live size and times.
    func attributes(of record: ItemRecord) -> Attributes {
        let live = liveExtent(of: record.item)
        let record = live?.modified == nil ? upToDate(record) : record
        let item = record.item
        // The content of what is shown as a folder is nobody's to see.
        let size = item.isPackage ? 0 : live?.size ?? item.size
        return Attributes(
            id: item.id,
            kind: item.shownKind,
            permissions: item.shownPermissions,
            linkCount: 1,
            userID: item.metadata.shownUserID,
            groupID: item.metadata.shownGroupID,
            size: size,
            blocks: Self.blocks(size: size, localBytes: live?.allocated ?? record.localBytes),
            accessed: live?.accessed ?? accessed(item),
            modified: live?.modified ?? item.metadata.modified,
            changed: max(item.changed, live?.changed ?? item.changed),
            isCacheable: live?.isMappable != true
        )
    }

    /// The kernel asks after a read, and then keeps what it is told.
    private func accessed(_ item: Item) -> Timestamp {
        guard item.kind == .file, let last = files.unsavedAccess(of: item.id) else {
            return item.accessed
        }
        return max(item.accessed, last)
    }

    /// The record of a file that is not being changed, as the catalog has it now.
    ///
    /// It may have been when the record was read: what was written is in neither, if it was let go
    /// of or sent in between. Only files with changes can have been.
    private func upToDate(_ record: ItemRecord) -> ItemRecord {
        guard record.item.kind == .file, record.hasChangedContent else { return record }
        do throws(CloudFSError) {
            return try catalog.readFew { try $0.item(record.id) } ?? record
        } catch {
            logger.error(
                "the record of a closed file cannot be read",
                metadata: ["item.id": "\(record.id)", "error": "\(error)"]
            )
            return record
        }
    }

    /// Size and times of a file in use, which the catalog may not know yet.
    private func liveExtent(of item: Item) -> LiveExtent? {
        guard item.kind == .file, !item.isPackage, let file = files.live(item.id) else {
            return nil
        }
        return file.state.withLock { state in
            guard state.isLoaded else { return nil }
            var allocated: Int64?
            do throws(CloudFSError) {
                try files.observe(&state, item.id)
                if let direct = state.direct {
                    allocated = direct.seen.allocated
                } else if state.isDirty {
                    allocated = try state.content?.facts().allocated
                }
            } catch {
                logger.error(
                    "the content of an open file cannot be looked at",
                    metadata: ["item.id": "\(item.id)", "error": "\(error)"]
                )
            }
            return LiveExtent(
                size: state.size,
                modified: state.isDirty || !state.isContent(of: item) ? state.modified : nil,
                changed: state.changed,
                accessed: state.accessed,
                allocated: allocated,
                isMappable: state.direct?.isMappable == true
            )
        }
    }

    private struct LiveExtent {
        var size: Int64
        /// That of bytes which the cloud does not have, or which the item got meanwhile; else the
        /// catalog knows it.
        var modified: Timestamp?
        var changed: Timestamp
        var accessed: Timestamp?
        /// Bytes on this machine's disk, if the catalog may not know.
        var allocated: Int64?
        /// Whether they may change without anybody hearing of it.
        var isMappable: Bool
    }

    /// Blocks on this machine's disk, but never 0 for a file with bytes: `tar` and `cp` would take
    /// it for one big hole and store zeros.
    private static func blocks(size: Int64, localBytes: Int64) -> Int64 {
        size == 0 ? 0 : max(1, (localBytes + 511) / 512)
    }

    /// A program asks for something: what nobody waits for makes room.
    func noteRequest() {
        feed.applier.precedence.noteUse()
    }

    func entry(_ record: ItemRecord) -> Entry {
        Entry(attributes: attributes(of: record), isCacheable: true)
    }

    /// Waits for a listing of the folder, with a deadline; for a package as for a read of its
    /// bytes.
    func ensureListed(_ folder: ItemID, within limit: Duration) async throws(CloudFSError) {
        if try await packages.unpackIfOne(folder) { return }
        let timeout = CloudFSError(
            .timedOut,
            "the cloud did not list the folder in time",
            item: folder
        )
        do {
            try await withDeadline(limit, or: timeout) { try await self.feed.ensureListed(folder) }
        } catch let error as CloudFSError {
            // A folder that cannot be listed is never reported as empty or absent.
            let code = error.code == .notFound ? .offline : error.code.ofCloud
            throw code == error.code
                ? error : CloudFSError(code, error.message, item: folder, cause: error)
        } catch {
            throw CloudFSError(.cancelled, "waiting for a listing was interrupted", item: folder)
        }
    }
}

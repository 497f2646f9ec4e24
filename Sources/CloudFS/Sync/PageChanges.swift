/// Applies the differing entries of one page of a listing, inside one transaction.
struct PageChanges {
    struct Outcome: Sendable {
        var unlisted: [ItemID] = []
        var changes: [ItemChange] = []
        /// Items whose content must be looked at under their own lock, after the transaction.
        var contents: [(ItemID, RemoteItem)] = []
        /// What the cloud has here and was left out, because this machine was changing it.
        var skipped: Set<RemoteID> = []
        /// Items that have neither name nor base any more.
        var nameless: [ItemID] = []
        /// Folders of which the children may have been listed where another folder is by now.
        var doubted: [ItemID] = []
        /// Whether files are among the new ones that are to be brought here.
        var hasWanted = false
        /// Whether the folder counts as listed now.
        var isMarked = false
        /// How many entries were looked at, from the first on.
        var count = 0
    }

    let applier: RemoteApplier
    let writer: CatalogWriter
    let folder: ItemID
    let mark: UInt64
    /// Items that are proven to have moved, by their remote id.
    let moves: [RemoteID: ItemID]
    var result = Outcome()
    /// Whether names changed on the way, other than by new items.
    private var hasRearranged = false
    /// What was written here on something that may be among the entries.
    private var unsent: UnsentFiles?

    private var reader: CatalogReader { writer.reader }

    /// How many entries a transaction is good for whoever waits: as many as take a millisecond.
    private static let fewest = 32

    init(
        applier: RemoteApplier,
        writer: CatalogWriter,
        folder: ItemID,
        mark: UInt64,
        moves: [RemoteID: ItemID]
    ) {
        self.applier = applier
        self.writer = writer
        self.folder = folder
        self.mark = mark
        self.moves = moves
    }

    /// Applies entries in their order: all, or at least some if somebody waits for the catalog.
    mutating func apply(_ items: [RemoteItem]) throws {
        let record = try reader.existing(folder)
        let isPinned = try reader.effectivePolicy(of: folder) == .pinned
        let container = record.item.container
        let names = items.map(\.name.bytes)
        let bases = try reader.bases(named: names, in: folder)
        var taken = try reader.taken(names, in: folder)
        for item in items {
            if result.count >= Self.fewest, applier.catalog.isAwaited { break }
            result.count += 1
            let name = item.name.bytes
            let place = NamePlace(parent: folder, name: name)
            guard !applier.mutations.blurs(place, since: mark) else {
                result.skipped.insert(item.id)
                continue
            }
            // Most of what differs is new, and meets nothing.
            let isFree = !hasRearranged && bases[name] == nil && !taken.contains(name)
            if isFree, moves[item.id] == nil {
                taken.insert(name)
                try adopt(item, container: container, isPinned: isPinned)
            } else {
                try apply(item, container: container, isPinned: isPinned)
            }
        }
        // Nobody can have seen what a folder lacks before it was listed for the first time.
        if !record.isListed { result.changes.removeAll { $0.isAppearance } }
        if result.changes.contains(where: { $0.changesEntries(of: folder) }) {
            try writer.touchFolder(folder, at: applier.files.clocks.now())
        }
    }

    private mutating func apply(
        _ remote: RemoteItem,
        container: ContainerID,
        isPinned: Bool
    ) throws {
        let occupant = try reader.base(named: remote.name.bytes, in: folder)
        if let moved = moves[remote.id], moved != occupant?.item {
            guard !skips(remote, as: moved),
                occupant.map({ skips(remote, as: $0.item) }) != true
            else { return }
            if let occupant { try displace(occupant) }
            guard try move(moved, to: remote) else { return }
            // What was listed here before this was known has gone to the wrong one of the two.
            let place = NamePlace(parent: folder, name: remote.name.bytes)
            let now = applier.files.clocks.elapsed()
            let last = occupant?.item ?? applier.whereabouts.lastFolder(at: place, at: now)
            if let last, last != moved { try doubt([moved, last]) }
            return try update(moved, to: remote, isPinned: isPinned)
        }
        if let occupant {
            guard !skips(remote, as: occupant.item) else { return }
            if let lookalike = try applier.lookalike(of: occupant, since: remote.version, reader) {
                guard !skips(remote, as: lookalike.item) else { return }
                try writer.settle(occupant.item, inPlaceOf: lookalike)
                return try meet(remote, container: container, isPinned: isPinned)
            }
            let record = try reader.existing(occupant.item)
            // One that is elsewhere by now is not what has its old place.
            let hasLeft = occupant.remoteID != remote.id && moves[occupant.remoteID] != nil
            if record.item.kind == remote.kind, !hasLeft {
                return try update(occupant.item, to: remote, isPinned: isPinned)
            }
            try displace(occupant)
        }
        try meet(remote, container: container, isPinned: isPinned)
    }

    /// Whether this machine is changing the item, so that nothing sure is known of it.
    private mutating func skips(_ remote: RemoteItem, as id: ItemID) -> Bool {
        guard applier.mutations.blurs(id, since: mark) else { return false }
        result.skipped.insert(remote.id)
        return true
    }

    // MARK: - Known items

    /// Takes a base out of a place that another item has in the cloud now.
    ///
    /// It is found again elsewhere, or turns out to be missing. Until then nobody sees it; but what
    /// is edited, or may be, or is kept here, has a name that it can keep.
    private mutating func displace(_ base: BaseRecord) throws {
        hasRearranged = true
        let old = try ItemName(base.name)
        let record = try reader.existing(base.item)
        let isKept =
            try record.hasChangedContent || applier.files.live(base.item) != nil
            || reader.effectivePolicy(of: base.item) == .excluded
        let free =
            isKept
            ? try applier.conflictName(for: old, in: folder, reader)
            : try reader.displacedName(for: old, of: base.item, in: folder)
        var displaced = base
        displaced.name = free.bytes
        applier.whereabouts.noteLeft(base, by: record.item.kind, at: applier.files.clocks.elapsed())
        try writer.setBase(displaced)
        guard let name = try reader.name(of: base.item), name.parent == folder,
            name.name == base.name
        else { return }
        try writer.moveName(of: base.item, to: free.bytes, in: folder)
        result.changes.append(
            .entryVanished(
                parent: folder,
                name: old,
                item: base.item,
                isFolder: record.item.isFolder,
                isGone: false
            )
        )
        if isKept { result.changes.append(.entryAppeared(parent: folder, name: free)) }
    }

    /// Follows a move made in the cloud, unless the item was moved here too: then ours is sent.
    ///
    /// - Returns: Whether the move makes sense here.
    private mutating func move(_ id: ItemID, to remote: RemoteItem) throws -> Bool {
        guard var base = try reader.base(of: id), try !reader.isInside(folder, of: id) else {
            return false
        }
        let name = try reader.name(of: id)
        let isInPlace = name?.parent == base.parent && name?.name == base.name
        let old = base
        let item = try reader.existing(id).item
        applier.whereabouts.noteLeft(old, by: item.kind, at: applier.files.clocks.elapsed())
        base.parent = folder
        base.name = remote.name.bytes
        try writer.setBase(base)
        try writer.forgetListingPages()
        hasRearranged = true
        guard isInPlace, let oldParent = old.parent else { return true }
        try makeRoom(for: remote)
        try writer.moveName(of: id, to: remote.name.bytes, in: folder)
        result.changes += [
            .entryVanished(
                parent: oldParent,
                name: try ItemName(old.name),
                item: id,
                isFolder: item.isFolder,
                isGone: false
            ),
            .entryAppeared(parent: folder, name: remote.name),
        ]
        return true
    }

    private mutating func update(_ id: ItemID, to remote: RemoteItem, isPinned: Bool) throws {
        guard let base = try reader.base(of: id),
            try reader.effectivePolicy(of: id) != .excluded
        else { return }
        let record = try reader.existing(id)
        let undecided = result.contents.count
        try update(record, base, to: remote, isPinned: isPinned)
        // Whose it is shows when its content is decided.
        guard result.contents.count == undecided, try reader.name(of: id) != nil else { return }
        let (wasSketch, isOther) = (
            base.version.isSketch, base.version.content != remote.version.content
        )
        guard wasSketch || isOther else { return }
        // It was this document here before.
        if remote.isIdentified, record.item.documentID == remote.documentID { return }
        if isOther { try writer.forgetHeir(id) }
        if !remote.isSketch, wasSketch || remote.isIdentified {
            try applier.identify(id, as: remote, writer)
            result.changes.append(.state(id))
        }
        try inherit(id, remote)
    }

    private mutating func update(
        _ record: ItemRecord,
        _ base: BaseRecord,
        to remote: RemoteItem,
        isPinned: Bool
    ) throws {
        let id = record.id
        let isDeleted = try reader.name(of: id) == nil
        guard record.item.kind == .file else {
            // Another target is an edit, which beats a deletion.
            if isDeleted, let target = remote.linkTarget, target != record.item.linkTarget {
                return try restore(record, as: remote, isPinned: isPinned)
            }
            return try updateFolderOrLink(record, base, to: remote)
        }
        let local = Reconciler.Local(
            isDirty: record.hasChangedContent,
            hasChangedMetadata: record.hasChangedMetadata,
            isDeleted: isDeleted
        )
        switch Reconciler.decide(base: base.version, local: local, remote: remote.version) {
        case .nothing where base.remoteID == remote.id:
            break
        case .nothing, .acceptVersion:
            if !local.isDeleted { try applyMetadata(remote, to: id) }
            try writer.setBase(self.base(of: id, remote))
        case .applyMetadata:
            try applyMetadata(remote, to: id)
            try writer.setBase(self.base(of: id, remote))
        case .restore:
            try restore(record, as: remote, isPinned: isPinned)
        case .replaceContent, .recordNewer, .compareOrKeepBoth, .adopt, .remove,
            .removeAfterClose, .removeUnlessWritten, .keepAsNew, .forget:
            result.contents.append((id, remote))
        }
    }

    /// The tombstone goes; the edited version is adopted as a new item in its place.
    private mutating func restore(
        _ record: ItemRecord,
        as remote: RemoteItem,
        isPinned: Bool
    ) throws {
        try writer.removeBase(of: record.id)
        try writer.dequeue(record.id)
        result.nameless.append(record.id)
        try meet(remote, container: record.item.container, isPinned: isPinned)
    }

    private mutating func updateFolderOrLink(
        _ record: ItemRecord,
        _ base: BaseRecord,
        to remote: RemoteItem
    ) throws {
        try applyMetadata(remote, to: record.id)
        if let target = remote.linkTarget, target != record.item.linkTarget {
            try writer.setLinkTarget(target, of: record.id)
            try writer.touch(record.id, at: applier.files.clocks.now())
            result.changes.append(.content(record.id))
        }
        try writer.setBase(self.base(of: record.id, remote))
        // Another folder has the place, where those have no ids: other things are in it.
        if record.item.kind == .folder, base.version.content != remote.version.content {
            result.doubted.append(record.id)
        }
    }

    /// Has folders listed again, and all below them.
    private mutating func doubt(_ items: [ItemID]) throws {
        for item in items where try reader.item(item)?.item.kind == .folder {
            result.doubted += try reader.descendants(of: item).filter {
                try reader.item($0)?.item.kind == .folder && reader.base(of: $0) != nil
            }
        }
    }

    private mutating func applyMetadata(_ remote: RemoteItem, to id: ItemID) throws {
        let now = applier.files.clocks.now()
        guard try writer.takeOverMetadata(of: remote, for: id, at: now) else { return }
        result.changes.append(.attributes(id))
    }

    // MARK: - New items

    /// An item of the cloud that is not known; something local may have its name.
    private mutating func meet(
        _ remote: RemoteItem,
        container: ContainerID,
        isPinned: Bool
    ) throws {
        if let local = try reader.child(remote.name.bytes, of: folder) {
            guard !skips(remote, as: local.id) else { return }
            if try reader.base(of: local.id) == nil, local.item.kind == remote.kind {
                return try join(local, with: remote)
            }
            if local.item.kind == .folder, remote.kind == .folder,
                local.item.documentID == remote.documentID
            {
                // Our own, moved there by this machine in steps, which are not at their end.
                return
            }
            try makeRoom(for: remote)
        }
        try adopt(remote, container: container, isPinned: isPinned)
    }

    /// Both sides made an item of one kind under one name.
    private mutating func join(_ local: ItemRecord, with remote: RemoteItem) throws {
        switch local.item.kind {
        case .folder:
            try takeFor(local, remote)
            result.unlisted.append(local.id)
        case .symlink where local.item.linkTarget == remote.linkTarget:
            try takeFor(local, remote)
        case .file:
            result.contents.append((local.id, remote))
        case .symlink, .fifo, .socket:
            try makeRoom(for: remote)
            try adopt(
                remote,
                container: local.item.container,
                isPinned: false
            )
        }
    }

    /// Takes what the cloud has for the item that was made here.
    private mutating func takeFor(_ local: ItemRecord, _ remote: RemoteItem) throws {
        try writer.setBase(base(of: local.id, remote))
        try applier.identify(local.id, as: remote, writer)
        result.changes.append(.state(local.id))
        try applyMetadata(remote, to: local.id)
        try inherit(local.id, remote)
    }

    /// Gives the local item under the name a conflict name, so that the remote one gets it.
    private mutating func makeRoom(for remote: RemoteItem) throws {
        guard let local = try reader.child(remote.name.bytes, of: folder) else { return }
        hasRearranged = true
        let now = applier.files.clocks.now()
        let free = try applier.conflictName(for: remote.name, in: folder, reader)
        try writer.moveName(of: local.id, to: free.bytes, in: folder)
        try writer.enqueue(local.id, notBefore: now)
        result.changes += [
            .entryReplaced(parent: folder, name: remote.name),
            .entryAppeared(parent: folder, name: free),
        ]
    }

    mutating func adopt(_ remote: RemoteItem, container: ContainerID, isPinned: Bool) throws {
        let id = try applier.adopt(
            remote,
            in: folder,
            container: container,
            isPinned: isPinned,
            writer
        )
        if isPinned, remote.kind == .file { result.hasWanted = true }
        if remote.kind == .folder { result.unlisted.append(id) }
        result.changes.append(.entryAppeared(parent: folder, name: remote.name))
        try inherit(id, remote)
    }

    /// Hands on what was written here on an item that another device has moved to this place.
    private mutating func inherit(_ id: ItemID, _ remote: RemoteItem) throws {
        let unsent = try unsent ?? applier.unsentFiles(reader)
        self.unsent = unsent
        result.changes += try applier.inherit(remote, as: id, from: unsent, writer)
    }

    private func base(of id: ItemID, _ remote: RemoteItem) -> BaseRecord {
        BaseRecord(of: id, in: folder, remote)
    }
}

extension BaseRecord {
    /// What is agreed on once this machine has taken over `remote`.
    init(of id: ItemID, in folder: ItemID, _ remote: RemoteItem) {
        self.init(
            item: id,
            parent: folder,
            name: remote.name.bytes,
            remoteID: remote.id,
            version: remote.knownVersion,
            size: remote.size,
            modified: remote.metadata.modified
        )
    }
    /// The same place with another version.
    func with(_ remote: RemoteItem) -> BaseRecord {
        var base = self
        base.remoteID = remote.id
        base.version = remote.knownVersion
        base.size = remote.size
        base.modified = remote.metadata.modified
        return base
    }
}

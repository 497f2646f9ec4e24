/// Gathers from the catalog what `OutboxStep` decides on.
struct OutboxFacts: Sendable {
    var facts: OutboxStep.Facts
    var record: ItemRecord
    var base: BaseRecord?
    /// Where the item is in the cloud.
    var remotePath: RemotePath?
    /// Where its folder is in the cloud.
    var folderPath: RemotePath?
    var attributes: [String: [UInt8]]
    /// The document that it is in the cloud, or is to be.
    var document: DocumentID
    /// A request whose outcome is not known, and where what it made would be.
    var sent: SentRecord?
    var sentPath: RemotePath?

    /// How names begin that items have in the cloud while they make room for others.
    static let asidePrefix = ".cloudfs-moving-"

    /// Whether the item made room and waits for its turn.
    var isAside: Bool {
        base.map { $0.name.starts(with: Self.asidePrefix.utf8) } ?? false
    }

    /// Where the item is in the cloud, and where it is to be.
    var places: [NamePlace] { [facts.place, facts.base].compactMap { $0 } }

    /// - Returns: `nil` if the item does not exist.
    init?(
        of id: ItemID,
        in reader: CatalogReader,
        at now: Timestamp,
        isIgnored: (ItemName, Bool) -> Bool
    ) throws {
        guard let record = try reader.item(id) else { return nil }
        let name = try reader.name(of: id)
        let base = try reader.base(of: id)
        self.record = record
        self.base = base
        let around = try name.flatMap { try reader.remoteLineage(of: $0.parent) }
        let lineage = try Self.lineage(of: base, beside: name?.parent, around, reader)
        folderPath = try around.map { try RemotePath(lineage: $0) }
        remotePath = try lineage.map { try RemotePath(lineage: $0) }
        // What is none of a program's may be here from earlier, and no cloud takes it.
        attributes = try reader.attributes(of: id).filter {
            RemoteAttribute.isApplications($0.key) || $0.key == RemoteAttribute.favorite
        }
        // Here another item may be known by it: this one, in the place where it was before.
        document =
            base == nil
            ? record.item.documentID : try reader.remoteDocument(of: record, at: now)
        sent = try reader.sent(of: id)
        sentPath = try sent.flatMap { try reader.remotePath(to: $0) }
        facts = OutboxStep.Facts(kind: record.item.kind)
        facts.place = name.map { NamePlace(parent: $0.parent, name: $0.name) }
        facts.base = base.flatMap { base in
            base.parent.map { NamePlace(parent: $0, name: base.name) }
        }
        facts.isDirty = record.item.content.cleanliness != .clean
        facts.isTreeChanged = record.isTreeChanged
        facts.hasChangedMetadata = record.hasChangedMetadata
        facts.isResident = record.item.content.residency == .resident
        facts.isBaseLost = record.isBaseLost
        facts.isDisplaced = ((around ?? []) + (lineage ?? [])).contains(where: \.isDisplaced)
        facts.isUnheard = sent != nil
        facts.unheardNeighbour = try Self.unheardNeighbour(of: id, at: facts, reader)
        facts.isParentInCloud = folderPath != nil
        facts.isExcluded = try reader.effectivePolicy(of: id) == .excluded
        if let name {
            facts.misplacedFolder = try Self.misplacedFolder(above: name, reader)
            facts.isIgnored = try Self.isIgnored(
                name,
                isFolder: record.item.isFolder,
                reader,
                isIgnored
            )
        } else if record.item.kind == .folder {
            facts.remainingChild =
                try reader.bases(in: id).first?.item ?? reader.sent(into: id)?.item
        } else {
            facts.successor = try base.flatMap { try reader.successor(of: $0) }
        }
        if let place = facts.place, facts.base != place {
            facts.occupant = try Self.occupant(of: place, besides: id, reader)
            facts.isInCycle = try Self.makesRoom(id, for: facts.occupant, reader)
        }
    }

    /// - Parameter around: That of `folder`, which most items are in here and in the cloud.
    private static func lineage(
        of base: BaseRecord?,
        beside folder: ItemID?,
        _ around: [BaseRecord]?,
        _ reader: CatalogReader
    ) throws -> [BaseRecord]? {
        guard let base else { return nil }
        guard let parent = base.parent, parent == folder else {
            return try reader.remoteLineage(of: base.item)
        }
        return around.map { [base] + $0 }
    }

    private static func unheardNeighbour(
        of id: ItemID,
        at facts: OutboxStep.Facts,
        _ reader: CatalogReader
    ) throws -> ItemID? {
        for place in [facts.place, facts.base].compactMap({ $0 }) {
            let sent = try reader.sent(to: place.name, in: place.parent)
            if let sent, sent.item != id { return sent.item }
        }
        // Folders move seldom, and the way up is long.
        guard try reader.hasUnheardMove() else { return nil }
        for place in [facts.place, facts.base].compactMap({ $0 }) {
            if let folder = try reader.movingFolder(from: place.parent) { return folder }
        }
        guard facts.kind == .folder, facts.base != nil, facts.base != facts.place
        else { return nil }
        return try reader.unheardMove(across: id)?.item
    }

    /// The nearest folder above a name that is somewhere else in the cloud.
    private static func misplacedFolder(
        above name: NameRecord,
        _ reader: CatalogReader
    ) throws -> ItemID? {
        var current = name.parent
        while let own = try reader.name(of: current) {
            if let base = try reader.base(of: current),
                base.parent != own.parent || base.name != own.name
            {
                return current
            }
            current = own.parent
        }
        return nil
    }

    private static func occupant(
        of place: NamePlace,
        besides id: ItemID,
        _ reader: CatalogReader
    ) throws -> ItemID? {
        let occupant = try reader.base(named: place.name, in: place.parent)?.item
        return occupant == id ? nil : occupant
    }

    /// How many items that want each other's places are followed; only a damaged catalog has more.
    private static let longestCircle = 1_000_000

    /// Whether the chain of occupants, each wanting the next one's place, leads back to `id`, and
    /// `id` is the one that makes room in this circle: that with the lowest number.
    ///
    /// Both ends of the chain are followed in turn, until one shows that it is another one. So all
    /// items of a long chain together cost little more than one, whatever their order.
    private static func makesRoom(
        _ id: ItemID,
        for occupant: ItemID?,
        _ reader: CatalogReader
    ) throws -> Bool {
        guard var ahead = occupant, var behind = try waiter(for: id, reader) else { return false }
        for _ in 0..<longestCircle {
            guard ahead > id, behind >= id else { return false }
            guard let next = try wanted(by: ahead, reader) else { return false }
            if next == id { return try !hasExcluded(id, occupant, reader) }
            ahead = next
            guard let last = try waiter(for: behind, reader) else { return false }
            behind = last
        }
        return false
    }

    /// What has the place in the cloud that an item wants; `nil` if nothing else has.
    private static func wanted(by id: ItemID, _ reader: CatalogReader) throws -> ItemID? {
        guard let name = try reader.name(of: id) else { return nil }
        let place = NamePlace(parent: name.parent, name: name.name)
        return try occupant(of: place, besides: id, reader)
    }

    /// What wants the place that an item has in the cloud; `nil` if nothing else does.
    private static func waiter(for id: ItemID, _ reader: CatalogReader) throws -> ItemID? {
        guard let base = try reader.base(of: id), let parent = base.parent else { return nil }
        let waiter = try reader.child(base.name, of: parent)?.id
        return waiter == id ? nil : waiter
    }

    /// Whether something in the circle of `id` stays where it is: who makes room gains nothing.
    private static func hasExcluded(
        _ id: ItemID,
        _ occupant: ItemID?,
        _ reader: CatalogReader
    ) throws -> Bool {
        var current = occupant
        while let item = current, item != id {
            if try reader.effectivePolicy(of: item) == .excluded { return true }
            current = try wanted(by: item, reader)
        }
        return false
    }

    /// Whether the item stays on this machine because of its name, or of a folder that does.
    private static func isIgnored(
        _ name: NameRecord,
        isFolder: Bool,
        _ reader: CatalogReader,
        _ isIgnored: (ItemName, Bool) -> Bool
    ) throws -> Bool {
        var name = name
        var isFolder = isFolder
        while true {
            if isIgnored(try ItemName(name.name), isFolder) { return true }
            guard try reader.base(of: name.parent) == nil,
                let next = try reader.name(of: name.parent)
            else { return false }
            name = next
            isFolder = true
        }
    }
}

extension OutboxStep {
    /// What a request needs to stay where it is; `nil` for steps that send no request.
    func reservation(_ facts: OutboxFacts) -> PathReservations.Reservation? {
        let own = [facts.remotePath, facts.folderPath].compactMap { $0 }
        let isFolder = facts.record.item.kind == .folder
        switch self {
        case .done, .hold, .waitForPlace, .waitFor, .hydrate, .pack, .forget, .erase, .keepHere:
            return nil
        case .ask:
            let paths = [facts.sentPath, facts.remotePath].compactMap { $0 }
            let changesSubtree = isFolder && facts.sent?.isMove == true
            return PathReservations.Reservation(paths: paths, changesSubtree: changesSubtree)
        case .createFolder, .createSymlink, .upload, .updateMetadata:
            return PathReservations.Reservation(paths: own, changesSubtree: false)
        case .move, .stepAside, .delete:
            let paths = isFolder ? [facts.remotePath].compactMap { $0 } : own
            return PathReservations.Reservation(paths: paths, changesSubtree: isFolder)
        }
    }
}

extension CatalogReader {
    /// Where in the cloud the outcome of a request would be; `nil` if its folder is gone there.
    func remotePath(to sent: SentRecord) throws -> RemotePath? {
        let name = try ItemName(sent.name)
        return try remotePath(of: sent.parent)?.appending(name)
    }
}

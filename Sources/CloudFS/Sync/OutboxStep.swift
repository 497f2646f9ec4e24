/// What the cloud must be told next about one item.
enum OutboxStep: Hashable, Sendable {
    /// Nothing is left to send.
    case done
    /// The name is one that stays on this machine.
    case hold
    /// A request was not answered: the cloud is asked what became of it.
    case ask
    /// Where it is in the cloud is not known until a listing tells.
    case waitForPlace
    /// Another item must be dealt with first: its folder, or what has its place in the cloud.
    case waitFor(ItemID)
    /// Items want each other's places: this one steps aside first.
    case stepAside
    case createFolder
    case createSymlink
    case move
    case hydrate
    /// The tree of a package is newer than its content.
    case pack
    case upload
    case updateMetadata
    case delete
    /// Removed here while it was excluded: what the cloud has is the cloud's alone.
    case forget
    /// Neither here nor in the cloud: the row can go.
    case erase
    /// Bytes that can never be completed: kept here, never sent.
    case keepHere

    /// Whether another item's steps are taken, whose failures say nothing about this one's place.
    var isOfAnother: Bool {
        if case .waitFor = self { true } else { false }
    }

    /// Everything that decides the next step.
    struct Facts: Hashable, Sendable {
        var kind: ItemKind
        /// `nil` for an item that was deleted here.
        var place: NamePlace?
        /// `nil` for an item that the cloud does not have.
        var base: NamePlace?
        var isDirty = false
        /// Whether it is a package whose content is to be made of its tree.
        var isTreeChanged = false
        var hasChangedMetadata = false
        /// Whether the outcome of an earlier request is not known.
        var isUnheard = false
        /// Whether something else has the place of it in the cloud, or that of a folder around it.
        var isDisplaced = false
        /// Another item that may have got the place of this one in the cloud, or a folder around it
        /// that may have got another, unheard.
        var unheardNeighbour: ItemID?
        var isResident = true
        var isBaseLost = false
        /// Whether its name, or that of a folder above, is one that is not synced.
        var isIgnored = false
        /// Whether it, or a folder above, was excluded from syncing.
        var isExcluded = false
        /// Whether the cloud has the folder it is in.
        var isParentInCloud = true
        /// The nearest folder above that the cloud still has at another place.
        var misplacedFolder: ItemID?
        /// Who has the wanted place in the cloud.
        var occupant: ItemID?
        /// Whether the occupant waits, over others or at once, for this item's own place, and this
        /// is the one of them that makes room.
        var isInCycle = false
        /// An item that the cloud still has in this folder, or may have.
        var remainingChild: ItemID?
        /// Of a removed file: the one that was saved in its place, if that has been in the cloud
        /// elsewhere and its new content is not there yet.
        var successor: ItemID?

        var hasNewContent: Bool { isDirty || isTreeChanged }
    }

    /// Decides the next step; after each that succeeds it is asked again.
    static func next(_ facts: Facts) -> OutboxStep {
        // No listing tells anything of what may have been changed, unheard.
        if facts.isUnheard { return .ask }
        if let other = facts.unheardNeighbour { return .waitFor(other) }
        if facts.isDisplaced { return .waitForPlace }
        guard let place = facts.place else { return nextOfDeleted(facts) }
        if facts.isExcluded { return .hold }
        guard facts.kind.isSynced else { return .done }
        if facts.base == nil, facts.isIgnored { return .hold }
        guard facts.isParentInCloud else { return .waitFor(place.parent) }
        // Folders that changed places with what is in them are moved from the top down.
        if facts.base != place, let folder = facts.misplacedFolder { return .waitFor(folder) }
        // Its new place shows no older bytes of it, which may be half of what a program saved.
        if facts.base != nil, facts.base != place, facts.hasNewContent {
            let step = nextOfDirty(facts)
            if step != .keepHere { return step }
        }
        if facts.base != place, let occupant = facts.occupant {
            return facts.isInCycle && facts.base != nil ? .stepAside : .waitFor(occupant)
        }
        guard facts.base != nil else { return nextOfNew(facts) }
        if facts.base != place { return .move }
        if facts.hasNewContent { return nextOfDirty(facts) }
        return facts.hasChangedMetadata ? .updateMetadata : .done
    }

    private static func nextOfDeleted(_ facts: Facts) -> OutboxStep {
        guard facts.base != nil else { return .erase }
        if let child = facts.remainingChild { return .waitFor(child) }
        // Until then the old bytes may be all that a power failure leaves.
        if let successor = facts.successor { return .waitFor(successor) }
        return facts.isExcluded ? .forget : .delete
    }

    private static func nextOfNew(_ facts: Facts) -> OutboxStep {
        switch facts.kind {
        case .folder: .createFolder
        case .symlink: .createSymlink
        case .file: nextOfDirty(facts)
        case .fifo, .socket: .done
        }
    }

    private static func nextOfDirty(_ facts: Facts) -> OutboxStep {
        if facts.isTreeChanged { return .pack }
        if facts.isResident { return .upload }
        return facts.isBaseLost ? .keepHere : .hydrate
    }
}

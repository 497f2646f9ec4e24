/// Decides what becomes of one item, from what was agreed, what is here and what the cloud has.
///
/// Pure. Two rules stand above all: bytes that exist once are never dropped, and what cannot be
/// told apart from a change by somebody else is treated as one.
enum Reconciler {
    /// The item on this machine.
    struct Local: Hashable, Sendable {
        var isDirty = false
        /// Whether a program has it open.
        var isInUse = false
        /// Whether one may write on it.
        var isBeingWritten = false
        var hasChangedMetadata = false
        /// Whether it was deleted here and the cloud was not told yet.
        var isDeleted = false
    }

    enum Decision: Hashable, Sendable {
        case nothing
        /// The cloud has an item that is new here.
        case adopt
        /// Only the tokens changed in a way that matters here; ours will be sent on top.
        case acceptVersion
        case applyMetadata
        /// Drop the outdated bytes here; the new ones come on demand.
        case replaceContent
        /// Remember that there is a newer version, and replace the content after the last close.
        case recordNewer
        /// Both sides have their own bytes: identical ones are no conflict, others are both kept.
        case compareOrKeepBoth
        case remove
        /// Take the name away now, and the content after the last close.
        case removeAfterClose
        /// It may be edited yet: after the last close it is removed, or sent as a new item.
        case removeUnlessWritten
        /// Deleted there, edited here: the edit wins and is sent as a new item.
        case keepAsNew
        /// Deleted on both sides.
        case forget
        /// Deleted here, edited there: the edit wins and the item comes back.
        case restore
    }

    /// - Parameters:
    ///   - base: The version that was last agreed on; `nil` for an item the other side never had.
    ///   - local: The item here; `nil` if this machine does not know it.
    ///   - remote: The version in the cloud; `nil` if the cloud is known not to have it.
    static func decide(
        base: ItemVersion?,
        local: Local?,
        remote: ItemVersion?
    ) -> Decision {
        guard let local else { return remote == nil ? .nothing : .adopt }
        switch (base, remote) {
        case (nil, nil): return .nothing
        case (nil, .some): return local.isDeleted ? .adopt : .compareOrKeepBoth
        case (.some, nil): return decideGone(local)
        case (.some(let base), .some(let remote)):
            return decideChanged(local, from: base, to: remote)
        }
    }

    private static func decideGone(_ local: Local) -> Decision {
        if local.isDeleted { return .forget }
        if local.isDirty { return .keepAsNew }
        if local.isBeingWritten { return .removeUnlessWritten }
        return local.isInUse ? .removeAfterClose : .remove
    }

    private static func decideChanged(
        _ local: Local,
        from base: ItemVersion,
        to remote: ItemVersion
    ) -> Decision {
        guard remote != base else { return .nothing }
        guard remote.content != base.content else {
            return local.hasChangedMetadata || local.isDeleted ? .acceptVersion : .applyMetadata
        }
        if local.isDeleted { return .restore }
        if local.isDirty { return .compareOrKeepBoth }
        return local.isInUse ? .recordNewer : .replaceContent
    }
}

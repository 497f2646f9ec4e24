/// What a presenter is asked or told about its item, named as in `NSFilePresenter`.
struct PresenterMessage: Hashable, Sendable {
    enum Kind: String, Sendable, CaseIterable {
        /// Asked: to let go of the item until `reacquire`.
        case relinquishToReader
        case relinquishToWriter
        /// Asked: to write what only the presenter knows.
        case saveChanges
        /// Asked: to be ready for the item to go.
        case accommodateDeletion
        /// Asked: the same for an item in the presented folder or package.
        case accommodateSubitemDeletion
        /// Reserved, eviction asks nobody yet: to be ready for the local bytes to go; they stay in
        /// the cloud.
        case accommodateEviction

        /// Told: who was let in is done.
        case reacquire
        case didChange
        case didMove
        case wasDeleted
        case didChangeAttributes
        case didGainVersion
        case didResolveVersion
        case subitemDidAppear
        case subitemDidChange
        case subitemDidMove
        case subitemWasDeleted

        /// Whether somebody waits for the answer.
        var isQuestion: Bool {
            switch self {
            case .relinquishToReader, .relinquishToWriter, .saveChanges, .accommodateDeletion,
                .accommodateSubitemDeletion, .accommodateEviction:
                true
            case .reacquire, .didChange, .didMove, .wasDeleted, .didChangeAttributes,
                .didGainVersion, .didResolveVersion, .subitemDidAppear, .subitemDidChange,
                .subitemDidMove, .subitemWasDeleted:
                false
            }
        }
    }

    /// Not used before; an answer names it.
    var id: UInt64
    var kind: Kind
    /// What it is about: the presented item, or one in it.
    var item: ItemID
}

extension AccessIntent {
    /// What the presenters of the item are asked before the access begins, in this order.
    var questions: [PresenterMessage.Kind] {
        switch access {
        case .reading(let options):
            if options.contains(.metadataOnly) { return [] }
            return options.contains(.withoutChanges)
                ? [.relinquishToReader] : [.relinquishToReader, .saveChanges]
        case .writing(.forDeleting), .writing(.forReplacing):
            return [.relinquishToWriter, .accommodateDeletion]
        case .writing(.forMerging): return [.relinquishToWriter, .saveChanges]
        case .writing(.updating), .writing(.forMoving): return [.relinquishToWriter]
        case .writing(.metadataOnly): return []
        }
    }
}

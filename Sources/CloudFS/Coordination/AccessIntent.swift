/// On whose behalf an item is claimed: claims of one purpose never wait for each other.
///
/// All plain access through a mount is one purpose, a coordinated program is another.
struct Purpose: Hashable, Sendable, CustomStringConvertible {
    let rawValue: String

    init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    var description: String { rawValue }
}

/// What somebody means to do with an item; options are named as in `NSFileCoordinator`.
struct AccessIntent: Hashable, Sendable {
    struct ReadingOptions: OptionSet, Hashable, Sendable {
        let rawValue: UInt8

        /// Presenters are not asked to save first.
        static let withoutChanges = ReadingOptions(rawValue: 1 << 0)
        /// Only metadata is read: neither waits for writers nor makes them wait.
        static let metadataOnly = ReadingOptions(rawValue: 1 << 2)
        /// A stable snapshot is made for the cloud.
        static let forUploading = ReadingOptions(rawValue: 1 << 3)
    }

    /// Why an item is written, one at a time.
    enum WritingOption: UInt8, Hashable, Sendable {
        case updating
        case forDeleting
        case forMoving
        case forMerging
        case forReplacing
    }

    enum Access: Hashable, Sendable {
        case reading(ReadingOptions)
        case writing(WritingOption)
    }

    var item: ItemID
    var access: Access

    /// The wish to read an item.
    static func reading(_ item: ItemID, _ options: ReadingOptions = []) -> AccessIntent {
        AccessIntent(item: item, access: .reading(options))
    }

    /// The wish to write an item.
    static func writing(_ item: ItemID, _ option: WritingOption = .updating) -> AccessIntent {
        AccessIntent(item: item, access: .writing(option))
    }

    /// How the intent counts against others on the same item.
    enum Weight: Int, Comparable, Sendable {
        case nothing
        case read
        case write

        static func < (left: Weight, right: Weight) -> Bool { left.rawValue < right.rawValue }

        /// Whether the two cannot go on at the same time.
        func conflicts(with other: Weight) -> Bool {
            self != .nothing && other != .nothing && (self == .write || other == .write)
        }
    }

    var weight: Weight {
        switch access {
        case .reading(let options): options.contains(.metadataOnly) ? .nothing : .read
        case .writing: .write
        }
    }
}

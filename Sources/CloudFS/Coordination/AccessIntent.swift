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

/// Who asks for a claim.
struct Claimant: Hashable, Sendable {
    var purpose: Purpose
    /// The process or thread that asks; 0 for the drive itself.
    var process: Int32
    /// The purposes of coordinated programs that this plain one belongs to: it waits for none of
    /// them.
    var sponsors: Set<Purpose>

    init(_ purpose: Purpose, process: Int32 = 0, sponsors: Set<Purpose> = []) {
        self.purpose = purpose
        self.process = process
        self.sponsors = sponsors
    }

    /// On whose behalf it asks.
    var purposes: Set<Purpose> { sponsors.union([purpose]) }

    /// Whether the two never wait for each other.
    func goesAlong(with other: Claimant) -> Bool {
        if sponsors.isEmpty, other.sponsors.isEmpty { return purpose == other.purpose }
        return !purposes.isDisjoint(with: other.purposes)
    }

    /// Who stands still while a claim waits: a ring of these is a deadlock.
    ///
    /// Plain programs share one purpose, and yet one of them goes on while another waits.
    enum Waiter: Hashable, Sendable {
        case thread(Int32)
        case purpose(Purpose)
    }

    var waiter: Waiter { purpose == .mount ? .thread(process) : .purpose(purpose) }
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
    enum WritingOption: UInt8, Hashable, Sendable, CaseIterable {
        case updating
        case forDeleting
        case forMoving
        case forMerging
        case forReplacing
        /// Metadata that does not depend on the content, as tags are.
        case metadataOnly
    }

    enum Access: Hashable, Sendable {
        case reading(ReadingOptions)
        case writing(WritingOption)
    }

    var item: ItemID
    var access: Access
    /// Whether the item is a folder, and no package.
    var isFolder = false
    /// The package that the item is in; known of what is claimed.
    var package: ItemID?

    /// What counts against others: of a package all is one thing.
    var unit: ItemID { package ?? item }

    /// The wish to read an item.
    static func reading(_ item: ItemID, _ options: ReadingOptions = []) -> AccessIntent {
        AccessIntent(item: item, access: .reading(options))
    }

    /// The wish to write an item.
    static func writing(
        _ item: ItemID,
        _ option: WritingOption = .updating,
        isFolder: Bool = false
    ) -> AccessIntent {
        AccessIntent(item: item, access: .writing(option), isFolder: isFolder)
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

    /// Whether it counts against everybody who uses something below the folder, too.
    var isSweeping: Bool {
        guard isFolder, case .writing(let option) = access else { return false }
        return switch option {
        case .forDeleting, .forMoving, .forReplacing: true
        case .updating, .forMerging, .metadataOnly: false
        }
    }
}

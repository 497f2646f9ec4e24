import CloudFSControlAPI
public import Foundation

/// What a program wants to do with one item, as `NSFileAccessIntent`.
public struct FileAccessIntent: Sendable, Hashable {
    /// How an item is read.
    public struct ReadingOptions: OptionSet, Sendable, Hashable {
        public let rawValue: UInt

        public init(rawValue: UInt) {
            self.rawValue = rawValue
        }

        /// Presenters are not asked to save first.
        public static let withoutChanges = ReadingOptions(rawValue: 1 << 0)
        /// Waits for nobody, and nothing is downloaded.
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 1 << 2)
        /// A copy is made, nothing else.
        public static let forUploading = ReadingOptions(rawValue: 1 << 3)
    }

    /// Why an item is written; of several options the API takes none.
    public enum WritingOption: String, Sendable, Hashable {
        case updating
        case forDeleting
        case forMoving
        case forMerging
        case forReplacing
        case contentIndependentMetadataOnly
    }

    enum Access: Sendable, Hashable {
        case reading(ReadingOptions)
        case writing(WritingOption)
    }

    /// Where the item is; in an accessor, where it is by then.
    public internal(set) var url: URL
    let access: Access

    public static func reading(_ url: URL, options: ReadingOptions = []) -> FileAccessIntent {
        FileAccessIntent(url: url, access: .reading(options))
    }

    public static func writing(
        _ url: URL,
        option: WritingOption = .updating
    ) -> FileAccessIntent {
        FileAccessIntent(url: url, access: .writing(option))
    }

    /// What the control API calls it.
    func wire(at path: DrivePath) -> ClaimIntent {
        switch access {
        case .reading(let options):
            var words: [ClaimIntent.Option] = []
            if options.contains(.withoutChanges) { words.append(.withoutChanges) }
            if options.contains(.immediatelyAvailableMetadataOnly) {
                words.append(.immediatelyAvailableMetadataOnly)
            }
            if options.contains(.forUploading) { words.append(.forUploading) }
            return ClaimIntent(path: path, access: .read, options: words)
        case .writing(let option):
            let word = ClaimIntent.Option(rawValue: option.rawValue)
            return ClaimIntent(path: path, access: .write, options: word.map { [$0] } ?? [])
        }
    }
}

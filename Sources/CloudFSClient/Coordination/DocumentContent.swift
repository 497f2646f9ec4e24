public import Foundation

/// What a document is to its program: a value that can be read from bytes and written as bytes.
public protocol DocumentContent: Sendable {
    /// What a new document holds.
    init()

    /// - Throws: What is wrong with the bytes, for people.
    init(contents: Data) throws

    func contents() throws -> Data

    /// What file managers show of the document, here and on devices that do not have its bytes.
    ///
    /// - Returns: A JPEG or PNG of at most 64 KiB; `nil` for what the system makes of the file.
    func thumbnail() -> Data?

    /// Extended attributes to write with the content, by their full names (`user.…`); others stay.
    func attributes() -> [String: Data]
}

extension DocumentContent {
    public func thumbnail() -> Data? { nil }

    public func attributes() -> [String: Data] { [:] }
}

/// What a document can be besides normal, which is none of these; as `UIDocument.State`.
public struct DocumentState: OptionSet, Sendable, Hashable {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }

    public static let normal: DocumentState = []
    /// Not opened yet, or closed again, or deleted by others.
    public static let closed = DocumentState(rawValue: 1 << 0)
    /// Others have changed it too: there are versions to choose from.
    public static let inConflict = DocumentState(rawValue: 1 << 1)
    /// The last save failed; what was edited is here still.
    public static let savingError = DocumentState(rawValue: 1 << 2)
    /// Others are about to use it: `edit` is refused until they are done.
    public static let editingDisabled = DocumentState(rawValue: 1 << 3)
    /// It is being brought here.
    public static let progressAvailable = DocumentState(rawValue: 1 << 4)
}

/// Why a document does not do what it is asked for.
public enum DocumentError: Error, Sendable, CustomStringConvertible {
    case closed(URL)
    case editingDisabled(URL)
    /// The file is not the one that was read: saving would undo what others did.
    case changedElsewhere(URL)

    public var description: String {
        switch self {
        case .closed(let url): "\(url.lastPathComponent) is not open"
        case .editingDisabled(let url): "\(url.lastPathComponent) is being used by others"
        case .changedElsewhere(let url):
            "\(url.lastPathComponent) was changed by others; revert, or save over it"
        }
    }
}

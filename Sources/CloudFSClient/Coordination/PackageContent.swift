public import Foundation

/// What a document is to its program if it is a folder of several files, such as a text with its
/// pictures; as `FileWrapper` documents.
///
/// In a drive its name is that of a package (`docs/packages.md`): other devices get all files of
/// one save, or none.
public protocol PackageContent: DocumentContent {
    /// - Parameter files: What the package holds, by paths from it.
    /// - Throws: What is wrong with them, for people.
    init(files: [String: Data]) throws

    /// What it is to hold, by paths from it: `text.md`, `pictures/1.png`.
    func files() throws -> [String: Data]
}

extension PackageContent {
    public init(contents: Data) throws { throw PackageError.isFile }

    public func contents() throws -> Data { throw PackageError.isFile }
}

/// How a document is made of a package's files, and they of it.
struct PackageForm<Content: DocumentContent>: Sendable {
    var content: @Sendable ([String: Data]) throws -> Content
    var files: @Sendable (Content) throws -> [String: Data]
}

/// Why a package cannot be read or written.
public enum PackageError: Error, Sendable, CustomStringConvertible {
    /// There is a file where a package is expected.
    case isFile
    /// A path leads out of the package, or is none.
    case badPath(String)

    public var description: String {
        switch self {
        case .isFile: "it is a file, not a package"
        case .badPath(let path): "\(path) cannot be in a package"
        }
    }
}

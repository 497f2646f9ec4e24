public import CloudFSControlAPI
public import Foundation

/// Finds a document again after it was moved or renamed, by whomever and on whichever device: as
/// the bookmark data of `URL`.
///
/// What differs: it is text, which only its user can make, and it is good in every drive of the
/// same container. A drive that is not mounted is not looked into: there would be nothing to open.
public struct Bookmark: Sendable, Hashable, Codable {
    /// To be kept.
    public let token: String

    /// What a bookmark leads to now.
    public struct Resolution: Sendable, Hashable {
        public let url: URL
        /// Whether `bookmark` is to be kept instead: the document was moved.
        public let isStale: Bool
        /// Whether the document is gone, and something else has its path.
        public let isReplaced: Bool
        public let bookmark: Bookmark
    }

    /// A bookmark that was kept.
    public init(token: String) {
        self.token = token
    }

    /// Makes a bookmark of an item of a drive.
    ///
    /// - Throws: `DriveClientError`.
    public init(of url: URL) async throws {
        let place = try DriveLocator.current().location(of: url.path(percentEncoded: false))
        token = try await DriveClient(place.drive).bookmark(place.path).token
    }

    /// Finds the item.
    ///
    /// - Throws: `DriveClientError`; `BookmarkFailure` where no drive has its container.
    public func resolve() async throws -> Resolution {
        let (drive, status) = try await find(in: DriveLocator.current().drives())
        return Resolution(
            url: drive.url(of: status.path),
            isStale: status.isStale,
            isReplaced: status.foundBy == .path,
            bookmark: Bookmark(token: status.token)
        )
    }

    /// Asks drives, one after the other, until one has the container.
    ///
    /// Those of the same URL first. What others say is of no interest unless it is an answer: they
    /// may be other users', or of another version.
    ///
    /// - Throws: What the drive that has it says; else `BookmarkFailure`.
    public func find(
        in drives: [DriveAddress]
    ) async throws -> (drive: DriveAddress, status: BookmarkStatus) {
        guard let known = BookmarkToken(text: token) else { throw BookmarkFailure.invalid }
        let mounted = drives.filter { $0.isMounted && $0.isListening }
        let isLikely = { (drive: DriveAddress) in
            drive.record?.containerURL == known.containerURL
        }
        var failure: DriveClientError?
        for drive in mounted.filter(isLikely) + mounted.filter({ !isLikely($0) }) {
            do throws(DriveClientError) {
                return (drive, try await DriveClient(drive).resolveBookmark(token))
            } catch {
                if case .failure(let refusal) = error, refusal.code == "crossContainer" { continue }
                if isLikely(drive) { failure = failure ?? error }
            }
        }
        throw failure ?? BookmarkFailure.notMounted(containerURL: known.containerURL)
    }
}

/// Why a bookmark leads nowhere, before a drive was asked.
public enum BookmarkFailure: Error, Sendable, Hashable, CustomStringConvertible {
    case invalid
    /// No drive with its container is mounted.
    case notMounted(containerURL: String)

    public var description: String {
        switch self {
        case .invalid: "this is no bookmark"
        case .notMounted(""): "no drive with the container of this bookmark is mounted"
        case .notMounted(let url): "mount \(url) first: the bookmark is of a document there"
        }
    }
}

import CloudFSControlAPI
public import Foundation

/// What a drive knows of one item, whether its bytes are here or not, as `NSMetadataItem`.
public struct MetadataItem: Sendable, Hashable {
    public enum Kind: String, Sendable {
        case file
        case folder
        case symlink
        case fifo
        case socket
    }

    public let url: URL
    public let kind: Kind
    /// Bytes of content; 0 for a folder.
    public let size: Int64
    public let contentChangeDate: Date
    /// 0 to 100.
    public let percentDownloaded: Double
    /// 0 to 100 while the item is being sent, or waits to be.
    public let percentUploaded: Double?
    public let hasUnresolvedConflicts: Bool
    /// What sending or fetching it failed with.
    public let error: String?
    /// The MIME type, as its name tells it.
    public let contentType: String?
    /// Stays with the document when it is renamed, moved or saved, on every device.
    public let documentIdentifier: String

    public var name: String { url.lastPathComponent }

    init(_ status: ItemStatus, of drive: DriveAddress) {
        url = drive.url(of: status.path)
        kind = Kind(rawValue: status.kind.rawValue) ?? .file
        size = status.size
        contentChangeDate = status.modified.date
        percentDownloaded = status.percentDownloaded
        percentUploaded = status.percentUploaded
        hasUnresolvedConflicts = status.hasConflicts
        error = status.error
        contentType = status.contentType
        documentIdentifier = status.documentID
    }
}

extension WireTime {
    var date: Date { Date(timeIntervalSince1970: Double(nanoseconds) / 1e9) }
}

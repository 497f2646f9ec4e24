/// Small files that lie beside the items of a container and are none themselves: thumbnails, the
/// list of what was opened last, and attributes that items have no room for.
///
/// The written contract, which `SidecarStoreContractTests` holds every store to:
///
/// - A file is there with all its bytes or not at all, whoever writes it at the same time; the
///   last one stays.
/// - `read` is `nil` only where the store is certain that there is no such file.
/// - What was written survives a power failure.
public protocol SidecarStore: Sendable {
    /// The bytes of a file; `nil` if there is none.
    ///
    /// - Throws: `tooLarge` for one of more than `limit` bytes; `offline`, `timedOut`, `denied`.
    func read(_ name: SidecarName, atMost limit: Int) async throws(CloudFSError) -> [UInt8]?

    /// Stores a file, in place of any that is there.
    func write(_ bytes: [UInt8], to name: SidecarName) async throws(CloudFSError)

    /// Removes a file; one that is gone already is no error.
    func remove(_ name: SidecarName) async throws(CloudFSError)
}

/// Where a sidecar lies below `.cloudfs`.
public struct SidecarName: Hashable, Sendable {
    public enum Room: String, Sendable {
        case thumbnails
        case recents
        case attributes
    }

    public let room: Room
    /// Small letters, digits and dots, beginning with two hexadecimal digits.
    public let name: String

    /// - Parameter name: At least three characters that need no escape anywhere.
    public init(room: Room, name: String) {
        let isPlain = name.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x61...0x7a).contains($0) || $0 == 0x2e
        }
        precondition(isPlain && name.utf8.count > 2, "the name of a sidecar is not plain")
        self.room = room
        self.name = name
    }

    /// The folders it lies in, below the provider's room: many files in one folder are slow.
    var folders: [[UInt8]] { [Array(room.rawValue.utf8), Array(name.utf8.prefix(2))] }

    var bytes: [UInt8] { Array(name.utf8) }

    static func tooLarge(_ limit: Int) -> CloudFSError {
        CloudFSError(.tooLarge, "a sidecar in the cloud is longer than \(limit) bytes")
    }
}

import CloudFSControlAPI
public import Foundation
import Glibc

/// One of several versions of a document that two devices saved at once, as `NSFileVersion`.
///
/// What differs: every version is a file beside the document that any program can read, so there is
/// nothing to fetch or to restore; versions of the past are not kept.
public struct FileVersion: Sendable, Hashable {
    /// The file that is the version.
    public let url: URL
    /// Whether it lost: the version that has the document's name did not.
    public let isConflict: Bool
    public let modificationDate: Date
    /// In bytes.
    public let size: Int64
    /// The device that saved it, where its name tells.
    public let localizedNameOfSavingComputer: String?

    // MARK: - Finding versions

    /// The version that has the document's name.
    ///
    /// - Parameter url: The document, or one of its conflict versions.
    /// - Throws: `DriveClientError`.
    public static func currentVersionOfItem(at url: URL) async throws -> FileVersion {
        try await versions(of: url).current
    }

    /// The versions that lost, and are not resolved.
    ///
    /// - Throws: `DriveClientError`.
    public static func unresolvedConflictVersionsOfItem(
        at url: URL
    ) async throws -> [FileVersion] {
        try await versions(of: url).others
    }

    private static func versions(
        of url: URL
    ) async throws -> (current: FileVersion, others: [FileVersion]) {
        let place = try DriveLocator.current().location(of: url.path(percentEncoded: false))
        let client = DriveClient(place.drive)
        let group = try await client.conflictVersions(of: place.path)
        let page = try await client.items(ItemQuery(paths: [group.path]))
        guard let item = page.items.first else {
            throw DriveClientError.failure(
                ControlFailure(code: "notFound", message: "\(group.path) does not exist")
            )
        }
        let current = FileVersion(
            url: place.drive.url(of: item.path),
            isConflict: false,
            modificationDate: item.modified.date,
            size: item.size,
            localizedNameOfSavingComputer: nil
        )
        let others = group.versions.map { version in
            FileVersion(
                url: place.drive.url(of: version.path),
                isConflict: true,
                modificationDate: version.modified.date,
                size: version.size,
                localizedNameOfSavingComputer: version.device
            )
        }
        return (current, others)
    }

    // MARK: - Ending a conflict

    /// Has this version be the document; the others are removed, here and on other devices.
    ///
    /// - Throws: `DriveClientError`, also where it is in conflict no more.
    public func keep() async throws {
        try await resolve(.this)
    }

    /// Has every version be a document of its own; nothing is removed.
    public func keepAll() async throws {
        try await resolve(.all)
    }

    /// Removes all versions but the one that has the document's name: what they held is in it, or
    /// not wanted.
    public static func removeOtherVersionsOfItem(at url: URL) async throws {
        try await currentVersionOfItem(at: url).keep()
    }

    private func resolve(_ keep: ConflictResolution.Keep) async throws {
        let place = try DriveLocator.current().location(of: url.path(percentEncoded: false))
        let client = DriveClient(place.drive)
        let group = try await client.conflictVersions(of: place.path)
        let versions = group.versions.map(\.path)
        try await FileCoordinator().coordinate(
            with: ([group.path] + versions).map {
                .writing(place.drive.url(of: $0), option: .forMerging)
            }
        ) { _ in
            _ = try await client.resolve(place.path, keeping: keep, of: versions)
        }
    }

    /// Removes this version only.
    public func remove() async throws {
        try await FileCoordinator().coordinate(writingItemAt: url, option: .forDeleting) { url in
            try Self.removeItem(at: url)
        }
    }

    /// Removes a file, or all of a folder: the version of a package is one.
    static func removeItem(at url: URL) throws {
        let path = url.path(percentEncoded: false)
        var status = stat()
        guard lstat(path, &status) == 0 else { throw SystemFailure(url) }
        guard status.st_mode & S_IFMT != S_IFDIR else {
            return try FileManager.default.removeItem(at: url)
        }
        guard unlink(path) == 0 else { throw SystemFailure(url) }
    }
}

public import CloudFSControlAPI
import Foundation
import Glibc

/// Finds drives: the one a path lies in, or all of a user.
///
/// Reads the mount table and the records beside the sockets; never touches a mount.
public struct DriveLocator: Sendable {
    /// A path in a drive.
    public struct Location: Sendable, Hashable {
        public var drive: DriveAddress
        public var path: DrivePath

        public init(drive: DriveAddress, path: DrivePath) {
            self.drive = drive
            self.path = path
        }
    }

    private let resolver: PathResolver
    private let user: UInt32
    /// The folders to look into; by default those of the user who mounted.
    private let folders: [RuntimeDirectory]?

    public init(
        mounts: MountTable,
        workingFolder: String,
        user: UInt32? = nil,
        folders: [RuntimeDirectory]? = nil
    ) {
        resolver = PathResolver(mounts: mounts, workingFolder: workingFolder)
        self.user = user ?? geteuid()
        self.folders = folders
    }

    /// A locator for this process, now.
    public static func current() throws(DriveClientError) -> DriveLocator {
        DriveLocator(
            mounts: try .current(),
            workingFolder: try PathResolver.currentFolder()
        )
    }

    /// Where `path` lies.
    ///
    /// The drive may be dead: see `DriveAddress.isListening`.
    ///
    /// - Throws: `notInDrive`, `otherUser`, `insecure`.
    public func location(of path: String) throws(DriveClientError) -> Location {
        // Else it would be the working folder: a script's unset variable, the whole drive.
        guard !path.isEmpty else { throw .notInDrive(path: path) }
        guard let place = resolver.place(of: path) else { throw .notInDrive(path: path) }
        let first = try location(of: place, path)
        // Links inside are followed by asking the drive, so only where somebody answers; and not
        // at all where there can be none between the mountpoint and the last name.
        guard place.names.count > 1, first.drive.isListening,
            let followed = resolver.followingLinks(path), followed != place
        else { return first }
        return try location(of: followed, path)
    }

    private func location(
        of place: PathResolver.Place,
        _ original: String
    ) throws(DriveClientError) -> Location {
        // A bind mount shows a folder of a drive; its daemon knows the drive's own mountpoint.
        let origins = resolver.mounts.origins(of: place.mount)
        let below = place.mount.root.split(separator: "/").map { Array($0.utf8) }
        guard let path = DrivePath(names: below + place.names.map { Array($0.utf8) }) else {
            throw .notInDrive(path: original)
        }
        var first: DriveAddress?
        for origin in origins.isEmpty ? [place.mount] : origins {
            let found = try address(of: origin)
            if found.isListening { return Location(drive: found, path: path) }
            first = first ?? found
        }
        guard let first else { throw .notInDrive(path: original) }
        return Location(drive: first, path: path)
    }

    /// Where this user's own drives are mounted whose daemons have left a record, and no socket
    /// that anybody listens on.
    var unservedMountpoints: [String] {
        resolver.mounts.drives.filter { mount in
            guard mount.userID ?? user == user else { return false }
            do throws(DriveClientError) {
                let drive = try address(of: mount)
                return drive.record != nil && !drive.isListening
            } catch {
                // Whoever asks for this drive will hear of it.
                return false
            }
        }.map(\.mountpoint)
    }

    /// All drives of this user, those whose daemon is gone included; for root, of everybody.
    public func drives() throws(DriveClientError) -> [DriveAddress] {
        var found: [DriveAddress] = []
        for mount in resolver.mounts.drives where user == 0 || mount.userID ?? user == user {
            found.append(try address(of: mount))
        }
        for folder in folders ?? RuntimeDirectory.candidates(user: user) {
            for record in try records(in: folder) {
                guard !found.contains(where: { $0.mountpoint == record.mountpoint }) else {
                    continue
                }
                found.append(address(record.mountpoint, in: folder, record: record))
            }
        }
        return found.sorted { $0.mountpoint < $1.mountpoint }
    }

    /// Removes the record and socket of a drive that is neither mounted nor served.
    public func forget(_ drive: DriveAddress) throws(DriveClientError) {
        guard !drive.isMounted, SocketProbe.ask(drive.socketPath) != .listening else { return }
        for path in [drive.socketPath, String(drive.socketPath.dropLast(4)) + "json"] {
            guard unlink(path) == 0 || errno == ENOENT else {
                throw .system(path: path, errno: errno)
            }
        }
    }

    // MARK: - Sockets and records

    private func address(of mount: MountTable.Mount) throws(DriveClientError) -> DriveAddress {
        let owner = mount.userID ?? user
        guard user == 0 || owner == user else {
            throw .otherUser(mountpoint: mount.mountpoint, user: owner)
        }
        let candidates = folders ?? RuntimeDirectory.candidates(user: owner)
        var best: DriveAddress?
        var fault: RuntimeDirectory.Fault?
        for folder in candidates {
            if let found = Self.fault(of: folder) {
                if found != .absent(path: folder.path) { fault = fault ?? found }
                continue
            }
            let path = folder.recordPath(mountpoint: mount.mountpoint)
            let found = address(mount.mountpoint, in: folder, record: Self.record(at: path))
            if found.isListening { return found }
            if best?.record == nil { best = found }
        }
        // Anybody can make a folder of our name in /tmp, so it counts only if nothing else does.
        if best?.record == nil, let fault { throw .insecure(fault) }
        let fallback = candidates.first ?? .forThisProcess()
        return best ?? address(mount.mountpoint, in: fallback, record: nil)
    }

    private func address(
        _ mountpoint: String,
        in folder: RuntimeDirectory,
        record: DriveRecord?
    ) -> DriveAddress {
        let path = folder.socketPath(mountpoint: mountpoint)
        return DriveAddress(
            mountpoint: mountpoint,
            socketPath: path,
            // Two mountpoints could share a name, and only one of them the record.
            record: record?.mountpoint == mountpoint ? record : nil,
            isMounted: resolver.mounts.hasDrive(at: mountpoint),
            isListening: SocketProbe.ask(path) == .listening
        )
    }

    private func records(in folder: RuntimeDirectory) throws(DriveClientError) -> [DriveRecord] {
        guard Self.fault(of: folder) == nil else { return [] }
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        } catch {
            throw .badAnswer("\(folder.path): \(error)")
        }
        return names.sorted().filter { $0.hasSuffix(".json") }
            .compactMap { Self.record(at: "\(folder.path)/\($0)") }
    }

    /// A record of another version is as good as none: the socket still says who is there.
    private static func record(at path: String) -> DriveRecord? {
        guard let bytes = FileManager.default.contents(atPath: path) else { return nil }
        do {
            return try JSONDecoder().decode(DriveRecord.self, from: bytes)
        } catch {
            return nil
        }
    }

    private static func fault(of folder: RuntimeDirectory) -> RuntimeDirectory.Fault? {
        do throws(RuntimeDirectory.Fault) {
            try folder.check()
            return nil
        } catch {
            return error
        }
    }
}

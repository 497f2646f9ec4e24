import CLinux
import Glibc

/// Folders, links, metadata, moves and deletions: short changes, made under the lock.
extension EmbeddedProvider {
    public func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        // A folder that gets another parent has to be writable for its owner, until it is there: if
        // this process dies before the end, that is all that differs from what was meant.
        var writable = metadata
        writable.permissions |= 0o200
        let made = try await making(path) { [writable] room, staged in
            try EmbeddedSystem.makeFolder(staged, in: room.staging, mode: 0o700)
            let made = try EmbeddedSystem.open(
                staged,
                in: room.staging,
                flags: clinux_o_path | O_DIRECTORY
            )
            try EmbeddedAttributes.writeDocumentID(documentID, to: made)
            try EmbeddedMetadata.write(writable, to: made, kind: .folder)
            return made
        } finish: { [writable] made in
            guard writable != metadata else { return }
            let permissions = mode_t(metadata.permissions & 0o777)
            try EmbeddedMetadata.changePermissions(of: made, to: permissions)
        }
        return made.hidingRefused(metadata)
    }

    public func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        guard !target.isEmpty, !target.contains(0) else {
            throw CloudFSError(.invalidName, "\"\(path)\": a link must point somewhere")
        }
        // Linux keeps no user attributes on links, so the document id is the derived one.
        let made = try await making(path) { room, staged in
            try EmbeddedSystem.makeSymlink(staged, in: room.staging, target: target)
            let made = try EmbeddedSystem.open(
                staged,
                in: room.staging,
                flags: clinux_o_path | O_NOFOLLOW
            )
            try EmbeddedMetadata.write(metadata, to: made, kind: .symlink)
            return made
        }
        return made.hidingRefused(metadata)
    }

    public func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let updated = try await changing(path) { root, _ in
            let found = try root.openItem(path)
            guard let kind = found.status.kind else {
                throw EmbeddedFailure(call: "fstat", errorNumber: ENOENT)
            }
            guard found.status.matches(base) else { throw Self.changed(path) }
            var hasOthers = false
            if let attributes = update.attributes, kind != .symlink {
                hasOthers = try Self.write(attributes, to: found)
            }
            if let metadata = update.metadata {
                try EmbeddedMetadata.write(metadata, to: found.descriptor, kind: kind)
            }
            return try Self.describeUpdated(found, update, hasOthers: hasOthers, in: root)
        }
        return update.metadata.map(updated.hidingRefused) ?? updated
    }

    public func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let name = try nameToMake(destination)
        let oldName = try nameToMake(source)
        guard !destination.names.starts(with: source.names) || source == destination else {
            throw CloudFSError(.invalidArgument, "\"\(source)\" cannot be moved into itself")
        }
        return try await changing(source) { root, _ in
            let oldFolder = try root.openFolder(source.parent)
            let found = try root.openItem(source)
            guard found.status.kind != nil, found.status.matches(base) else {
                throw Self.changed(source)
            }
            let folder = try root.openFolder(destination.parent)
            try EmbeddedNames.rename(
                oldName.bytes,
                of: found.descriptor,
                in: oldFolder,
                to: name.bytes,
                in: folder,
                flags: clinux_rename_noreplace
            )
            let moved = try EmbeddedFoundItem(
                name: name,
                in: folder,
                handle: try EmbeddedHandle(of: folder)
            )
            guard moved.status.isSameVersion(as: found.status) else {
                // A foreign program was between the look and the move: what it put there goes back,
                // or stays under the new name if the old one is taken again. Nothing is lost.
                do {
                    try EmbeddedNames.rename(
                        name.bytes,
                        of: moved.descriptor,
                        in: folder,
                        to: oldName.bytes,
                        in: oldFolder,
                        flags: clinux_rename_noreplace
                    )
                } catch let failure as EmbeddedFailure where failure.errorNumber == EEXIST {
                    // Both are there to be seen, which is all that can be had.
                }
                throw Self.changed(source)
            }
            try EmbeddedSystem.synchronize(folder)
            try EmbeddedSystem.synchronize(oldFolder)
            return try Self.describe(
                moved.descriptor,
                as: moved.status,
                name: name,
                in: folder,
                root
            )
        }
    }

    public func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError) {
        let name = try nameToMake(path)
        try await changing(path) { [device] root, room in
            let folder = try root.openFolder(path.parent)
            let found = try root.openItem(path)
            guard let kind = found.status.kind else {
                throw EmbeddedFailure(call: "fstat", errorNumber: ENOENT)
            }
            guard kind != .folder else {
                guard base.isEmbeddedFolder else { throw Self.changed(path) }
                try EmbeddedNames.unlink(name.bytes, in: folder, flags: AT_REMOVEDIR)
                return try EmbeddedSystem.synchronize(folder)
            }
            guard found.status.matches(base) else { throw Self.changed(path) }
            guard !found.hasWriters else { throw Self.beingWritten(path) }
            let removal = EmbeddedRemoval(room: room, folder: folder, name: name)
            guard try removal.remove(found, device: device) else { throw Self.changed(path) }
            try EmbeddedSystem.synchronize(folder)
        }
    }

    // MARK: - Parts

    /// Makes something in staging and gives it its name if that is free.
    ///
    /// - Parameter finish: What is done with it once it has its name.
    private func making(
        _ path: RemotePath,
        _ make: @escaping @Sendable (EmbeddedRoom, _ staged: [UInt8]) throws -> EmbeddedDescriptor,
        finish: @escaping @Sendable (_ made: EmbeddedDescriptor) throws -> Void = { _ in }
    ) async throws(CloudFSError) -> RemoteItem {
        let name = try nameToMake(path)
        let item = try await changing(path) { [device] root, room in
            let folder = try root.openFolder(path.parent)
            let staged = Array(EmbeddedLeftover.making(device).utf8)
            let made = try make(room, staged)
            let own = try EmbeddedStatus(of: made)
            do {
                try EmbeddedNames.rename(
                    staged,
                    in: room.staging,
                    to: name.bytes,
                    in: folder,
                    flags: clinux_rename_noreplace
                )
            } catch {
                let flags = own.kind == .folder ? AT_REMOVEDIR : 0
                try EmbeddedSystem.unlink(staged, in: room.staging, flags: flags)
                throw error
            }
            try finish(made)
            try EmbeddedSystem.synchronize(folder)
            return try Self.describe(made, as: own, name: name, in: folder, root)
        }
        gate.sawItems()
        return item
    }

    /// Writes attributes also where the permissions keep even the owner from it.
    ///
    /// - Returns: Whether there may be others, which were hidden and stay.
    private static func write(
        _ attributes: [String: [UInt8]],
        to found: EmbeddedFoundItem
    ) throws -> Bool {
        let permissions = found.status.permissions
        guard permissions & 0o600 != 0o600 else {
            return try EmbeddedAttributes.write(attributes, to: found.descriptor)
        }
        let wereHidden = try EmbeddedAttributes.read(found.descriptor).isHidden
        try EmbeddedMetadata.changePermissions(
            of: found.descriptor,
            to: mode_t(permissions | 0o600)
        )
        let result = Result {
            try EmbeddedAttributes.write(
                attributes,
                to: found.descriptor,
                wereHidden: wereHidden
            )
        }
        try EmbeddedMetadata.changePermissions(of: found.descriptor, to: mode_t(permissions))
        return try result.get()
    }

    /// The item after its metadata were written, with the content that they were written on.
    ///
    /// - Parameter hasOthers: Whether it may have attributes that nobody here has seen. Then it has
    ///   a version that no listing says, so that the next one tells them.
    private static func describeUpdated(
        _ found: EmbeddedFoundItem,
        _ update: MetadataUpdate,
        hasOthers: Bool,
        in root: EmbeddedRoot
    ) throws -> RemoteItem {
        var now = found
        now.status = try found.status.again(found.descriptor)
        guard var item = try now.remoteItem(of: root.identity, mustRest: false) else {
            throw EmbeddedFailure(call: "fstat", errorNumber: ENOENT)
        }
        // The new mode may not permit to read them any more.
        if let written = update.attributes, !hasOthers {
            item.attributes = written
            item.areAttributesKnown = true
        }
        var wanted = found.status
        wanted.modified = update.metadata?.modified ?? wanted.modified
        // A program that wrote meanwhile made a version of its own, which is not this one.
        if item.kind != .folder, item.version.content != wanted.version.content {
            item.version = wanted.version
            item.size = wanted.size
        }
        if hasOthers { item.version = item.version.asStale }
        return item
    }
}

extension EmbeddedStatus {
    /// Whether a rename leads from this object to `other`: for folders only identity counts.
    fileprivate func isSameVersion(as other: EmbeddedStatus) -> Bool {
        version.content == other.version.content && kind == other.kind
    }
}

/// A file that is deleted: moved aside first, looked at, and only then given up.
private struct EmbeddedRemoval {
    let room: EmbeddedRoom
    let folder: EmbeddedDescriptor
    let name: ItemName

    /// - Returns: Whether it is gone; `false` if it was another version, which was put back.
    func remove(_ found: EmbeddedFoundItem, device: EmbeddedDeviceName) throws -> Bool {
        let aside = Array(EmbeddedLeftover.deleting(found.status, device: device).utf8)
        try EmbeddedNames.rename(
            name.bytes,
            in: folder,
            to: aside,
            in: room.trash,
            flags: clinux_rename_noreplace
        )
        let displaced = try EmbeddedFoundItem(
            name: try ItemName(aside),
            in: room.trash,
            handle: try EmbeddedHandle(of: room.trash)
        )
        if displaced.status.isUntouched(since: found.status), !displaced.hasWriters {
            try EmbeddedSystem.unlink(aside, in: room.trash)
            return true
        }
        do {
            try EmbeddedNames.rename(
                aside,
                in: room.trash,
                to: name.bytes,
                in: folder,
                flags: clinux_rename_noreplace
            )
        } catch  where error.errorNumber == EEXIST {
            try room.rescue(aside, in: room.trash)
        }
        return false
    }
}

extension RemoteItem {
    /// Without the owners that it was to get and did not: here they stay what they were set to.
    fileprivate func hidingRefused(_ wanted: ItemMetadata) -> RemoteItem {
        var item = self
        let keptID = ItemMetadata.keptID
        if ![keptID, metadata.userID].contains(wanted.userID) { item.metadata.userID = keptID }
        if ![keptID, metadata.groupID].contains(wanted.groupID) { item.metadata.groupID = keptID }
        return item
    }
}

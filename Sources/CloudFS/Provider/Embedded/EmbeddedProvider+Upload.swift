import CLinux
import Glibc

/// New versions: staged aside, then put in place in one step.
extension EmbeddedProvider {
    public func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        let name = try nameToMake(path)
        // Looked at before the bytes are copied too: a lost race should cost no copy.
        let (staged, replaced) = try await inside(path) { [device] root in
            let replaced = try Self.requireBase(base, at: path, in: root)
            return (try EmbeddedStagedFile(in: root, device: device), replaced)
        }
        do throws(CloudFSError) {
            try await copy(source, to: staged, path: path)
            try await blocking(path) { try staged.finish(source, inPlaceOf: replaced) }
            guard source.isUnchanged() else {
                throw CloudFSError(.cancelled, "\"\(path)\" was changed while it was sent")
            }
            try await FaultPoint.uploadStaged.passInTask()
            let item = try await changing(path) { root, room in
                try Self.commit(staged, as: name, path: path, replacing: base, root, room)
            }
            gate.sawItems()
            return item
        } catch {
            await discard(staged)
            throw error
        }
    }

    private func copy(
        _ source: UploadSource,
        to staged: EmbeddedStagedFile,
        path: RemotePath
    ) async throws(CloudFSError) {
        var offset: Int64 = 0
        while offset < source.byteCount {
            let start = offset
            let count = Int(min(Int64(Self.pieceByteCount), source.byteCount - offset))
            try await source.willSend(count)
            try await blocking(path) {
                try staged.copy(from: source.descriptor, offset: start, byteCount: count)
            }
            offset += Int64(count)
            source.didSend(offset)
        }
    }

    /// Removes a staged file also when the task was cancelled, which is why most are removed.
    private func discard(_ staged: EmbeddedStagedFile) async {
        // A task of its own is not cancelled with this one.
        let removal = Task { [pool] in try await pool.run { try staged.discard() } }
        do {
            try await removal.value
        } catch {
            // The next connect removes it; the failure that led here is the one to report.
        }
    }

    // MARK: - Committing

    /// - Returns: What is to be replaced; `nil` for a new file.
    private static func requireBase(
        _ base: ItemVersion?,
        at path: RemotePath,
        in root: EmbeddedRoot
    ) throws -> EmbeddedStatus? {
        guard let base else {
            _ = try root.openFolder(path.parent)
            do {
                _ = try root.openItem(path)
            } catch let failure as EmbeddedFailure where failure.errorNumber == ENOENT {
                return nil
            }
            throw EmbeddedFailure(call: "openat2", errorNumber: EEXIST)
        }
        let found = try root.openItem(path)
        guard found.status.kind == .file, found.status.matches(base) else { throw changed(path) }
        // It may be open for days.
        guard !found.hasWriters else { throw beingWritten(path) }
        return found.status
    }

    private static func commit(
        _ staged: EmbeddedStagedFile,
        as name: ItemName,
        path: RemotePath,
        replacing base: ItemVersion?,
        _ root: EmbeddedRoot,
        _ room: EmbeddedRoom
    ) throws -> RemoteItem {
        let folder = try root.openFolder(path.parent)
        let own = try EmbeddedStatus(of: staged.file)
        if let base {
            let target = try root.openItem(path)
            guard target.status.kind == .file, target.status.matches(base) else {
                throw changed(path)
            }
            guard !target.hasWriters else { throw beingWritten(path) }
            let exchange = EmbeddedExchange(
                room: room,
                aside: Array(
                    EmbeddedLeftover.exchanging(staged.name, own: own, base: target.status).utf8
                ),
                folder: folder,
                name: name
            )
            guard try exchange.replace(target, with: staged, own: own) else { throw changed(path) }
        } else {
            try EmbeddedNames.rename(
                Array(staged.name.utf8),
                in: staged.folder,
                to: name.bytes,
                in: folder,
                flags: clinux_rename_noreplace
            )
        }
        try EmbeddedSystem.synchronize(folder)
        return try describe(staged.file, as: own, name: name, in: folder, root)
    }

    /// The item that `descriptor` has become, in the version that this device made.
    ///
    /// If a foreign program has changed it already, its version is not returned as ours: the
    /// caller would take the foreign bytes for its own.
    static func describe(
        _ descriptor: EmbeddedDescriptor,
        as own: EmbeddedStatus,
        name: ItemName,
        in folder: EmbeddedDescriptor,
        _ root: EmbeddedRoot
    ) throws -> RemoteItem {
        let now = try own.again(descriptor)
        let found = EmbeddedFoundItem(
            descriptor: descriptor,
            status: now,
            name: name,
            folder: try EmbeddedHandle(of: folder)
        )
        guard var item = try found.remoteItem(of: root.identity, mustRest: false) else {
            throw EmbeddedFailure(call: "fstat", errorNumber: ENOENT)
        }
        // Until the last look, too.
        let isOwn =
            now.isUntouched(since: own) && item.version.content == own.version.content
        if item.kind != .folder, !isOwn {
            item.version = own.version
            item.metadata = own.metadata
            item.size = own.size
        }
        return item
    }

    /// Not `claimed`: nobody on this side knows when it ends, so whoever waits should see why.
    static func beingWritten(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.lockHeld, "\"\(path)\" is open for writing in another program")
    }

    /// The name of an item that is to be made or replaced at `path`.
    func nameToMake(_ path: RemotePath) throws(CloudFSError) -> ItemName {
        guard let name = path.name, path.names.first != .reserved else {
            throw CloudFSError(.denied, "\"\(path)\" belongs to CloudFS")
        }
        return name
    }
}

/// Two files that change places: a new version and the one it replaces.
///
/// Foreign programs take no lock, so the version that was compared may be another one by the time
/// of the exchange. Whatever was displaced is therefore looked at afterwards, and put back if it is
/// not the version that was meant.
struct EmbeddedExchange {
    let room: EmbeddedRoom
    /// The name in staging of whatever is not in place.
    let aside: [UInt8]
    let folder: EmbeddedDescriptor
    let name: ItemName

    /// Puts `staged` into the place of `target`.
    ///
    /// - Returns: Whether it is there; `false` if another version was displaced and put back.
    func replace(
        _ target: EmbeddedFoundItem,
        with staged: EmbeddedStagedFile,
        own: EmbeddedStatus
    ) throws -> Bool {
        try EmbeddedSystem.rename(
            Array(staged.name.utf8),
            in: room.staging,
            to: aside,
            in: room.staging,
            flags: clinux_rename_noreplace
        )
        do {
            try exchange()
        } catch {
            try EmbeddedSystem.unlink(aside, in: room.staging)
            throw error
        }
        let displaced = try itemAside()
        if displaced.status.isUntouched(since: target.status), !displaced.hasWriters {
            try EmbeddedSystem.unlink(aside, in: room.staging)
            return true
        }
        try putBack(displaced, displacing: own.handle)
        return false
    }

    /// Returns a foreign version to its place and removes ours, unless somebody changed that too.
    ///
    /// Each step exchanges what is aside with what is in place. It ends when what comes out is
    /// what this step expected there; otherwise somebody put a newer one in place, which goes back.
    private func putBack(
        _ displaced: EmbeddedFoundItem,
        displacing own: EmbeddedHandle
    ) throws {
        var inHand = displaced.status.handle
        var expected = own
        for _ in 0..<16 {
            guard try exchangeIfTaken() else {
                // Deleted in the moment it was ours. The foreign version was not what was meant.
                if try returnToFreePlace() { return }
                continue
            }
            let found = try itemAside().status.handle
            if found == expected { break }
            expected = inHand
            inHand = found
        }
        if try itemAside().status.handle == own {
            try EmbeddedSystem.unlink(aside, in: room.staging)
        } else {
            try room.rescue(aside, in: room.staging)
        }
    }

    private func returnToFreePlace() throws(EmbeddedFailure) -> Bool {
        do throws(EmbeddedFailure) {
            try EmbeddedNames.rename(
                aside,
                in: room.staging,
                to: name.bytes,
                in: folder,
                flags: clinux_rename_noreplace
            )
            return true
        } catch {
            guard error.errorNumber == EEXIST else { throw error }
            return false
        }
    }

    /// Exchanges, or returns `false` when there is nothing in place.
    private func exchangeIfTaken() throws(EmbeddedFailure) -> Bool {
        do throws(EmbeddedFailure) {
            try exchange()
            return true
        } catch {
            guard error.errorNumber == ENOENT else { throw error }
            return false
        }
    }

    private func exchange() throws(EmbeddedFailure) {
        try EmbeddedNames.rename(
            aside,
            in: room.staging,
            to: name.bytes,
            in: folder,
            flags: clinux_rename_exchange
        )
    }

    private func itemAside() throws -> EmbeddedFoundItem {
        try EmbeddedFoundItem(
            name: try ItemName(aside),
            in: room.staging,
            handle: try EmbeddedHandle(of: room.staging)
        )
    }
}

import CLinux
import Glibc

/// A new version of a file while it is being made, before it takes its name.
///
/// Holds an flock on the file for as long as it lives, so that no other mount with the same
/// device name takes it for a leftover.
struct EmbeddedStagedFile: Sendable {
    let file: EmbeddedDescriptor
    let folder: EmbeddedDescriptor
    let name: String

    init(in root: EmbeddedRoot, device: EmbeddedDeviceName) throws {
        let room = try root.openRoom()
        folder = room.staging
        for _ in 0..<16 {
            let name = EmbeddedLeftover.making(device)
            let file = try EmbeddedSystem.open(
                Array(name.utf8),
                in: room.staging,
                flags: O_CREAT | O_EXCL | O_RDWR,
                mode: 0o600
            )
            // Between these two lines another mount may clean up; then the file has no name.
            let isLocked = flock(file.rawValue, LOCK_EX | LOCK_NB) == 0
            if isLocked, try EmbeddedStatus(of: file).linkCount == 1 {
                self.file = file
                self.name = name
                return
            }
        }
        throw EmbeddedFailure(call: "flock", errorNumber: EBUSY)
    }

    /// Copies `byteCount` bytes at `offset` from another file, sharing blocks where possible.
    func copy(
        from source: Int32,
        offset: Int64,
        byteCount: Int
    ) throws {
        var done = 0
        while done < byteCount {
            let position = offset + Int64(done)
            do {
                let copied = try EmbeddedSystem.check("copy_file_range") {
                    clinux_copy_file_range(
                        source,
                        position,
                        file.rawValue,
                        position,
                        byteCount - done
                    )
                }
                guard copied > 0 else { throw Self.shortened }
                done += copied
            } catch let failure as EmbeddedFailure where Self.needsPlainCopy(failure) {
                return try copyPlainly(
                    from: source,
                    offset: position,
                    byteCount: byteCount - done
                )
            }
        }
    }

    /// Writes everything but the bytes, and makes all of it durable.
    ///
    /// - Parameter replaced: Whose owners it gets where the source tells none.
    func finish(_ source: UploadSource, inPlaceOf replaced: EmbeddedStatus?) throws {
        try EmbeddedAttributes.write(source.attributes, to: file)
        try EmbeddedAttributes.writeDocumentID(source.documentID, to: file)
        var metadata = source.metadata
        if let replaced { metadata.fillOwner(from: replaced.metadata) }
        try EmbeddedMetadata.write(metadata, to: file, kind: .file)
        try EmbeddedSystem.check("fsync") { fsync(file.rawValue) }
    }

    /// Removes the file if it still has its first name; it may have taken another.
    func discard() throws(EmbeddedFailure) {
        do {
            try EmbeddedSystem.unlink(Array(name.utf8), in: folder)
        } catch  where error.errorNumber == ENOENT {
            // It took its place, or was moved aside and removed there.
        }
    }

    /// Copies through memory, where the two sides of a failure are told apart.
    ///
    /// - Throws: `internalFailure` when the source cannot be read: it is a file of this machine's
    ///   own, of which the cloud directory knows nothing.
    private func copyPlainly(from source: Int32, offset: Int64, byteCount: Int) throws {
        var buffer = [UInt8](repeating: 0, count: min(byteCount, 262_144))
        var done = 0
        while done < byteCount {
            let position = offset + Int64(done)
            let wanted = min(buffer.count, byteCount - done)
            let count = try Self.read(source, into: &buffer, wanted, at: position)
            guard count > 0 else { throw Self.shortened }
            var written = 0
            while written < count {
                written += try EmbeddedSystem.check("pwrite") {
                    buffer.withUnsafeBytes {
                        pwrite(
                            file.rawValue,
                            $0.baseAddress?.advanced(by: written),
                            count - written,
                            off_t(position) + off_t(written)
                        )
                    }
                }
            }
            done += count
        }
    }

    private static func read(
        _ source: Int32,
        into buffer: inout [UInt8],
        _ wanted: Int,
        at position: Int64
    ) throws(CloudFSError) -> Int {
        do throws(EmbeddedFailure) {
            return try EmbeddedSystem.check("pread") {
                buffer.withUnsafeMutableBytes {
                    pread(source, $0.baseAddress, wanted, off_t(position))
                }
            }
        } catch {
            let reason = "a file to send cannot be read, error \(error.errorNumber)"
            throw CloudFSError(.internalFailure, reason, cause: error)
        }
    }

    /// Whether the kernel cannot copy between these two files by itself, or does not say which of
    /// their disks has failed.
    private static func needsPlainCopy(_ failure: EmbeddedFailure) -> Bool {
        failure.isDamage
            || [EXDEV, EINVAL, ENOSYS, EOPNOTSUPP, EBADF, EPERM].contains(failure.errorNumber)
    }

    private static let shortened = CloudFSError(
        .cancelled,
        "the file became shorter while it was sent"
    )
}

/// Owner, permissions and time of objects in the cloud directory.
enum EmbeddedMetadata {
    /// Writes what differs, in an order in which nothing undoes what came before.
    static func write(
        _ metadata: ItemMetadata,
        to descriptor: EmbeddedDescriptor,
        kind: ItemKind
    ) throws(EmbeddedFailure) {
        var status = stat()
        try EmbeddedSystem.check("fstat") { fstat(descriptor.rawValue, &status) }
        let isOther = [(metadata.userID, status.st_uid), (metadata.groupID, status.st_gid)]
            .contains { wanted, own in wanted != ItemMetadata.keptID && wanted != own }
        if isOther { try changeOwner(of: descriptor, to: metadata) }
        let permissions = mode_t(metadata.permissions & 0o777)
        if kind != .symlink, status.st_mode & 0o777 != permissions {
            try changePermissions(of: descriptor, to: permissions)
        }
        let modified = Timestamp(
            seconds: Int64(status.st_mtim.tv_sec),
            nanoseconds: Int64(status.st_mtim.tv_nsec)
        )
        // An unneeded change of the time could hide that a program is writing right now.
        guard modified != metadata.modified else { return }
        var times = timespec(tv_sec: 0, tv_nsec: clinux_utime_omit)
        var wanted = [times, times]
        times.tv_sec = Int(metadata.modified.seconds)
        times.tv_nsec = Int(metadata.modified.nanosecondsOfSecond)
        wanted[1] = times
        try EmbeddedSystem.check("utimensat") {
            utimensat(descriptor.rawValue, "", wanted, clinux_at_empty_path)
        }
    }

    static func changePermissions(
        of descriptor: EmbeddedDescriptor,
        to permissions: mode_t
    ) throws(EmbeddedFailure) {
        let path = descriptor.magicPath
        try EmbeddedSystem.check("chmod") { chmod(path, permissions) }
    }

    private static func changeOwner(
        of descriptor: EmbeddedDescriptor,
        to metadata: ItemMetadata
    ) throws(EmbeddedFailure) {
        // Ignored on purpose: only root gives files away. The cloud directory belongs to who mounts
        // it, and a copy owned by that user is better than no copy; to a group it may give them.
        for userID in [metadata.userID, ItemMetadata.keptID] {
            do throws(EmbeddedFailure) {
                try EmbeddedSystem.check("fchownat") {
                    fchownat(
                        descriptor.rawValue,
                        "",
                        userID,
                        metadata.groupID,
                        clinux_at_empty_path
                    )
                }
                return
            } catch  where error.errorNumber == EPERM {
                continue
            }
        }
    }
}

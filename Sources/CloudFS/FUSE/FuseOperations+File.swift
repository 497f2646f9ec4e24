import CFuse
import Glibc

extension FuseOperations {
    /// - Replies: `fuse_reply_create`, `fuse_reply_open`, `fuse_reply_data`, `fuse_reply_write`,
    ///   `fuse_reply_err`.
    static func addFiles(to table: inout fuse_lowlevel_ops) {
        addReadingAndWriting(to: &table)
        table.create = { raw, parent, name, mode, info in
            let (parentID, caller) = (FuseArguments.item(parent), Caller(of: raw))
            let (mode, flags) = (FuseArguments.permissions(mode), info?.pointee.flags ?? 0)
            FuseRequest.handle(raw, "create", parent) { files throws(CloudFSError) in
                let name = try FuseArguments.name(name)
                let (entry, file) = try files.createFile(
                    name,
                    in: parentID,
                    permissions: mode,
                    flags: flags,
                    caller: caller
                )
                return .created(entry, file)
            }
        }
        table.open = { raw, item, info in
            let (flags, caller) = (info?.pointee.flags ?? 0, Caller(of: raw))
            FuseRequest.handleLater(raw, "open", item) { files throws(CloudFSError) in
                let id = FuseArguments.item(item)
                return try files.open(id, flags: flags, caller: caller).map { .opened($0) }
            }
        }
        table.flush = { raw, item, info in
            let (handle, owner) = (FuseArguments.handle(info), info?.pointee.lock_owner ?? 0)
            FuseRequest.handle(raw, "flush", item) { files throws(CloudFSError) in
                try files.flush(handle, lockOwner: owner)
                return .done
            }
        }
        table.release = { raw, item, info in
            let handle = FuseArguments.handle(info)
            FuseRequest.handle(raw, "release", item) { files throws(CloudFSError) in
                files.release(handle)
                return .done
            }
        }
        table.fsync = { raw, item, dataOnly, info in
            let handle = FuseArguments.handle(info)
            FuseRequest.handle(raw, "fsync", item) { files throws(CloudFSError) in
                try files.synchronize(handle, dataOnly: dataOnly != 0)
                return .done
            }
        }
    }

    /// The bytes of a write live in libfuse's pipe only until the callback returns.
    private static func addReadingAndWriting(to table: inout fuse_lowlevel_ops) {
        table.read = { raw, item, size, offset, info in
            let handle = FuseArguments.handle(info)
            let thread = raw.flatMap { fuse_req_ctx($0)?.pointee.pid } ?? 0
            FuseRequest.handleLater(raw, "read", item) { files throws(CloudFSError) in
                let source = try files.read(
                    handle,
                    offset: Int64(offset),
                    count: size,
                    by: thread
                )
                return source.map { .content($0) }
            }
        }
        table.write_buf = { raw, item, source, offset, info in
            let handle = FuseArguments.handle(info)
            let size = source.map { fuse_buf_size($0) } ?? 0
            let place = FuseArguments.writesAtEnd(info) ? nil : Int64(offset)
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "write", item) { files throws(CloudFSError) in
                let written = try files.write(
                    handle,
                    offset: place,
                    count: size,
                    caller: caller
                ) { file, offset, count throws(CloudFSError) in
                    try FuseOperations.receive(source, file, offset, count)
                }
                return .count(written)
            }
        }
    }

    private static func receive(
        _ source: UnsafeMutablePointer<fuse_bufvec>?,
        _ file: ContentFile,
        _ offset: Int64,
        _ count: Int
    ) throws(CloudFSError) -> Int {
        let moved = cfuse_receive(source, file.descriptor, Int(offset), count)
        guard moved >= 0 else { throw ErrnoMapping.writeError(Int32(clamping: -moved)) }
        return moved
    }

    /// - Replies: `fuse_reply_err`, `fuse_reply_write`, `fuse_reply_lseek`.
    static func addRanges(to table: inout fuse_lowlevel_ops) {
        table.fallocate = { raw, item, mode, offset, count, info in
            let (handle, caller) = (FuseArguments.handle(info), Caller(of: raw))
            FuseRequest.handle(raw, "fallocate", item) { files throws(CloudFSError) in
                try files.allocate(
                    handle,
                    mode: mode,
                    offset: Int64(offset),
                    count: Int64(count),
                    caller: caller
                )
                return .done
            }
        }
        table.copy_file_range = { raw, item, from, sourceInfo, _, to, targetInfo, count, _ in
            let (source, target) = (
                FuseArguments.handle(sourceInfo), FuseArguments.handle(targetInfo)
            )
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "copy_file_range", item) { files throws(CloudFSError) in
                let copied = try files.copyRange(
                    from: source,
                    at: Int64(from),
                    to: target,
                    at: Int64(to),
                    count: count,
                    caller: caller
                )
                return .count(copied)
            }
        }
        table.lseek = { raw, item, offset, whence, info in
            let handle = FuseArguments.handle(info)
            FuseRequest.handle(raw, "lseek", item) { files throws(CloudFSError) in
                let target = try FuseArguments.seekTarget(whence)
                return .position(try files.seek(handle, offset: Int64(offset), target: target))
            }
        }
    }

    /// - Replies: `fuse_reply_lock`, `fuse_reply_err`.
    static func addLocks(to table: inout fuse_lowlevel_ops) {
        table.getlk = { raw, item, info, record in
            let (handle, owner) = (FuseArguments.handle(info), info?.pointee.lock_owner ?? 0)
            let record = record?.pointee ?? flock()
            FuseRequest.handle(raw, "getlk", item) { files throws(CloudFSError) in
                let lock = try FuseArguments.lock(record)
                return .lock(try files.testLock(lock, on: handle, owner: owner))
            }
        }
        table.setlk = { raw, item, info, record, waits in
            let (handle, owner) = (FuseArguments.handle(info), info?.pointee.lock_owner ?? 0)
            let record = record?.pointee ?? flock()
            FuseRequest.handleLater(raw, "setlk", item) { files throws(CloudFSError) in
                let lock = try FuseArguments.lock(record)
                let set = try files.setLock(lock, on: handle, owner: owner, waits: waits != 0)
                return set.map { .done }
            }
        }
        table.flock = { raw, item, info, operation in
            let (handle, owner) = (FuseArguments.handle(info), info?.pointee.lock_owner ?? 0)
            FuseRequest.handleLater(raw, "flock", item) { files throws(CloudFSError) in
                let kind = try FuseArguments.flockKind(operation)
                let waits = operation & LOCK_NB == 0
                return try files.setFlock(kind, on: handle, owner: owner, waits: waits)
                    .map { .done }
            }
        }
    }
}

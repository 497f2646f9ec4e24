import CFuse
import Glibc

/// The C callback table: each entry copies its arguments, calls the filesystem and replies once.
enum FuseOperations {
    static func table() -> fuse_lowlevel_ops {
        var table = fuse_lowlevel_ops()
        addSession(to: &table)
        addNamespace(to: &table)
        addAttributes(to: &table)
        addFolders(to: &table)
        addFiles(to: &table)
        addRanges(to: &table)
        addLocks(to: &table)
        return table
    }

    /// - Replies: `fuse_reply_none`: items have numbers of their own, so nothing counts lookups;
    ///   what is gone from the drive is kept until then.
    private static func addSession(to table: inout fuse_lowlevel_ops) {
        table.`init` = { data, connection in
            guard let connection else { return }
            let context = SessionContext.of(data)
            FuseCapabilities.negotiate(
                &connection.pointee,
                passthrough: context.filesystem.files.passthrough.isWanted
            )
            context.ready()
        }
        table.forget = { raw, item, _ in
            FuseOperations.filesystem(raw).gone.forget(CollectionOfOne(FuseArguments.item(item)))
            fuse_reply_none(raw)
        }
        table.forget_multi = { raw, count, items in
            let items = UnsafeBufferPointer(start: items, count: count)
            FuseOperations.filesystem(raw).gone.forget(
                items.lazy.map { FuseArguments.item($0.ino) }
            )
            fuse_reply_none(raw)
        }
        table.statfs = { raw, item in
            FuseRequest.handle(raw, "statfs", item) { files throws(CloudFSError) in
                .statistics(try files.statistics())
            }
        }
    }

    private static func filesystem(_ raw: fuse_req_t?) -> Filesystem {
        SessionContext.of(fuse_req_userdata(raw)).filesystem
    }

    /// - Replies: `fuse_reply_attr`, `fuse_reply_xattr`, `fuse_reply_buf`, `fuse_reply_err`.
    private static func addAttributes(to table: inout fuse_lowlevel_ops) {
        table.getattr = { raw, item, info in
            let handle = info?.pointee.fh
            FuseRequest.handle(raw, "getattr", item) { files throws(CloudFSError) in
                .attributes(try files.attributes(of: FuseArguments.item(item), handle: handle))
            }
        }
        table.setattr = { raw, item, status, selection, info in
            let changes = FuseArguments.changes(status?.pointee ?? stat(), selection)
            let handle = info?.pointee.fh
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "setattr", item) { files throws(CloudFSError) in
                let id = FuseArguments.item(item)
                let attributes = try files.setAttributes(
                    changes,
                    of: id,
                    handle: handle,
                    caller: caller
                )
                return .attributes(attributes)
            }
        }
        table.setxattr = { raw, item, name, value, size, flags in
            let bytes = Array(UnsafeRawBufferPointer(start: value, count: size))
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "setxattr", item) { files throws(CloudFSError) in
                let name = try FuseArguments.attributeName(name)
                let id = FuseArguments.item(item)
                try files.setAttribute(name, to: bytes, of: id, flags: flags, caller: caller)
                return .done
            }
        }
        table.getxattr = { raw, item, name, size in
            FuseRequest.handle(raw, "getxattr", item) { files throws(CloudFSError) in
                let name = try FuseArguments.attributeName(name)
                let value = try files.attribute(name, of: FuseArguments.item(item))
                return .value(value, capacity: size)
            }
        }
        table.listxattr = { raw, item, size in
            FuseRequest.handle(raw, "listxattr", item) { files throws(CloudFSError) in
                let names = try files.attributeNames(of: FuseArguments.item(item))
                return .value(names.flatMap { Array($0.utf8) + [0] }, capacity: size)
            }
        }
        table.removexattr = { raw, item, name in
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "removexattr", item) { files throws(CloudFSError) in
                let name = try FuseArguments.attributeName(name)
                let id = FuseArguments.item(item)
                try files.removeAttribute(name, of: id, caller: caller)
                return .done
            }
        }
    }
}

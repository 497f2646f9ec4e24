import CFuse
import Glibc

extension FuseOperations {
    /// - Replies: `fuse_reply_entry`, `fuse_reply_readlink`, `fuse_reply_err`.
    static func addNamespace(to table: inout fuse_lowlevel_ops) {
        addNewItems(to: &table)
        table.lookup = { raw, parent, name in
            let process = Caller(of: raw).processID
            FuseRequest.handleLater(raw, "lookup", parent) { files throws(CloudFSError) in
                let name = try FuseArguments.name(name)
                let parent = FuseArguments.item(parent)
                let found = try files.lookup(name, in: parent, process: process)
                return found.map { .lookup($0) }
            }
        }
        table.readlink = { raw, item in
            FuseRequest.handle(raw, "readlink", item) { files throws(CloudFSError) in
                .link(try files.linkTarget(of: FuseArguments.item(item)))
            }
        }
        table.unlink = { raw, parent, name in
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "unlink", parent) { files throws(CloudFSError) in
                let name = try FuseArguments.name(name)
                try files.removeFile(name, from: FuseArguments.item(parent), caller: caller)
                return .done
            }
        }
        table.rmdir = { raw, parent, name in
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "rmdir", parent) { files throws(CloudFSError) in
                let name = try FuseArguments.name(name)
                try files.removeFolder(name, from: FuseArguments.item(parent), caller: caller)
                return .done
            }
        }
        table.rename = { raw, parent, name, newParent, newName, flags in
            let caller = Caller(of: raw)
            FuseRequest.handle(raw, "rename", parent) { files throws(CloudFSError) in
                let (old, new) = (try FuseArguments.name(name), try FuseArguments.name(newName))
                let (from, to) = (FuseArguments.item(parent), FuseArguments.item(newParent))
                let mode = try FuseArguments.renameMode(flags)
                try files.rename(old, in: from, to: new, in: to, mode: mode, caller: caller)
                return .done
            }
        }
    }

    private static func addNewItems(to table: inout fuse_lowlevel_ops) {
        table.mknod = { raw, parent, name, mode, _ in
            let (parentID, caller) = (FuseArguments.item(parent), Caller(of: raw))
            let permissions = FuseArguments.permissions(mode)
            FuseRequest.handle(raw, "mknod", parent) { files throws(CloudFSError) in
                let (name, kind) = (try FuseArguments.name(name), try FuseArguments.kind(mode))
                let entry = try files.makeNode(
                    name,
                    in: parentID,
                    kind: kind,
                    permissions: permissions,
                    caller: caller
                )
                return .entry(entry)
            }
        }
        table.mkdir = { raw, parent, name, mode in
            let (parentID, caller) = (FuseArguments.item(parent), Caller(of: raw))
            let permissions = FuseArguments.permissions(mode)
            FuseRequest.handle(raw, "mkdir", parent) { files throws(CloudFSError) in
                let name = try FuseArguments.name(name)
                let entry = try files.makeFolder(
                    name,
                    in: parentID,
                    permissions: permissions,
                    caller: caller
                )
                return .entry(entry)
            }
        }
        table.symlink = { raw, target, parent, name in
            let (target, caller) = (FuseArguments.bytes(target), Caller(of: raw))
            FuseRequest.handle(raw, "symlink", parent) { files throws(CloudFSError) in
                let name = try FuseArguments.name(name)
                let id = FuseArguments.item(parent)
                let entry = try files.makeSymlink(name, in: id, target: target, caller: caller)
                return .entry(entry)
            }
        }
        table.link = { raw, item, parent, name in
            FuseRequest.handle(raw, "link", item) { files throws(CloudFSError) in
                let name = try FuseArguments.name(name)
                let (id, parentID) = (FuseArguments.item(item), FuseArguments.item(parent))
                return .entry(try files.makeHardLink(to: id, name, in: parentID))
            }
        }
    }

    /// - Replies: `fuse_reply_open`, `fuse_reply_buf`, `fuse_reply_err`.
    static func addFolders(to table: inout fuse_lowlevel_ops) {
        table.opendir = { raw, item, _ in
            let caller = Caller(of: raw)
            FuseRequest.handleLater(raw, "opendir", item) { files throws(CloudFSError) in
                try files.openFolder(
                    FuseArguments.item(item),
                    by: caller.request,
                    process: caller.processID
                ).map { .folder($0) }
            }
        }
        table.readdir = { raw, item, size, offset, info in
            FuseRequest.handleLater(raw, "readdir", item) { files throws(CloudFSError) in
                let handle = FuseArguments.handle(info)
                return try FuseOperations.page(
                    files,
                    handle,
                    Int64(offset),
                    size,
                    withAttributes: false
                )
            }
        }
        table.readdirplus = { raw, item, size, offset, info in
            FuseRequest.handleLater(raw, "readdirplus", item) { files throws(CloudFSError) in
                let handle = FuseArguments.handle(info)
                return try FuseOperations.page(
                    files,
                    handle,
                    Int64(offset),
                    size,
                    withAttributes: true
                )
            }
        }
        table.releasedir = { raw, item, info in
            let handle = FuseArguments.handle(info)
            FuseRequest.handle(raw, "releasedir", item) { files throws(CloudFSError) in
                files.releaseFolder(handle)
                return .done
            }
        }
        table.fsyncdir = { raw, item, dataOnly, _ in
            FuseRequest.handle(raw, "fsyncdir", item) { files throws(CloudFSError) in
                try files.synchronizeFolder(FuseArguments.item(item), dataOnly: dataOnly != 0)
                return .done
            }
        }
    }

    private static func page(
        _ files: Filesystem,
        _ handle: UInt64,
        _ offset: Int64,
        _ capacity: Int,
        withAttributes: Bool
    ) throws(CloudFSError) -> Answer<FuseReply> {
        try files.readingFolder(handle) { () throws(CloudFSError) in
            var buffer = DirectoryBuffer(capacity: capacity, withAttributes: withAttributes)
            try files.readFolder(handle, offset: offset, withAttributes: withAttributes) { entry in
                buffer.append(entry)
            }
            return .bytes(buffer.bytes)
        }
    }
}

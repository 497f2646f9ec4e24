import Glibc

extension ReferenceFilesystem {
    /// Does `operation` and says what a system must say.
    public mutating func apply(_ operation: Operation) -> Outcome {
        do {
            return try perform(operation)
        } catch {
            return .failed(error.code)
        }
    }

    private mutating func perform(_ operation: Operation) throws(SystemError) -> Outcome {
        switch operation {
        case .create(let path, let mode): try create(path, mode)
        case .write(let path, let offset, let fill):
            .count(write(try file(path), fill.bytes, at: offset))
        case .append(let path, let fill): try append(path, fill)
        case .replace(let path, let fill): try replace(path, fill)
        case .truncate(let path, let size): truncate(try file(path), to: size)
        case .read(let path, let offset, let count):
            .bytes(read(try file(path), at: offset, count: count))
        case .rename(let source, let destination, let flag):
            try rename(source, to: destination, flag)
        case .remove(let path): try remove(path)
        case .makeFolder(let path, let mode):
            try make(path, Node(kind: .folder, mode: mode, parent: Self.root))
        case .removeFolder(let path): try removeFolder(path)
        case .makeSymlink(let path, let target): try makeSymlink(path, target)
        case .readSymlink(let path): try readSymlink(path)
        case .setMode(let path, let mode): setMode(try find(path), mode)
        case .setTimes(let path, let time): setTimes(try find(path), time)
        case .setAttribute, .removeAttribute, .readAttribute: try performAttribute(operation)
        case .list(let path): try list(path)
        case .status(let path): .status(status(of: try find(path, following: false)))
        case .open, .readHandle, .writeHandle, .truncateHandle, .synchronizeHandle,
            .statusOfHandle, .close:
            try performHandle(operation)
        case .evict: .done
        case .remount: remount()
        }
    }

    // MARK: - Content

    private mutating func create(_ path: String, _ mode: UInt32) throws(SystemError) -> Outcome {
        try make(path, Node(kind: .file, mode: mode, parent: Self.root))
    }

    private mutating func make(_ path: String, _ node: Node) throws(SystemError) -> Outcome {
        let location = try locate(path, following: false)
        guard location.node == nil else { throw SystemError("make", EEXIST) }
        var node = node
        node.parent = location.parent
        _ = add(node, at: location)
        return .done
    }

    mutating func write(_ id: NodeID, _ bytes: [UInt8], at offset: Int64) -> Int {
        guard !bytes.isEmpty else { return 0 }
        change(id) { node in
            OperationBytes.put(bytes, in: &node.bytes, at: Int(offset))
            node.modified = nil
        }
        return bytes.count
    }

    private mutating func append(_ path: String, _ fill: Fill) throws(SystemError) -> Outcome {
        let id = try file(path)
        return .count(write(id, fill.bytes, at: Int64(node(id).bytes.count)))
    }

    private mutating func replace(_ path: String, _ fill: Fill) throws(SystemError) -> Outcome {
        let location = try locate(path, following: true)
        let id: NodeID
        if let existing = location.node {
            guard node(existing).kind != .folder else { throw SystemError("open", EISDIR) }
            id = existing
        } else {
            id = add(Node(kind: .file, mode: 0o644, parent: location.parent), at: location)
        }
        _ = truncate(id, to: 0)
        return .count(write(id, fill.bytes, at: 0))
    }

    mutating func truncate(_ id: NodeID, to size: Int64) -> Outcome {
        change(id) { node in
            OperationBytes.grow(&node.bytes, to: Int(size))
            node.bytes.removeLast(node.bytes.count - Int(size))
            node.modified = nil
        }
        return .done
    }

    func read(_ id: NodeID, at offset: Int64, count: Int) -> [UInt8] {
        let bytes = node(id).bytes
        let start = min(Int(offset), bytes.count)
        return OperationBytes.part(bytes, start..<min(start + count, bytes.count))
    }

    // MARK: - Names

    private mutating func rename(
        _ source: String,
        to destination: String,
        _ flag: RenameFlag
    ) throws(SystemError) -> Outcome {
        let from = try locate(source, following: false)
        let to = try locate(destination, following: false)
        guard let moved = from.node else { throw SystemError("rename", ENOENT) }
        if flag == .noReplace, to.node != nil { throw SystemError("rename", EEXIST) }
        if flag == .exchange, to.node == nil { throw SystemError("rename", ENOENT) }
        guard !isAbove(moved, to.parent) else { throw SystemError("rename", EINVAL) }
        if let replaced = to.node {
            guard !isAbove(replaced, from.parent) else {
                throw SystemError("rename", flag == .exchange ? EINVAL : ENOTEMPTY)
            }
            if replaced == moved { return .done }
            if flag == .exchange {
                putName(from.name, of: replaced, in: from.parent)
                putName(to.name, of: moved, in: to.parent)
                return .done
            }
            try checkReplacing(replaced, with: moved)
            removeName(to.name, from: to.parent)
        }
        change(from.parent) {
            $0.children[from.name] = nil
            $0.modified = nil
        }
        putName(to.name, of: moved, in: to.parent)
        return .done
    }

    private func checkReplacing(_ replaced: NodeID, with moved: NodeID) throws(SystemError) {
        let isFolder = node(replaced).kind == .folder
        if node(moved).kind == .folder, !isFolder { throw SystemError("rename", ENOTDIR) }
        if node(moved).kind != .folder, isFolder { throw SystemError("rename", EISDIR) }
        guard node(replaced).children.isEmpty else { throw SystemError("rename", ENOTEMPTY) }
    }

    private mutating func remove(_ path: String) throws(SystemError) -> Outcome {
        let location = try locate(path, following: false)
        guard let id = location.node else { throw SystemError("unlink", ENOENT) }
        guard node(id).kind != .folder else { throw SystemError("unlink", EISDIR) }
        removeName(location.name, from: location.parent)
        return .done
    }

    private mutating func removeFolder(_ path: String) throws(SystemError) -> Outcome {
        let location = try locate(path, following: false)
        guard let id = location.node else { throw SystemError("rmdir", ENOENT) }
        guard node(id).kind == .folder else { throw SystemError("rmdir", ENOTDIR) }
        guard node(id).children.isEmpty else { throw SystemError("rmdir", ENOTEMPTY) }
        removeName(location.name, from: location.parent)
        return .done
    }

    private mutating func makeSymlink(
        _ path: String,
        _ target: String
    ) throws(SystemError) -> Outcome {
        var node = Node(kind: .symlink, mode: 0o777, parent: Self.root)
        node.target = target
        return try make(path, node)
    }

    private func readSymlink(_ path: String) throws(SystemError) -> Outcome {
        let node = node(try find(path, following: false))
        guard node.kind == .symlink else { throw SystemError("readlink", EINVAL) }
        return .text(node.target)
    }

    private func list(_ path: String) throws(SystemError) -> Outcome {
        let node = node(try find(path))
        guard node.kind == .folder else { throw SystemError("opendir", ENOTDIR) }
        return .names(node.children.keys.sorted())
    }

    // MARK: - Metadata

    private mutating func setMode(_ id: NodeID, _ mode: UInt32) -> Outcome {
        change(id) { $0.mode = mode }
        return .done
    }

    private mutating func setTimes(_ id: NodeID, _ nanoseconds: Int64) -> Outcome {
        change(id) { $0.modified = nanoseconds }
        return .done
    }

    private mutating func performAttribute(
        _ operation: Operation
    ) throws(SystemError) -> Outcome {
        switch operation {
        case .setAttribute(let path, let name, let fill, let flag):
            let id = try find(path)
            let isThere = node(id).attributes[name] != nil
            if flag == .create, isThere { throw SystemError("setxattr", EEXIST) }
            if flag == .replace, !isThere { throw SystemError("setxattr", ENODATA) }
            change(id) { $0.attributes[name] = fill.bytes }
            return .done
        case .removeAttribute(let path, let name):
            let id = try find(path)
            guard node(id).attributes[name] != nil else { throw SystemError("xattr", ENODATA) }
            change(id) { $0.attributes[name] = nil }
            return .done
        case .readAttribute(let path, let name):
            let value = node(try find(path)).attributes[name]
            guard let value else { throw SystemError("getxattr", ENODATA) }
            return .bytes(value)
        default: preconditionFailure("not of attributes: \(operation)")
        }
    }

    // MARK: - Handles

    private mutating func performHandle(_ operation: Operation) throws(SystemError) -> Outcome {
        switch operation {
        case .open(let slot, let path, let access):
            close(slot)
            handles[slot] = Handle(node: try file(path), access: access)
            return .done
        case .close(let slot):
            _ = try handle(slot)
            close(slot)
            return .done
        case .readHandle(let slot, let offset, let count):
            let handle = try handle(slot)
            guard handle.access == .reading || handle.access == .both else {
                throw SystemError("pread", EBADF)
            }
            return .bytes(read(handle.node, at: offset, count: count))
        case .writeHandle(let slot, let offset, let fill):
            let handle = try handle(slot)
            guard handle.access != .reading else { throw SystemError("pwrite", EBADF) }
            // Linux lets pwrite on an O_APPEND descriptor append, whatever the offset.
            let end = Int64(node(handle.node).bytes.count)
            let start = handle.access == .appending ? end : offset
            return .count(write(handle.node, fill.bytes, at: start))
        case .truncateHandle(let slot, let size):
            let handle = try handle(slot)
            guard handle.access != .reading else { throw SystemError("ftruncate", EINVAL) }
            return truncate(handle.node, to: size)
        case .synchronizeHandle(let slot):
            _ = try handle(slot)
            return .done
        case .statusOfHandle(let slot): return .status(status(of: try handle(slot).node))
        default: preconditionFailure("not of handles: \(operation)")
        }
    }

    private func handle(_ slot: Int) throws(SystemError) -> Handle {
        guard let handle = handles[slot] else { throw SystemError("handle", EBADF) }
        return handle
    }

    private mutating func close(_ slot: Int) {
        guard let handle = handles.removeValue(forKey: slot) else { return }
        forgetIfUnused(handle.node)
    }

    private mutating func remount() -> Outcome {
        for slot in handles.keys { close(slot) }
        return .done
    }
}

import Glibc

/// A real folder and the model of it, driven through the same operations and compared.
///
/// It makes system calls and blocks, so it runs on a thread of its own.
public struct OperationRunner: Sendable {
    /// Model and system differ.
    public struct Mismatch: Error, CustomStringConvertible {
        public let what: String
        public let expected: String
        public let found: String

        public var description: String { "\(what)\n  expected: \(expected)\n  found:    \(found)" }
    }

    public var model: ReferenceFilesystem
    private let root: String
    private var descriptors: [Int: Int32] = [:]
    /// Each item's inode number, which it keeps for life.
    private var inodes: [ReferenceFilesystem.NodeID: UInt64] = [:]

    public init(model: ReferenceFilesystem, root: String) {
        self.model = model
        self.root = root
    }

    /// Does `operation` in both worlds and compares what came of it.
    public mutating func step(_ operation: Operation) throws {
        let found = perform(operation)
        let expected = model.apply(operation)
        try compare("\(operation)", expected, found)
        for path in operation.touched {
            try compare("lstat of \(path) after \(operation)", model.status(path), status(path))
        }
        if let slot = operation.slot, descriptors[slot] != nil, operation != .statusOfHandle(slot) {
            try step(.statusOfHandle(slot))
        }
    }

    private func compare(_ what: String, _ expected: Outcome, _ found: Outcome) throws {
        var found = found
        if case .status(let known) = expected, case .status(var status) = found {
            if known.modified == nil { status.modified = nil }
            found = .status(status)
        }
        guard expected == found else {
            throw Mismatch(what: what, expected: "\(expected)", found: "\(found)")
        }
    }

    /// Closes every handle, as the end of a program does.
    public mutating func closeAll() {
        for descriptor in descriptors.values { close(descriptor) }
        descriptors = [:]
    }

    // MARK: - The whole tree

    /// Compares names, types, sizes, modes, times, contents, links, attributes, inode numbers.
    public mutating func compareTree() throws {
        for (path, id, node) in model.tree() {
            let status = try systemStatus(path)
            if inodes[id, default: status.inode] != status.inode {
                throw Mismatch(
                    what: "inode number of \(path)",
                    expected: "\(inodes[id, default: 0])",
                    found: "\(status.inode)"
                )
            }
            inodes[id] = status.inode
            if !path.isEmpty {
                try compare("lstat of \(path)", model.status(path), self.status(path))
            }
            try OperationRunner.compare(node, at: full(path), named: path)
        }
    }

    /// Compares what a folder holds with the model; also for a cloud's folder.
    public static func compareTree(_ model: ReferenceFilesystem, with root: String) throws {
        for (path, _, node) in model.tree() {
            let full = path.isEmpty ? root : "\(root)/\(path)"
            let status = try SystemCall.status(full)
            let hasSameMode = node.kind == .symlink || path.isEmpty || status.mode == node.mode
            guard status.kind == node.kind, hasSameMode else {
                throw Mismatch(
                    what: "kind and mode of \(path)",
                    expected: "\(node.kind) \(String(node.mode, radix: 8))",
                    found: "\(status.kind) \(String(status.mode, radix: 8))"
                )
            }
            try compare(node, at: full, named: path)
        }
    }

    private static func compare(
        _ node: ReferenceFilesystem.Node,
        at full: String,
        named path: String
    ) throws {
        switch node.kind {
        case .folder:
            let names = try SystemCall.names(in: full).filter { $0 != ".cloudfs" }
            try same("names in \(path)", node.children.keys.sorted(), names)
        case .symlink:
            try same("target of \(path)", node.target, try SystemCall.symlinkTarget(full))
            return
        default:
            let bytes = try content(of: full, named: path, count: node.bytes.count)
            guard OperationBytes.areEqual(bytes, node.bytes) else {
                let pairs = zip(bytes, node.bytes).enumerated()
                let place = pairs.first { $1.0 != $1.1 }.map { "\($0.offset)" } ?? "its end"
                throw Mismatch(
                    what: "content of \(path), different at \(place)",
                    expected: "\(Outcome.bytes(node.bytes))",
                    found: "\(Outcome.bytes(bytes))"
                )
            }
        }
        let names = try SystemCall.attributeNames(of: full).filter(isApplications)
        try same("attributes of \(path)", node.attributes.keys.sorted(), names)
        for (name, value) in node.attributes {
            try same("\(name) of \(path)", value, try SystemCall.attribute(name, of: full))
        }
    }

    /// All bytes of a file, and one more than there should be.
    private static func content(
        of full: String,
        named path: String,
        count: Int
    ) throws -> [UInt8] {
        do {
            let file = try SystemCall.open(full, O_RDONLY)
            defer { Glibc.close(file) }
            return try SystemCall.read(file, count: count + 1, at: 0)
        } catch {
            throw Mismatch(
                what: "content of \(path)",
                expected: "\(count) bytes",
                found: "\(error)"
            )
        }
    }

    /// Whether an attribute is an application's own, not CloudFS's note in the cloud.
    private static func isApplications(_ name: String) -> Bool {
        name.hasPrefix("user.") && !name.hasPrefix("user.cloudfs")
    }

    private static func same<Value: Equatable>(
        _ what: String,
        _ expected: Value,
        _ found: Value
    ) throws {
        guard expected == found else {
            throw Mismatch(what: what, expected: "\(expected)", found: "\(found)")
        }
    }

    // MARK: - System calls

    func full(_ path: String) -> String { path.isEmpty ? root : "\(root)/\(path)" }

    private func systemStatus(_ path: String) throws -> FileStatus {
        do {
            return try SystemCall.status(full(path))
        } catch {
            throw Mismatch(what: "lstat of \(path)", expected: "it is there", found: "\(error)")
        }
    }

    private func status(_ path: String) -> Outcome {
        do {
            return .status(Outcome.Status(try SystemCall.status(full(path))))
        } catch {
            return .failed(error.code)
        }
    }

    private mutating func perform(_ operation: Operation) -> Outcome {
        do {
            return try performByPath(operation)
        } catch {
            return .failed(error.code)
        }
    }

    private mutating func performByPath(_ operation: Operation) throws(SystemError) -> Outcome {
        switch operation {
        case .create(let path, let mode): try create(full(path), mode)
        case .write(let path, let offset, let fill):
            try withFile(path, O_WRONLY) { file throws(SystemError) in
                .count(try SystemCall.write(file, fill.bytes, at: offset))
            }
        case .append(let path, let fill):
            try withFile(path, O_WRONLY | O_APPEND) { file throws(SystemError) in
                .count(try SystemCall.write(file, fill.bytes, at: 0))
            }
        case .replace(let path, let fill):
            try withFile(path, O_WRONLY | O_CREAT | O_TRUNC) { file throws(SystemError) in
                .count(try SystemCall.write(file, fill.bytes, at: 0))
            }
        case .read(let path, let offset, let count):
            try withFile(path, O_RDONLY) { file throws(SystemError) in
                .bytes(try SystemCall.read(file, count: count, at: offset))
            }
        case .list(let path): .names(try SystemCall.names(in: full(path)))
        case .status(let path): .status(Outcome.Status(try SystemCall.status(full(path))))
        case .readSymlink(let path): .text(try SystemCall.symlinkTarget(full(path)))
        case .readAttribute(let path, let name):
            .bytes(try SystemCall.attribute(name, of: full(path)))
        case .open, .readHandle, .writeHandle, .truncateHandle, .synchronizeHandle,
            .statusOfHandle, .close:
            try performByHandle(operation)
        case .evict(let path): evict(path)
        case .remount: .done
        default: try change(operation)
        }
    }

    private func change(_ operation: Operation) throws(SystemError) -> Outcome {
        switch operation {
        case .truncate(let path, let size): try SystemCall.truncate(full(path), to: size)
        case .rename(let source, let destination, let flag):
            try SystemCall.rename(full(source), to: full(destination), flag)
        case .remove(let path): try SystemCall.remove(full(path))
        case .makeFolder(let path, let mode): try SystemCall.makeFolder(full(path), mode: mode)
        case .removeFolder(let path): try SystemCall.removeFolder(full(path))
        case .makeSymlink(let path, let target):
            try SystemCall.makeSymlink(full(path), target: target)
        case .setMode(let path, let mode): try SystemCall.setMode(full(path), mode)
        case .setTimes(let path, let time):
            try SystemCall.setTimes(full(path), nanoseconds: time)
        case .setAttribute(let path, let name, let fill, let flag):
            try SystemCall.setAttribute(name, of: full(path), to: fill.bytes, flag)
        case .removeAttribute(let path, let name):
            try SystemCall.removeAttribute(name, of: full(path))
        default: preconditionFailure("not a change by path: \(operation)")
        }
        return .done
    }

    private mutating func performByHandle(_ operation: Operation) throws(SystemError) -> Outcome {
        switch operation {
        case .open(let slot, let path, let access):
            if let old = descriptors.removeValue(forKey: slot) { try SystemCall.close(old) }
            descriptors[slot] = try open(full(path), access)
        case .close(let slot):
            let file = try descriptor(slot)
            descriptors[slot] = nil
            try SystemCall.close(file)
        case .readHandle(let slot, let offset, let count):
            return .bytes(try SystemCall.read(try descriptor(slot), count: count, at: offset))
        case .writeHandle(let slot, let offset, let fill):
            return .count(try SystemCall.write(try descriptor(slot), fill.bytes, at: offset))
        case .truncateHandle(let slot, let size):
            try SystemCall.truncate(try descriptor(slot), to: size)
        case .synchronizeHandle(let slot): try SystemCall.synchronize(try descriptor(slot))
        case .statusOfHandle(let slot):
            return .status(Outcome.Status(try SystemCall.status(try descriptor(slot))))
        default: preconditionFailure("not of handles: \(operation)")
        }
        return .done
    }

    private func descriptor(_ slot: Int) throws(SystemError) -> Int32 {
        guard let descriptor = descriptors[slot] else { throw SystemError("handle", EBADF) }
        return descriptor
    }
}

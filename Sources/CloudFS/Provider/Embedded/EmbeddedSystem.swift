import CLinux
import Glibc

/// A system call that failed, before anybody decided what that means for an item.
struct EmbeddedFailure: Error, CustomStringConvertible {
    var call: String
    var errorNumber: Int32

    var description: String { "\(call): \(String(cString: strerror(errorNumber)))" }
}

/// A descriptor that is closed with its last user.
final class EmbeddedDescriptor: Sendable {
    let rawValue: Int32

    init(owning rawValue: Int32) {
        self.rawValue = rawValue
    }

    deinit {
        // What was written was flushed by fsync; a close has nothing left to report.
        close(rawValue)
    }

    /// A path to the open object itself, whatever its name is now.
    ///
    /// For calls that take no descriptor of the kind that needs no read permission (O_PATH).
    var magicPath: String { "/proc/self/fd/\(rawValue)" }
}

/// System calls in terms of descriptors and names: retried when interrupted, throwing errno.
enum EmbeddedSystem {
    /// Runs `call` until no signal interrupts it.
    @discardableResult
    static func check<Value: SignedInteger>(
        _ name: String,
        _ call: () -> Value
    ) throws(EmbeddedFailure) -> Value {
        try attempt(name, call).get()
    }

    /// Runs `call` until no signal interrupts it, for callers to whom a failure is an answer.
    static func attempt<Value: SignedInteger>(
        _ name: String,
        _ call: () -> Value
    ) -> Result<Value, EmbeddedFailure> {
        while true {
            let value = call()
            let errorNumber = errno
            if value >= 0 { return .success(value) }
            if errorNumber != EINTR {
                return .failure(EmbeddedFailure(call: name, errorNumber: errorNumber))
            }
        }
    }

    /// Opens `names` below `folder` without leaving it, following no symlink on the way.
    ///
    /// Long paths are walked in steps, because one call takes at most 4,096 bytes.
    static func open(
        _ names: ArraySlice<ItemName>,
        below folder: EmbeddedDescriptor,
        flags: Int32
    ) throws(EmbeddedFailure) -> EmbeddedDescriptor {
        var folder = folder
        var rest = names
        while true {
            var byteCount = 0
            let step = rest.prefix { name in
                byteCount += name.bytes.count + 1
                return byteCount < 4_000
            }
            rest = rest.dropFirst(step.count)
            let path = step.isEmpty ? [0x2e] : Array(step.map(\.bytes).joined(separator: [0x2f]))
            guard !rest.isEmpty else { return try open(path, in: folder, flags: flags) }
            folder = try open(path, in: folder, flags: clinux_o_path | O_DIRECTORY)
        }
    }

    /// Opens `path` below `folder`; `.` is the folder itself.
    static func open(
        _ path: [UInt8],
        in folder: EmbeddedDescriptor,
        flags: Int32,
        mode: mode_t = 0
    ) throws(EmbeddedFailure) -> EmbeddedDescriptor {
        // EAGAIN: a rename was going on anywhere in the system, so the kernel could not be sure.
        for _ in 0..<64 {
            do {
                let raw = try check("openat2") {
                    withPath(path) {
                        clinux_open_inside(folder.rawValue, $0, flags | O_CLOEXEC, mode)
                    }
                }
                return EmbeddedDescriptor(owning: raw)
            } catch  where error.errorNumber == EAGAIN {
                continue
            }
        }
        throw EmbeddedFailure(call: "openat2", errorNumber: EBUSY)
    }

    /// Opens the same object again with other rights.
    static func reopen(
        _ descriptor: EmbeddedDescriptor,
        flags: Int32
    ) throws(EmbeddedFailure) -> EmbeddedDescriptor {
        let path = descriptor.magicPath
        return EmbeddedDescriptor(
            owning: try check("open") { Glibc.open(path, flags | O_CLOEXEC) }
        )
    }

    /// The names in a folder, without `.` and `..`, up to `limit`.
    ///
    /// `foldersOnly` leaves out what the file system says is no folder; some never say.
    static func names(
        in folder: EmbeddedDescriptor,
        limit: Int = .max,
        foldersOnly: Bool = false
    ) throws(EmbeddedFailure) -> [[UInt8]] {
        let reader = try open([0x2e], in: folder, flags: O_RDONLY | O_DIRECTORY)
        var names: [[UInt8]] = []
        var buffer = [UInt8](repeating: 0, count: limit == .max ? 65_536 : 1_024)
        while names.count < limit {
            let length = try check("getdents64") {
                buffer.withUnsafeMutableBytes {
                    clinux_getdents(reader.rawValue, $0.baseAddress, $0.count)
                }
            }
            if length == 0 { break }
            appendNames(of: buffer[..<length], foldersOnly: foldersOnly, to: &names)
        }
        return names
    }

    /// Takes the names out of raw records: inode (8), offset (8), length (2), type (1), name.
    private static func appendNames(
        of records: ArraySlice<UInt8>,
        foldersOnly: Bool,
        to names: inout [[UInt8]]
    ) {
        var start = records.startIndex
        while start + 19 < records.endIndex {
            let length = Int(records[start + 16]) | Int(records[start + 17]) << 8
            guard length > 19, start + length <= records.endIndex else { return }
            let name = records[(start + 19)..<(start + length)].prefix { $0 != 0 }
            let kind = records[start + 18]
            let isWanted = !foldersOnly || kind == UInt8(DT_DIR) || kind == UInt8(DT_UNKNOWN)
            if isWanted, !name.elementsEqual([0x2e]), !name.elementsEqual([0x2e, 0x2e]) {
                names.append(Array(name))
            }
            start += length
        }
    }

    /// Renames within the container; `flags` say whether to replace, refuse or exchange.
    static func rename(
        _ name: [UInt8],
        in folder: EmbeddedDescriptor,
        to newName: [UInt8],
        in newFolder: EmbeddedDescriptor,
        flags: UInt32
    ) throws(EmbeddedFailure) {
        try check("renameat2") {
            withPath(name) { old in
                withPath(newName) { new in
                    clinux_renameat2(folder.rawValue, old, newFolder.rawValue, new, flags)
                }
            }
        }
    }

    static func unlink(
        _ name: [UInt8],
        in folder: EmbeddedDescriptor,
        flags: Int32 = 0
    ) throws(EmbeddedFailure) {
        try check("unlinkat") { withPath(name) { unlinkat(folder.rawValue, $0, flags) } }
    }

    static func makeFolder(
        _ name: [UInt8],
        in folder: EmbeddedDescriptor,
        mode: mode_t
    ) throws(EmbeddedFailure) {
        try check("mkdirat") { withPath(name) { mkdirat(folder.rawValue, $0, mode) } }
    }

    static func makeSymlink(
        _ name: [UInt8],
        in folder: EmbeddedDescriptor,
        target: [UInt8]
    ) throws(EmbeddedFailure) {
        try check("symlinkat") {
            withPath(target) { target in
                withPath(name) { symlinkat(target, folder.rawValue, $0) }
            }
        }
    }

    /// Makes the names of a folder durable.
    static func synchronize(_ folder: EmbeddedDescriptor) throws(EmbeddedFailure) {
        let writer = try open([0x2e], in: folder, flags: O_RDONLY | O_DIRECTORY)
        try check("fsync") { fsync(writer.rawValue) }
    }

    /// Lends `bytes` as a C string.
    ///
    /// The caller has made sure that there is no NUL in it.
    static func withPath<Value>(_ bytes: [UInt8], _ body: (UnsafePointer<CChar>) -> Value) -> Value
    {
        let text = bytes.map { CChar(bitPattern: $0) } + [0]
        return text.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else {
                preconditionFailure("a C string has at least its end")
            }
            return body(base)
        }
    }
}

import Synchronization

/// What a next process must know of one open handle: plain and of fixed size.
///
/// A supervisor can keep the region of these records over the death of a process, and the next
/// one finds every handle that the kernel still holds.
struct HandleRecord: Sendable, BitwiseCopyable {
    /// The kernel's `fh`; never reused.
    var handle: UInt64
    var item: Int64
    var generation: Int64
    /// The flags of `open(2)`.
    var flags: Int32
    /// 1 for a file, 2 for a folder.
    var kind: Int32
    var ownerProcess: Int32
    var reserved: Int32 = 0
}

/// An open file of a program.
final class FileHandle: Sendable {
    let number: UInt64
    let file: OpenFile
    let flags: Int32
    let claim: Claim?

    init(number: UInt64, file: OpenFile, flags: Int32, claim: Claim?) {
        self.number = number
        self.file = file
        self.flags = flags
        self.claim = claim
    }

    var isWritable: Bool { OpenFlags.isWritable(flags) }
    var isReadable: Bool { OpenFlags.isReadable(flags) }
    var appends: Bool { OpenFlags.appends(flags) }
}

/// All open handles of the mount.
final class HandleTable: Sendable {
    private enum Entry: Sendable {
        case file(FileHandle, slot: Int)
        case folder(ItemID, slot: Int)
    }

    private struct State {
        var entries: [UInt64: Entry] = [:]
        var next: UInt64 = 1
    }

    private let state = Mutex(State())
    private let records: RecordRegion<HandleRecord>

    init(records: RecordRegion<HandleRecord>) {
        self.records = records
    }

    /// Registers an open file and gives it a number that was never used before.
    ///
    /// - Throws: `tooManyOpen`.
    func add(
        _ file: OpenFile,
        flags: Int32,
        claim: Claim?,
        generation: Int64,
        process: Int32
    ) throws(CloudFSError) -> FileHandle {
        let number = takeNumber()
        let slot = try allocate(
            HandleRecord(
                handle: number,
                item: file.id.rawValue,
                generation: generation,
                flags: flags,
                kind: 1,
                ownerProcess: process
            )
        )
        let handle = FileHandle(number: number, file: file, flags: flags, claim: claim)
        state.withLock { $0.entries[number] = .file(handle, slot: slot) }
        return handle
    }

    func add(folder: ItemID) throws(CloudFSError) -> UInt64 {
        let number = takeNumber()
        let slot = try allocate(
            HandleRecord(
                handle: number,
                item: folder.rawValue,
                generation: 0,
                flags: 0,
                kind: 2,
                ownerProcess: 0
            )
        )
        state.withLock { $0.entries[number] = .folder(folder, slot: slot) }
        return number
    }

    /// The open file with this number.
    ///
    /// - Throws: `badHandle`.
    func file(_ number: UInt64) throws(CloudFSError) -> FileHandle {
        guard case .file(let handle, _) = state.withLock({ $0.entries[number] }) else {
            throw CloudFSError(.badHandle, "no file is open as handle \(number)")
        }
        return handle
    }

    /// The folder opened with this number.
    ///
    /// - Throws: `badHandle`.
    func folder(_ number: UInt64) throws(CloudFSError) -> ItemID {
        guard case .folder(let id, _) = state.withLock({ $0.entries[number] }) else {
            throw CloudFSError(.badHandle, "no folder is open as handle \(number)")
        }
        return id
    }

    func removeFile(_ number: UInt64) -> FileHandle? {
        guard case .file(let handle, let slot) = take(number) else { return nil }
        records.free(slot)
        return handle
    }

    func removeFolder(_ number: UInt64) -> ItemID? {
        guard case .folder(let id, let slot) = take(number) else { return nil }
        records.free(slot)
        return id
    }

    /// All open files; for the end of the session.
    var openFiles: [FileHandle] {
        state.withLock { state in
            state.entries.values.compactMap { entry in
                if case .file(let handle, _) = entry { handle } else { nil }
            }
        }
    }

    private func takeNumber() -> UInt64 {
        state.withLock { state in
            defer { state.next += 1 }
            return state.next
        }
    }

    private func take(_ number: UInt64) -> Entry? {
        state.withLock { $0.entries.removeValue(forKey: number) }
    }

    private func allocate(_ record: HandleRecord) throws(CloudFSError) -> Int {
        do {
            return try records.allocate(record)
        } catch {
            throw CloudFSError(.tooManyOpen, "no room for another handle", cause: error)
        }
    }
}

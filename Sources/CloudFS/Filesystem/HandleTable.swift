import Synchronization

/// What a next worker must know of one open handle: plain and of fixed size.
///
/// The supervisor keeps the region of these records over the death of a worker, and the next
/// one finds every handle that the kernel still holds.
struct HandleRecord: Sendable, BitwiseCopyable {
    /// The kernel's `fh`; never reused.
    var handle: UInt64
    var item: Int64
    var generation: Int64
    /// The flags of `open(2)`.
    var flags: Int32
    /// `file`, `folder` or `closing`.
    var kind: Int32
    var ownerProcess: Int32
    /// What the kernel calls the content file; 0 if the drive reads and writes it.
    var backing: Int32 = 0
    /// The mark of the request that opened it; 0 where it cannot be sent again.
    var request: Int64 = 0
    /// The row of the last name that the listing of a folder shows; 0 before it began.
    var lastName: Int64 = 0
    var append = Append()

    static let file: Int32 = 1
    static let folder: Int32 = 2
    /// The kind of a file whose handle is being closed for good: nobody uses it any more.
    static let closing: Int32 = 3

    /// Where bytes were put at the end of a file last, and by which request.
    struct Append: Sendable, BitwiseCopyable {
        private var mark: Int64 = 0
        private var offset: Int64 = 0
        /// Tells whether both are of one request: a worker may be killed between them.
        private var check: Int64 = 0

        init() {}

        init(_ request: RequestStamp, at offset: Int64) {
            mark = request.mark
            self.offset = offset
            check = ~(request.mark ^ offset)
        }

        /// Where the request put its bytes; `nil` if it did not come to that.
        func offset(of request: RequestStamp) -> Int64? {
            mark == request.mark && check == ~(mark ^ offset) ? offset : nil
        }
    }
}

/// An open file of a program.
final class FileHandle: Sendable {
    let number: UInt64
    let file: OpenFile
    let flags: Int32
    let claim: Claim?
    /// The thread that opened it.
    let opener: Int32
    private let hasRead = Atomic(false)
    private let hasWaited = Atomic(false)

    init(number: UInt64, file: OpenFile, flags: Int32, claim: Claim?, opener: Int32) {
        self.number = number
        self.file = file
        self.flags = flags
        self.claim = claim
        self.opener = opener
    }

    var isWritable: Bool { OpenFlags.isWritable(flags) }
    var isReadable: Bool { OpenFlags.isReadable(flags) }

    /// Notes a read.
    ///
    /// - Returns: Whether it is the first one.
    func noteRead() -> Bool {
        !hasRead.load(ordering: .relaxed) && !hasRead.exchange(true, ordering: .relaxed)
    }

    /// Notes that a read has to wait for bytes.
    ///
    /// - Returns: Whether it is the first one.
    func noteWaiting() -> Bool { !hasWaited.exchange(true, ordering: .relaxed) }
}

/// All open handles of the mount.
final class HandleTable: Sendable {
    /// A handle that an earlier worker left.
    typealias Kept = RecordRegion<HandleRecord>.Slot

    private enum Entry: Sendable {
        case file(FileHandle, slot: Int)
        case folder(ItemID, slot: Int)
    }

    private struct State {
        var entries: [UInt64: Entry] = [:]
        var next: UInt64
        /// By the marks of the requests that opened them: those an earlier worker left.
        var adopted: [Int64: UInt64] = [:]
    }

    private let state: Mutex<State>
    private let records: RecordRegion<HandleRecord>
    /// What `records` held at the beginning.
    let kept: [Kept]
    /// Of those the ones that an earlier worker did not come to the end of closing.
    private let halfClosed: [Kept]

    /// - Parameters:
    ///   - records: Where handles are kept for a next worker.
    ///   - worker: How many workers the mount had before; each has numbers of its own.
    init(records: RecordRegion<HandleRecord>, worker: UInt32 = 0) {
        self.records = records
        let slots = records.slots
        kept = slots.filter { $0.record.kind != HandleRecord.closing }
        halfClosed = slots.filter { $0.record.kind == HandleRecord.closing }
        state = Mutex(State(next: UInt64(worker) << 40 + 1))
    }

    // MARK: - Handles of an earlier worker

    /// Which of the items have handles that an earlier worker left.
    var keptItems: Set<ItemID> { Set(kept.map { ItemID($0.record.item) }) }

    /// What the kernel calls the content files that programs have open.
    var keptBackings: Set<Int32> { Self.backings(kept) }

    /// What it calls those that an earlier worker may not have taken back from it.
    var leftBackings: Set<Int32> { Self.backings(halfClosed).subtracting(keptBackings) }

    private static func backings(_ slots: [Kept]) -> Set<Int32> {
        Set(slots.map(\.record.backing).filter { $0 != 0 })
    }

    func adopt(_ file: OpenFile, claim: Claim?, _ kept: Kept) {
        let record = kept.record
        let handle = FileHandle(
            number: record.handle,
            file: file,
            flags: record.flags,
            claim: claim,
            opener: record.ownerProcess
        )
        adopt(.file(handle, slot: kept.index), record)
    }

    func adopt(folder: ItemID, _ kept: Kept) {
        adopt(.folder(folder, slot: kept.index), kept.record)
    }

    private func adopt(_ entry: Entry, _ record: HandleRecord) {
        state.withLock { state in
            state.entries[record.handle] = entry
            if record.request != 0 { state.adopted[record.request] = record.handle }
        }
    }

    /// Forgets a handle whose item is gone.
    func drop(_ kept: Kept) { records.free(kept.index) }

    /// Forgets handles that were being closed: nothing is left of what belonged to them.
    ///
    /// To be called once.
    func dropHalfClosed() { for slot in halfClosed { drop(slot) } }

    /// The file that an earlier worker opened for a request.
    func file(openedBy mark: Int64) -> FileHandle? {
        state.withLock { state in
            guard let number = state.adopted[mark],
                case .file(let handle, _) = state.entries[number]
            else { return nil }
            return handle
        }
    }

    /// The handle of a folder that an earlier worker opened for a request.
    func folder(openedBy mark: Int64) -> UInt64? {
        state.withLock { state in
            guard let number = state.adopted[mark], case .folder = state.entries[number] else {
                return nil
            }
            return number
        }
    }

    // MARK: - Handles of this one

    /// Registers an open file and gives it a number that was never used before.
    ///
    /// - Throws: `tooManyOpen`.
    func add(
        _ file: OpenFile,
        flags: Int32,
        claim: Claim?,
        generation: Int64,
        backing: Int32? = nil,
        caller: Caller
    ) throws(CloudFSError) -> FileHandle {
        let number = takeNumber()
        let slot = try allocate(
            HandleRecord(
                handle: number,
                item: file.id.rawValue,
                generation: generation,
                flags: flags,
                kind: HandleRecord.file,
                ownerProcess: caller.processID,
                backing: backing ?? 0,
                request: caller.request?.mark ?? 0
            )
        )
        let handle = FileHandle(
            number: number,
            file: file,
            flags: flags,
            claim: claim,
            opener: caller.processID
        )
        state.withLock { $0.entries[number] = .file(handle, slot: slot) }
        return handle
    }

    func add(folder: ItemID, by request: RequestStamp? = nil) throws(CloudFSError) -> UInt64 {
        let number = takeNumber()
        let slot = try allocate(
            HandleRecord(
                handle: number,
                item: folder.rawValue,
                generation: 0,
                flags: 0,
                kind: HandleRecord.folder,
                ownerProcess: 0,
                request: request?.mark ?? 0
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

    func hasFile(_ number: UInt64) -> Bool {
        if case .file = state.withLock({ $0.entries[number] }) { true } else { false }
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

    /// The row of the last name that the listing of an open folder shows: `newest` where it begins.
    ///
    /// - Throws: `badHandle`.
    func lastName(
        of number: UInt64,
        isBeginning: Bool,
        newest: () throws(CloudFSError) -> Int64
    ) throws(CloudFSError) -> Int64 {
        guard case .folder(_, let slot) = state.withLock({ $0.entries[number] }),
            var record = records.read(slot)
        else { throw CloudFSError(.badHandle, "no folder is open as handle \(number)") }
        if isBeginning || record.lastName == 0 {
            record.lastName = try newest()
            records.write(record, to: slot)
        }
        return record.lastName
    }

    /// Decides where a request puts bytes at the end of a file: where it did before, if it did.
    func place(_ request: RequestStamp?, atEnd end: Int64, of number: UInt64) -> Int64 {
        guard let request else { return end }
        let slot = state.withLock { state -> Int? in
            guard case .file(_, let slot) = state.entries[number] else { return nil }
            return slot
        }
        guard let slot, var record = records.read(slot) else { return end }
        if request.isRepeated, let offset = record.append.offset(of: request) { return offset }
        record.append = HandleRecord.Append(request, at: end)
        records.write(record, to: slot)
        return end
    }

    /// Ends the handle of a file; `body` gives back what belongs to it.
    ///
    /// A worker that is killed meanwhile leaves a record that says so.
    func closeFile(_ number: UInt64, _ body: (FileHandle) -> Void) {
        guard case .file(let handle, let slot) = take(number) else { return }
        if var record = records.read(slot) {
            record.kind = HandleRecord.closing
            records.write(record, to: slot)
        }
        body(handle)
        records.free(slot)
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

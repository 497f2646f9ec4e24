import Glibc
import Synchronization

/// Why a region of records cannot be made, adopted or enlarged.
struct RecordRegionError: Error, CustomStringConvertible {
    let description: String
    /// The system's error number, or 0.
    let errorNumber: Int32

    init(_ description: String, errorNumber: Int32 = 0) {
        self.description = description
        self.errorNumber = errorNumber
    }
}

/// Fixed-size records in memory that a next process can map and go on with.
///
/// The memory is a file without a name (or any descriptor the caller brings), so it lives as long
/// as somebody holds a descriptor of it, whatever happens to this process. A record is written
/// before its slot is marked as used, so a process killed between the two leaves no half record.
/// One process changes a region at a time.
final class RecordRegion<Record: BitwiseCopyable & Sendable>: Sendable {
    /// One record and where it is kept.
    struct Slot: Sendable {
        var index: Int
        var record: Record
    }

    private struct State: ~Copyable {
        var base: UnsafeMutableRawPointer
        var byteCount: Int
        var capacity: Int
        /// Free slots, the lowest last.
        var free: [Int]

        deinit { munmap(base, byteCount) }
    }

    /// The file that holds the records; owned by the region, to be handed on while it lives.
    let descriptor: Int32
    private let maximumCapacity: Int
    private let state: Mutex<State>

    /// Makes a region in memory of its own.
    ///
    /// - Throws: `RecordRegionError` when the system has no memory or descriptor for it.
    convenience init(capacity: Int = 64, maximumCapacity: Int = 1 << 20) throws {
        let descriptor = try Self.makeAnonymousFile()
        do {
            try self.init(
                formatting: descriptor,
                capacity: capacity,
                maximumCapacity: maximumCapacity
            )
        } catch {
            close(descriptor)
            throw error
        }
    }

    /// Makes an empty region in the file `descriptor`, and owns it from then on unless it throws.
    init(formatting descriptor: Int32, capacity: Int, maximumCapacity: Int) throws {
        precondition(capacity > 0 && capacity <= maximumCapacity, "a region needs a slot")
        precondition(MemoryLayout<Record>.alignment <= 8, "records are aligned to 8 bytes")
        let byteCount = Self.byteCount(capacity: capacity)
        try Self.resize(descriptor, to: 0)
        try Self.resize(descriptor, to: byteCount)
        let base = try Self.map(descriptor, byteCount: byteCount)
        base.storeBytes(of: UInt64(MemoryLayout<Record>.size), toByteOffset: 8, as: UInt64.self)
        base.storeBytes(of: UInt64(capacity), toByteOffset: 16, as: UInt64.self)
        Self.word(base, at: 0).pointee.store(Self.magic, ordering: .releasing)
        self.descriptor = descriptor
        self.maximumCapacity = maximumCapacity
        state = Mutex(
            State(
                base: base,
                byteCount: byteCount,
                capacity: capacity,
                free: Array((0..<capacity).reversed())
            )
        )
    }

    /// Maps a region that another process made, and owns `descriptor` unless it throws.
    ///
    /// - Throws: `RecordRegionError` when the file holds no region, or one of other records.
    init(adopting descriptor: Int32, maximumCapacity: Int = 1 << 20) throws {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw RecordRegionError("the region's file cannot be read", errorNumber: errno)
        }
        let fileSize = Int(status.st_size)
        guard fileSize >= Self.headerByteCount else {
            throw RecordRegionError("a file of \(fileSize) bytes holds no records")
        }
        let base = try Self.map(descriptor, byteCount: fileSize)
        let magic = Self.word(base, at: 0).pointee.load(ordering: .acquiring)
        let recordSize = base.load(fromByteOffset: 8, as: UInt64.self)
        let capacity = base.load(fromByteOffset: 16, as: UInt64.self)
        let slots = (fileSize - Self.headerByteCount) / Self.stride
        guard magic == Self.magic, recordSize == UInt64(MemoryLayout<Record>.size),
            capacity > 0, capacity <= UInt64(slots), capacity <= UInt64(maximumCapacity)
        else {
            munmap(base, fileSize)
            throw RecordRegionError("the file holds other records than expected")
        }
        let used = (0..<Int(capacity)).filter { Self.isUsed(base, $0) }
        let isUsed = Set(used)
        self.descriptor = descriptor
        self.maximumCapacity = maximumCapacity
        state = Mutex(
            State(
                base: base,
                byteCount: fileSize,
                capacity: Int(capacity),
                free: (0..<Int(capacity)).reversed().filter { !isUsed.contains($0) }
            )
        )
    }

    deinit {
        close(descriptor)
    }

    var capacity: Int { state.withLock { $0.capacity } }

    /// How many slots hold a record.
    var count: Int { state.withLock { $0.capacity - $0.free.count } }

    /// Every record, in the order of the slots.
    var slots: [Slot] {
        state.withLock { state in
            (0..<state.capacity).compactMap { index in
                guard Self.isUsed(state.base, index) else { return nil }
                return Slot(index: index, record: Self.load(state.base, index))
            }
        }
    }

    /// Keeps `record` in a free slot, enlarging the region when there is none.
    ///
    /// - Returns: The slot's index, by which the record is read, written and freed.
    /// - Throws: `RecordRegionError` when the region is as large as it may be, or memory is out.
    func allocate(_ record: Record) throws -> Int {
        try state.withLock { state in
            if state.free.isEmpty { try grow(&state) }
            guard let index = state.free.popLast() else {
                throw RecordRegionError("the region holds \(state.capacity) records and is full")
            }
            Self.store(record, state.base, index)
            Self.mark(state.base, index, isUsed: true)
            return index
        }
    }

    /// The record of a slot, or `nil` for a slot that is free or does not exist.
    func read(_ index: Int) -> Record? {
        state.withLock { state in
            guard Self.holds(state, index) else { return nil }
            return Self.load(state.base, index)
        }
    }

    /// Replaces the record of a slot in use.
    func write(_ record: Record, to index: Int) {
        state.withLock { state in
            precondition(Self.holds(state, index), "slot \(index) holds no record")
            Self.store(record, state.base, index)
        }
    }

    /// Gives a slot in use back.
    func free(_ index: Int) {
        state.withLock { state in
            precondition(Self.holds(state, index), "slot \(index) holds no record")
            Self.mark(state.base, index, isUsed: false)
            state.free.append(index)
        }
    }

    private func grow(_ state: inout State) throws {
        let capacity = min(state.capacity * 2, maximumCapacity)
        guard capacity > state.capacity else { return }
        let byteCount = Self.byteCount(capacity: capacity)
        if byteCount > state.byteCount { try Self.resize(descriptor, to: byteCount) }
        let base = try Self.map(descriptor, byteCount: max(byteCount, state.byteCount))
        // The file is longer before the header says so: a next process never looks behind its end.
        base.storeBytes(of: UInt64(capacity), toByteOffset: 16, as: UInt64.self)
        let added = (state.capacity..<capacity).reversed()
        state = State(
            base: base,
            byteCount: max(byteCount, state.byteCount),
            capacity: capacity,
            free: Array(added)
        )
    }
}

// MARK: - Layout

extension RecordRegion {
    // Header: magic, record size, capacity, the rest of 64 bytes zero. Then the slots, each a word
    // that says whether it is used, and the record.
    private static var magic: UInt64 { 0x3130_6365_5253_4643 }
    private static var headerByteCount: Int { 64 }
    private static var stride: Int { 8 + (MemoryLayout<Record>.size + 7) / 8 * 8 }

    private static func byteCount(capacity: Int) -> Int { headerByteCount + stride * capacity }

    private static func offset(_ index: Int) -> Int { headerByteCount + stride * index }

    private static func word(
        _ base: UnsafeMutableRawPointer,
        at offset: Int
    ) -> UnsafeMutablePointer<Atomic<UInt64>> {
        (base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    private static func isUsed(_ base: UnsafeMutableRawPointer, _ index: Int) -> Bool {
        word(base, at: offset(index)).pointee.load(ordering: .acquiring) != 0
    }

    private static func mark(_ base: UnsafeMutableRawPointer, _ index: Int, isUsed: Bool) {
        word(base, at: offset(index)).pointee.store(isUsed ? 1 : 0, ordering: .releasing)
    }

    private static func load(_ base: UnsafeMutableRawPointer, _ index: Int) -> Record {
        (base + offset(index) + 8).loadUnaligned(as: Record.self)
    }

    private static func store(_ record: Record, _ base: UnsafeMutableRawPointer, _ index: Int) {
        (base + offset(index) + 8).storeBytes(of: record, as: Record.self)
    }

    private static func holds(_ state: borrowing State, _ index: Int) -> Bool {
        index >= 0 && index < state.capacity && isUsed(state.base, index)
    }

    private static func resize(_ descriptor: Int32, to byteCount: Int) throws {
        guard ftruncate(descriptor, off_t(byteCount)) == 0 else {
            throw RecordRegionError("the region cannot be enlarged", errorNumber: errno)
        }
    }

    private static func map(
        _ descriptor: Int32,
        byteCount: Int
    ) throws -> UnsafeMutableRawPointer {
        let base = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        guard let base, base != MAP_FAILED else {
            throw RecordRegionError("the region cannot be mapped", errorNumber: errno)
        }
        return base
    }

    /// A file in memory whose name is gone before anybody else can open it.
    private static func makeAnonymousFile() throws -> Int32 {
        for _ in 0..<100 {
            let name = "/cloudfs-\(UInt64.random(in: .min ... .max))"
            let descriptor = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if descriptor >= 0 {
                shm_unlink(name)
                return descriptor
            }
            guard errno == EEXIST else { break }
        }
        throw RecordRegionError("no memory for records", errorNumber: errno)
    }
}

/// A lock on bytes of a file, as `fcntl(2)` and `flock(2)` speak of it.
struct FileLock: Sendable, Hashable {
    enum Kind: UInt8, Sendable {
        case shared = 1
        case exclusive = 2
        /// The wish to hold no lock there.
        case unlock = 3
    }

    /// The two kinds of locks; they know nothing of each other.
    enum Family: UInt8, Sendable, CaseIterable {
        /// Byte ranges, owned by a process or an open file description (`fcntl`).
        case posix = 1
        /// The whole file, owned by an open file description (`flock`).
        case flock = 2
    }

    var kind: Kind
    /// Behind the last byte that a file can have, which `Int64` cannot tell.
    static let end: UInt64 = 1 << 63

    /// The locked bytes, never none; up to `end` means to the end, however long the file grows.
    var range: Range<UInt64>
    var processID: Int32
    /// The handle through which it was taken last: no lock outlives that.
    private(set) var handle: UInt64 = 0

    init(kind: Kind, range: Range<UInt64> = 0..<end, processID: Int32) {
        self.kind = kind
        self.range = range
        self.processID = processID
    }

    /// The same lock, taken through a handle.
    func taken(through handle: UInt64) -> FileLock {
        var lock = self
        lock.handle = handle
        return lock
    }

    /// Whether two owners cannot hold these two locks at once.
    func conflicts(with other: FileLock) -> Bool {
        range.overlaps(other.range) && (kind == .exclusive || other.kind == .exclusive)
    }
}

/// A granted lock as plain memory of fixed size, for a next process to map.
struct LockRecord: BitwiseCopyable, Sendable, Hashable {
    var item: Int64
    var owner: UInt64
    var handle: UInt64
    var start: UInt64
    var end: UInt64
    var processID: Int32
    var kind: UInt8
    var family: UInt8
    var reserved: UInt16 = 0
}

import Glibc

/// Who makes a request, as the kernel tells it.
struct Caller: Sendable {
    var userID: UInt32
    var groupID: UInt32
    var processID: Int32
    /// The mask of permission bits that new items do not get.
    var umask: UInt16
    /// Which request; `nil` where it cannot be sent again.
    var request: RequestStamp?
    /// Whether the daemon does what the caller asked it for, and the kernel has to be told.
    var isRepresented = false

    /// The same caller, for what the daemon does in its place.
    var represented: Caller {
        var caller = self
        // One request becomes several changes: that one of them is done says nothing of others.
        caller.request = nil
        caller.isRepresented = true
        return caller
    }
}

/// An answer that is here, or work that brings it and may wait.
///
/// `pending` work runs in a task, off the kernel's threads; cancelling the task ends the wait
/// with `cancelled`.
enum Answer<Value: Sendable>: Sendable {
    case ready(Value)
    case pending(@Sendable () async throws(CloudFSError) -> Value)
}

/// What `stat` shows of an item.
struct Attributes: Sendable, Equatable {
    var id: ItemID
    var kind: ItemKind
    var permissions: UInt16
    var linkCount: UInt32
    var userID: UInt32
    var groupID: UInt32
    /// Bytes.
    var size: Int64
    /// Units of 512 bytes on this machine's disk; never 0 for a file that is not empty.
    var blocks: Int64
    var accessed: Timestamp
    var modified: Timestamp
    var changed: Timestamp
    /// Whether the kernel may keep these attributes until it is told otherwise.
    var isCacheable: Bool
    /// What tells things of one number apart; numbers of items are never reused.
    var generation: UInt64 = 0
}

/// An item found under a name.
struct Entry: Sendable {
    var attributes: Attributes
    /// Whether the kernel may keep the name until it is told otherwise.
    var isCacheable: Bool
}

/// What a lookup found: an item, or the proof that there is none.
enum LookupResult: Sendable {
    case found(Entry)
    /// There is no such name; the kernel may keep that if `isCacheable`.
    case absent(isCacheable: Bool)
}

/// An open file, as the kernel needs to know it.
struct OpenedFile: Sendable {
    var item: ItemID
    var handle: UInt64
    /// Whether pages kept from earlier opens are still right.
    var keepsCache: Bool
    /// What the kernel calls the content file that it is to read and write itself.
    var backing: Int32?
}

/// An open folder, as the kernel needs to know it.
struct OpenedFolder: Sendable {
    var item: ItemID
    var handle: UInt64
    /// Whether the listing kept from earlier opens is still right.
    var keepsCache: Bool
}

/// Where the bytes of a read are.
enum ReadSource: Sendable {
    /// `count` bytes at `offset` of a content file; `count` is already cut at the end of the file.
    ///
    /// `held` is kept until they are sent; `nil` where all of the file is here.
    case file(ContentFile, offset: Int64, count: Int, held: HeldRange?)
    case bytes([UInt8])
}

/// Which attributes `setattr` changes, and to what.
struct AttributeChanges: Sendable {
    enum TimeChange: Sendable {
        case now
        case to(Timestamp)
    }

    var permissions: UInt16?
    var userID: UInt32?
    var groupID: UInt32?
    var size: Int64?
    var accessed: TimeChange?
    var modified: TimeChange?
}

/// One name of a folder.
struct DirectoryEntry: Sendable {
    var name: [UInt8]
    var attributes: Attributes
    /// Where to go on after this entry.
    var offset: Int64
    /// Whether the kernel may keep name and attributes.
    var isCacheable: Bool
}

/// Flags of `renameat2`.
enum RenameMode: Sendable {
    case replacing
    case noReplace
    case exchange
}

/// Where `lseek` looks.
enum SeekTarget: Sendable {
    case data
    case hole
}

/// What `statfs` shows, in bytes and items.
struct FilesystemStatistics: Sendable {
    var blockSize: Int
    var totalBytes: Int64
    /// With what is kept for root, on a disk that does so.
    var freeBytes: Int64
    var availableBytes: Int64
    var totalItems: Int64
    var freeItems: Int64
}

extension ItemMetadata {
    /// Who mounts the drive, and owns what is not said to be anybody else's.
    static let mounter = (userID: geteuid(), groupID: getegid())

    var shownUserID: UInt32 { userID == Self.keptID ? Self.mounter.userID : userID }
    var shownGroupID: UInt32 { groupID == Self.keptID ? Self.mounter.groupID : groupID }
}

import CLinux
import Crypto
import Glibc

/// What the file system calls an object for as long as it exists: its file handle.
///
/// Unlike an inode number it is not given to the next object when this one is deleted, because
/// it carries the inode's generation.
struct EmbeddedHandle: Hashable, Sendable {
    var type: Int32
    var bytes: [UInt8]

    init(of descriptor: EmbeddedDescriptor) throws(EmbeddedFailure) {
        var type: Int32 = 0
        var space = [UInt8](repeating: 0, count: Int(CLINUX_HANDLE_BYTES))
        let length = try EmbeddedSystem.check("name_to_handle_at") {
            space.withUnsafeMutableBufferPointer {
                clinux_handle(descriptor.rawValue, &type, $0.baseAddress)
            }
        }
        self.type = type
        self.bytes = Array(space.prefix(Int(length)))
    }

    /// The handle in at most 80 characters: its own digits, or a digest of long ones.
    var key: String {
        let digits = Hexadecimal.text(bytes)
        let kind = String(type, radix: 16)
        guard digits.utf8.count <= 64 else {
            return "\(kind).\(EmbeddedText.digest(digits, byteCount: 32))"
        }
        return "\(kind).\(digits)"
    }
}

/// Bytes as text.
enum EmbeddedText {
    /// The first `byteCount` bytes of the SHA-256 of `text`, in hexadecimal digits.
    static func digest(_ text: String, byteCount: Int) -> String {
        digest(Array(text.utf8), byteCount: byteCount)
    }

    static func digest(_ bytes: [UInt8], byteCount: Int) -> String {
        Hexadecimal.text(SHA256.hash(data: bytes).prefix(byteCount))
    }

    /// 32 random hexadecimal digits.
    static func random() -> String { DocumentID.random().description }
}

/// One look at an object: what it is and which state it is in.
struct EmbeddedStatus: Sendable {
    var handle: EmbeddedHandle
    /// `nil` for what has no place in a cloud: devices, fifos, sockets.
    var kind: ItemKind?
    var permissions: UInt16
    var userID: UInt32
    var groupID: UInt32
    var size: Int64
    var modified: Timestamp
    var changed: Timestamp
    var linkCount: UInt64

    init(of descriptor: EmbeddedDescriptor) throws(EmbeddedFailure) {
        var status = stat()
        try EmbeddedSystem.check("fstat") { fstat(descriptor.rawValue, &status) }
        self.init(status, handle: try EmbeddedHandle(of: descriptor))
    }

    private init(_ status: stat, handle: EmbeddedHandle) {
        self.handle = handle
        kind =
            switch status.st_mode & S_IFMT {
            case S_IFREG: .file
            case S_IFDIR: .folder
            case S_IFLNK: .symlink
            default: nil
            }
        permissions = UInt16(truncatingIfNeeded: status.st_mode & 0o777)
        userID = status.st_uid
        groupID = status.st_gid
        size = Int64(status.st_size)
        modified = Timestamp(
            seconds: Int64(status.st_mtim.tv_sec),
            nanoseconds: Int64(status.st_mtim.tv_nsec)
        )
        changed = Timestamp(
            seconds: Int64(status.st_ctim.tv_sec),
            nanoseconds: Int64(status.st_ctim.tv_nsec)
        )
        linkCount = UInt64(status.st_nlink)
    }

    /// Looks again at an object whose handle is known.
    func again(_ descriptor: EmbeddedDescriptor) throws(EmbeddedFailure) -> EmbeddedStatus {
        var status = stat()
        try EmbeddedSystem.check("fstat") { fstat(descriptor.rawValue, &status) }
        return EmbeddedStatus(status, handle: handle)
    }

    /// The tokens of this state.
    ///
    /// A folder's content is its existence: its times move with every child, which says nothing
    /// about the folder itself.
    var version: ItemVersion {
        let content =
            kind == .folder
            ? handle.key : "\(handle.key)-\(modified.nanoseconds)-\(size)"
        return ItemVersion(content: content, metadata: String(changed.nanoseconds))
    }

    var metadata: ItemMetadata {
        ItemMetadata(
            permissions: permissions,
            userID: userID,
            groupID: groupID,
            modified: modified
        )
    }

    /// Whether this is the same object with the same bytes and owner as `other`.
    ///
    /// Without the change time, which a rename moves too.
    func isUntouched(since other: EmbeddedStatus) -> Bool {
        kind == other.kind && version.content == other.version.content
            && permissions == other.permissions && userID == other.userID
            && groupID == other.groupID
    }

    /// Whether the object is in the state that `base` names.
    func matches(_ base: ItemVersion) -> Bool {
        kind == .folder ? version.content == base.content : version == base
    }

    /// What the object is called in the cloud.
    ///
    /// A file with several names is one object but several items, so its id also says which name.
    func remoteID(name: ItemName, in folder: EmbeddedHandle) -> RemoteID {
        guard kind == .file, linkCount > 1 else { return RemoteID(handle.key) }
        let place = EmbeddedText.digest(Array(folder.key.utf8) + [0x2f] + name.bytes, byteCount: 16)
        return RemoteID("\(handle.key)@\(place)")
    }
}

extension ItemVersion {
    /// Whether an embedded provider made this for a folder.
    var isEmbeddedFolder: Bool { !content.utf8.contains(UInt8(ascii: "-")) }
}

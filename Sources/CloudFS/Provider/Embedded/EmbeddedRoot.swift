import CLinux
import Glibc
import Synchronization

/// The way into the cloud directory: opens its root and makes sure that it is the right one.
///
/// Every request begins here, so that a file system that was unmounted, a disk that was changed
/// and a directory that was emptied are *unreachable* and never look like deletions.
final class EmbeddedGate: Sendable {
    private struct State {
        /// The identity that `connect` found; until then nothing is reachable.
        var identity: String?
        /// Whether the container is known to hold something.
        var hasItems = false
    }

    let path: String
    private let state = Mutex(State())

    init(path: String) {
        self.path = path
    }

    /// Opens the root for the first time and recognises it.
    ///
    /// - Throws: `offline` when it is missing, another one, or empty where it was not;
    ///   `unsupported` when its file system cannot carry a container.
    func connect(expecting: ContainerExpectation) throws -> EmbeddedRoot {
        let root = try open()
        if let expected = expecting.identity, expected != root.identity {
            throw offline("is another file system or another directory than before")
        }
        guard try EmbeddedAttributes.areSupported(by: root.descriptor) else {
            throw CloudFSError(
                .unsupported,
                "the file system of \"\(path)\" keeps no user attributes; "
                    + "use one that does, such as ext4, xfs or btrfs"
            )
        }
        let isEmpty = try isEmpty(root)
        try state.withLock { state in
            state.hasItems = state.hasItems || expecting.hasItems
            if isEmpty && state.hasItems { throw offline("is empty, and was not before") }
            state.identity = root.identity
            state.hasItems = state.hasItems || !isEmpty
        }
        return root
    }

    /// Opens the root for one request.
    ///
    /// - Throws: `offline` when it is not, or no longer, the one that `connect` saw.
    func enter() throws -> EmbeddedRoot {
        let (expected, hasItems) = state.withLock { ($0.identity, $0.hasItems) }
        guard let expected else { throw offline("was not connected yet") }
        let root = try open()
        guard root.identity == expected else {
            throw offline("is another file system or another directory than before")
        }
        if hasItems, try isEmpty(root) { throw offline("is empty, and was not before") }
        return root
    }

    /// Remembers that the container holds something.
    func sawItems() {
        state.withLock { $0.hasItems = true }
    }

    private func open() throws -> EmbeddedRoot {
        let path = path
        let descriptor: EmbeddedDescriptor
        do {
            descriptor = EmbeddedDescriptor(
                owning: try EmbeddedSystem.check("open") {
                    Glibc.open(path, clinux_o_path | O_DIRECTORY | O_CLOEXEC)
                }
            )
        } catch  where error.errorNumber == EACCES {
            throw CloudFSError(.denied, "no permission to enter \"\(path)\"", cause: error)
        } catch {
            throw offline("cannot be opened", cause: error)
        }
        do {
            return try EmbeddedRoot(descriptor)
        } catch  where error.errorNumber == EOPNOTSUPP {
            throw CloudFSError(
                .unsupported,
                "the file system of \"\(path)\" cannot hold a cloud; "
                    + "use one that can, such as ext4, xfs or btrfs",
                cause: error
            )
        } catch {
            throw offline("cannot be reached", cause: error)
        }
    }

    /// Whether there is nothing at all, not even the provider's own folder.
    private func isEmpty(_ root: EmbeddedRoot) throws -> Bool {
        do {
            return try EmbeddedSystem.names(in: root.descriptor, limit: 1).isEmpty
        } catch {
            throw error.error(at: .root)
        }
    }

    private func offline(_ reason: String, cause: (any Error)? = nil) -> CloudFSError {
        CloudFSError(.offline, "the cloud directory \"\(path)\" \(reason)", cause: cause)
    }
}

/// The container's root, open and recognised; everything is reached from its descriptor.
struct EmbeddedRoot: Sendable {
    let descriptor: EmbeddedDescriptor
    let handle: EmbeddedHandle
    /// Kind and number of the file system, and which of its directories this is.
    let identity: String

    /// `FUSE_SUPER_MAGIC` of `<linux/magic.h>`.
    private static let fuseType: Int64 = 0x6573_5546

    init(_ descriptor: EmbeddedDescriptor) throws(EmbeddedFailure) {
        var type: Int64 = 0
        var identifier: UInt64 = 0
        try EmbeddedSystem.check("fstatfs") {
            clinux_filesystem(descriptor.rawValue, &type, &identifier)
        }
        // It may have file handles. What else it takes to send something, it lacks.
        guard type != Self.fuseType else {
            throw EmbeddedFailure(call: "fstatfs", errorNumber: EOPNOTSUPP)
        }
        self.descriptor = descriptor
        handle = try EmbeddedHandle(of: descriptor)
        let kind = String(type, radix: 16)
        let number = String(identifier, radix: 16)
        identity = "local:\(kind):\(number):\(handle.key)"
    }

    /// Opens the folder at `path`, for reaching what is in it.
    func openFolder(_ path: RemotePath) throws -> EmbeddedDescriptor {
        try requireOutsideOwnRoom(path)
        return try EmbeddedSystem.open(
            path.names[...],
            below: descriptor,
            flags: clinux_o_path | O_DIRECTORY
        )
    }

    /// Opens whatever is at `path` itself, without rights to its bytes and without following it.
    func openItem(_ path: RemotePath) throws -> EmbeddedFoundItem {
        guard let name = path.name else {
            return EmbeddedFoundItem(
                descriptor: descriptor,
                status: try EmbeddedStatus(of: descriptor),
                name: Self.rootName,
                folder: handle
            )
        }
        do {
            let folder = try openFolder(path.parent)
            try requireOutsideOwnRoom(path)
            return try EmbeddedFoundItem(
                name: name,
                in: folder,
                handle: try EmbeddedHandle(of: folder)
            )
        } catch let failure as EmbeddedFailure where failure.isDamage {
            throw failure.error(reading: path)
        }
    }

    /// The provider's own room at the root, made when it is first needed.
    func openRoom() throws(EmbeddedFailure) -> EmbeddedRoom {
        let room = try Self.makeAndOpen(ItemName.reserved.bytes, in: descriptor)
        return EmbeddedRoom(
            descriptor: room,
            staging: try Self.makeAndOpen(Array("staging".utf8), in: room),
            trash: try Self.makeAndOpen(Array("trash".utf8), in: room)
        )
    }

    /// Whether the provider's own room exists already.
    func hasRoom() throws(EmbeddedFailure) -> Bool {
        do {
            _ = try EmbeddedSystem.open(
                ItemName.reserved.bytes,
                in: descriptor,
                flags: clinux_o_path | O_DIRECTORY
            )
            return true
        } catch  where error.errorNumber == ENOENT {
            return false
        }
    }

    static func makeAndOpen(
        _ name: [UInt8],
        in folder: EmbeddedDescriptor
    ) throws(EmbeddedFailure) -> EmbeddedDescriptor {
        let flags = clinux_o_path | O_DIRECTORY
        do {
            return try EmbeddedSystem.open(name, in: folder, flags: flags)
        } catch  where error.errorNumber == ENOENT {
            do {
                try EmbeddedSystem.makeFolder(name, in: folder, mode: 0o777)
            } catch  where error.errorNumber == EEXIST {
                // Another device was faster.
            }
            return try EmbeddedSystem.open(name, in: folder, flags: flags)
        }
    }

    /// Refuses to look into `.cloudfs`: from outside it does not exist.
    private func requireOutsideOwnRoom(_ path: RemotePath) throws(CloudFSError) {
        guard path.names.first != .reserved else {
            throw CloudFSError(.notFound, "\"\(path)\" belongs to CloudFS")
        }
    }

    private static let rootName = ItemName.reserved
}

/// An object found under a name of a folder.
struct EmbeddedFoundItem: Sendable {
    let descriptor: EmbeddedDescriptor
    var status: EmbeddedStatus
    let name: ItemName
    let folder: EmbeddedHandle

    init(
        descriptor: EmbeddedDescriptor,
        status: EmbeddedStatus,
        name: ItemName,
        folder: EmbeddedHandle
    ) {
        self.descriptor = descriptor
        self.status = status
        self.name = name
        self.folder = folder
    }

    init(
        name: ItemName,
        in folder: EmbeddedDescriptor,
        handle: EmbeddedHandle
    ) throws(EmbeddedFailure) {
        descriptor = try EmbeddedSystem.open(
            name.bytes,
            in: folder,
            flags: clinux_o_path | O_NOFOLLOW
        )
        status = try EmbeddedStatus(of: descriptor)
        self.name = name
        self.folder = handle
    }

    /// Whether any program on this machine has the file open for writing.
    ///
    /// What such a program writes next would go into a file that no longer has a name. Where
    /// the kernel does not tell (another owner's file, no leases), the answer is no.
    var hasWriters: Bool {
        guard status.kind == .file else { return false }
        do {
            let reader = try EmbeddedSystem.reopen(descriptor, flags: O_RDONLY | O_NONBLOCK)
            // A program that is starting another one shares its descriptors with it for a moment.
            for pause in Self.writerPauses {
                guard clinux_has_writers(reader.rawValue) == 1 else { return false }
                usleep(pause)
            }
            return true
        } catch {
            return false
        }
    }

    /// In microseconds: on a busy machine that moment is long.
    private static let writerPauses: [UInt32] = [5_000, 10_000, 20_000, 40_000, 80_000]

    /// How often an object is looked at that changes each time.
    private static let mostLooks = 8

    /// The item as the cloud has it now; `nil` for what has no place in a cloud.
    ///
    /// - Parameter mustRest: Whether one that changes during every look is a failure: EBUSY. Else
    ///   the last look is told; its version has passed already, so the next listing tells more.
    func remoteItem(
        of container: String,
        mustRest: Bool = true
    ) throws(EmbeddedFailure) -> RemoteItem? {
        var status = status
        // Attributes are read after the status; only both of one moment are one version.
        for look in 1...Self.mostLooks {
            guard let kind = status.kind else { return nil }
            let found =
                kind == .symlink
                ? EmbeddedAttributes.Found() : try EmbeddedAttributes.read(descriptor)
            let target = kind == .symlink ? try linkTarget() : nil
            let now = try status.again(descriptor)
            let isEnough = !mustRest && look == Self.mostLooks
            guard isEnough || now.version == status.version else {
                status = now
                continue
            }
            let id = status.remoteID(name: name, in: folder)
            return RemoteItem(
                id: id,
                documentID: found.documentID ?? Self.derivedDocumentID(of: id, in: container),
                name: name,
                kind: kind,
                size: kind == .folder ? 0 : status.size,
                metadata: status.metadata,
                version: status.version,
                linkTarget: target,
                attributes: found.attributes,
                areAttributesKnown: !found.isHidden,
                isIdentified: found.documentID != nil
            )
        }
        throw EmbeddedFailure(call: "fstat", errorNumber: EBUSY)
    }

    private func linkTarget() throws(EmbeddedFailure) -> [UInt8] {
        var space = [CChar](repeating: 0, count: 4_096)
        let length = try EmbeddedSystem.check("readlinkat") {
            readlinkat(descriptor.rawValue, "", &space, space.count)
        }
        return space.prefix(length).map { UInt8(bitPattern: $0) }
    }

    /// The document id of an object that stores none: the same on every device, without writing.
    private static func derivedDocumentID(of id: RemoteID, in container: String) -> DocumentID {
        let digits = EmbeddedText.digest("\(container)/\(id)", byteCount: 16)
        guard let identity = DocumentID(digits) else {
            preconditionFailure("16 bytes are 32 digits")
        }
        return identity
    }
}

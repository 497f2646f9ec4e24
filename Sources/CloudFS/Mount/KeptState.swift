import CLinux
import Glibc

/// What outlives a worker: files in memory, and the way to the kernel, all held by the supervisor.
package struct KeptDescriptors: Sendable {
    /// `/dev/fuse` of the mount; `nil` before a worker has mounted the drive.
    package var device: Int32?
    package var greetings: Int32
    package var handles: Int32
    package var locks: Int32

    /// - Parameters:
    ///   - device: `/dev/fuse` of the mount, if there is one.
    ///   - greetings: A file for what was agreed on with the kernel.
    ///   - handles: A file for open handles.
    ///   - locks: A file for locks.
    package init(device: Int32?, greetings: Int32, handles: Int32, locks: Int32) {
        self.device = device
        self.greetings = greetings
        self.handles = handles
        self.locks = locks
    }

    /// What a worker must have in common with the one before it: the form of what is kept, and
    /// what it agrees on with the kernel.
    package static var format: String {
        let sizes = [
            MemoryLayout<Greeting>.size, MemoryLayout<HandleRecord>.size,
            MemoryLayout<LockRecord>.size,
        ]
        return "1-\(sizes.map { "\($0)" }.joined(separator: "-"))-\(FuseCapabilities.agreement)"
    }

    /// Makes a file in memory that lives as long as somebody has it open.
    ///
    /// - Parameter name: Shown by tools only.
    package static func makeFile(_ name: String) throws(CloudFSError) -> Int32 {
        let descriptor = clinux_memfd_create(name)
        guard descriptor >= 0 else {
            let reason = String(cString: strerror(errno))
            throw CloudFSError(.tooManyOpen, "no memory for open handles: \(reason)")
        }
        return descriptor
    }

    /// Has the kernel kill this process when the thread of the supervisor that started it ends.
    package static func dieWithParent() -> Bool { clinux_die_with_parent() == 0 }
}

/// What a worker tells its supervisor of the drive, and asks of it.
package protocol DriveKeeper: Sendable {
    /// The process that ends the drive when it is asked to.
    var process: Int32 { get }

    /// The drive is mounted, and its requests come from `device`.
    ///
    /// - Parameter isResumable: Whether a next worker can go on from here.
    func didMount(_ device: Int32, isResumable: Bool)

    /// The mount is gone: whoever keeps its device lets go of it.
    func didEnd()

    /// Has another worker take over; returns when it will not.
    ///
    /// - Throws: Why not.
    func restart() async throws(CloudFSError)
}

/// Nobody: the drive ends with this process.
struct NoKeeper: DriveKeeper {
    let process = getpid()

    func didMount(_ device: Int32, isResumable: Bool) {}
    func didEnd() {}

    func restart() async throws(CloudFSError) {
        throw CloudFSError(.unsupported, "nobody would start the drive's daemon again")
    }
}

/// The same as tables.
struct KeptState: Sendable {
    let connection: KeptConnection
    let handles: RecordRegion<HandleRecord>
    let locks: RecordRegion<LockRecord>

    /// - Parameter descriptors: What the supervisor holds; `nil`: it begins and ends here.
    init(_ descriptors: KeptDescriptors?, _ keeper: any DriveKeeper) throws(CloudFSError) {
        let isNew = descriptors?.device == nil
        do {
            connection = KeptConnection(
                device: descriptors?.device,
                greetings: try Self.region(descriptors?.greetings, isNew, capacity: 1),
                whenAgreed: { keeper.didMount($0, isResumable: $1) },
                whenOver: { keeper.didEnd() }
            )
            handles = try Self.region(descriptors?.handles, isNew)
            locks = try Self.region(descriptors?.locks, isNew)
        } catch {
            throw CloudFSError(.tooManyOpen, "no memory for the table of handles", cause: error)
        }
        if !isNew { connection.countWorker() }
    }

    private static func region<Record: BitwiseCopyable & Sendable>(
        _ descriptor: Int32?,
        _ isNew: Bool,
        capacity: Int = 64
    ) throws -> RecordRegion<Record> {
        guard let descriptor else { return try RecordRegion() }
        guard isNew else { return try RecordRegion(adopting: descriptor) }
        return try RecordRegion(
            formatting: descriptor,
            capacity: capacity,
            maximumCapacity: 1 << 20
        )
    }
}

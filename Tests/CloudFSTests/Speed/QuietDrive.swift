import CloudFSTestSupport
import Glibc
import Logging
import Synchronization
import Testing

@testable import CloudFS

/// A drive that is put together as for a mount, without one: nothing runs beside what is asked.
final class QuietDrive: Sendable {
    static let fileCount = 128
    static let caller = Caller(userID: 0, groupID: 0, processID: getpid(), umask: 0o022)

    /// One of its files, all of whose 64 KiB are here.
    let file: ItemID
    var filesystem: Filesystem { parts.filesystem }
    /// What plays the cloud: its folder, behind faults that a test may plan.
    let cloud: FaultyProvider
    /// How many requests were answered with an error, or not at once.
    var failures: Int { port.failures.withLock { $0 } }

    private let directory: TemporaryDirectory
    private let parts: DriveParts
    private let port = SilentPort()
    private let ledger: RequestLedger

    /// - Parameter names: Empty files that the cloud has beside one in its root, by their paths.
    init(inCloud names: [String] = []) async throws {
        let directory = try TemporaryDirectory()
        for name in [".keep"] + names { try directory.write([], to: "cloud/" + name) }
        try directory.write([], to: "state/.keep")
        var logger = Logger(label: "speed")
        logger.logLevel = .critical
        var surroundings = DriveParts.Surroundings()
        let cloud = FaultyProvider(
            EmbeddedProvider(
                root: directory.path("cloud"),
                deviceName: "speed",
                pool: surroundings.pool
            )
        )
        surroundings.provider = cloud
        let parts = try DriveParts(
            MountConfiguration(
                containers: [.init(url: .local(path: directory.path("cloud")))],
                mountpoint: directory.path("drive"),
                stateDirectory: directory.path("state"),
                deviceName: "speed"
            ),
            in: surroundings,
            kept: try KeptState(nil, NoKeeper()),
            keeper: NoKeeper(),
            logger: logger
        ) { _ in }
        try await parts.meetContainer(within: .seconds(10))
        try await parts.filesystem.ensureListed(.root, within: .seconds(10))
        file = try Self.fill(parts.filesystem)
        self.directory = directory
        self.cloud = cloud
        self.parts = parts
        ledger = RequestLedger(logger: logger)
    }

    deinit {
        parts.close()
    }

    private static func fill(_ filesystem: Filesystem) throws -> ItemID {
        var last = ItemID.root
        // What plays the cloud has one file already.
        for number in 1..<fileCount {
            let (entry, opened) = try filesystem.createFile(
                try ItemName("file\(number)"),
                in: .root,
                permissions: 0o644,
                flags: O_WRONLY | O_CREAT,
                caller: caller
            )
            last = entry.attributes.id
            let bytes = [UInt8](repeating: 7, count: number == fileCount - 1 ? 64 << 10 : 0)
            let written = try filesystem.write(
                opened.handle,
                offset: 0,
                count: bytes.count,
                caller: caller
            ) { file, offset, count throws(CloudFSError) in
                pwrite(file.descriptor, bytes, count, off_t(offset))
            }
            #expect(written == bytes.count)
            filesystem.release(opened.handle)
        }
        return last
    }

    /// Writes a file as another device does.
    func writeInCloud(_ text: String, to name: String) throws {
        try directory.write(text.utf8, to: "cloud/" + name)
    }

    /// Renames a file as another device does.
    func moveInCloud(_ name: String, to other: String) {
        #expect(rename(directory.path("cloud/" + name), directory.path("cloud/" + other)) == 0)
    }

    /// Answers a request as if the kernel had sent it.
    func answer(
        _ operation: String,
        _ work: (Filesystem) throws(CloudFSError) -> Answer<FuseReply>
    ) {
        FuseRequest(port, ledger, operation, item: file).answerLater { () throws(CloudFSError) in
            try work(filesystem)
        }
    }
}

/// Takes replies, and does nothing with them.
private final class SilentPort: RequestPort {
    let failures = Mutex(0)

    func watch(_ interruption: Interruption) {
        failures.withLock { $0 += 1 }
    }

    func unwatch(_ interruption: Interruption) {}

    func send(_ reply: FuseReply) {
        if case .failure = reply { failures.withLock { $0 += 1 } }
    }
}

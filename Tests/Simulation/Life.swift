import Logging
import Synchronization

@testable import CloudFS

/// One process of a device, from its start to its end: a drive on a state directory.
///
/// An end is that of a killed process: from then on the cloud hears nothing of it, programs are
/// told nothing more, and the next process starts from a copy of what was on the disk at that
/// instant. What was still running runs out unheard, in the directory that was left.
final class Life: Sendable {
    let device: String
    let number: Int
    let directory: String
    private let cloud: any SimulatedCloud
    private let link: NetworkLink
    private let hasEnded = Atomic(false)
    private let drive = Mutex<(parts: DriveParts, task: Task<Void, Never>)?>(nil)
    private let access = Mutex<Access?>(nil)
    /// Called at each of the engine's fault points.
    private let onFault: @Sendable (Life, String) -> Void
    /// Told of failures that no engine should have.
    private let onFailure: @Sendable (String) -> Void

    /// The process that what runs now belongs to.
    @TaskLocal static var current: Life?

    init(
        device: String,
        number: Int,
        directory: String,
        cloud: any SimulatedCloud,
        link: NetworkLink,
        onFailure: @escaping @Sendable (String) -> Void,
        onFault: @escaping @Sendable (Life, String) -> Void
    ) {
        self.device = device
        self.number = number
        self.directory = directory
        self.cloud = cloud
        self.link = link
        self.onFault = onFault
        self.onFailure = onFailure
    }

    /// Read once: a start would spend more than half of its time on it.
    private static let contentTypes = ContentTypes(.installed())

    /// Why programs of a process hear nothing more.
    struct Ended: Error {}

    var isOver: Bool { hasEnded.load(ordering: .relaxed) }

    func requireGoingOn() throws {
        if isOver { throw Ended() }
    }

    /// The drive, as long as its process lives.
    func parts() throws -> DriveParts {
        try requireGoingOn()
        guard let drive = drive.withLock({ $0?.parts }) else { throw Ended() }
        return drive
    }

    /// Opens the drive, and runs it.
    func start() throws {
        try Life.$current.withValue(self) {
            var configuration = MountConfiguration(
                containers: [.init(url: .local(path: "/simulated"))],
                mountpoint: "/simulated-drive",
                stateDirectory: directory,
                deviceName: device
            )
            // Other processes are not simulated.
            configuration.thumbnails = .off
            configuration.passthrough = false
            configuration.cacheSize = 1 << 30
            configuration.freeFloor = 1
            let pool = BlockingPool { work in
                Scheduler.shared.run { Life.$current.withValue(self) { work() } }
            }
            let device = device
            let visitor = Visitor(
                device: device,
                stateDirectory: directory,
                link: link,
                pool: pool
            ) { text in Trace.note("\(device)>cloud", text()) }
            let access = try cloud.access(for: visitor)
            self.access.withLock { $0 = access }
            let surroundings = DriveParts.Surroundings(
                // That of the machine is never the same twice.
                space: { _ in DiskSpace(total: 1 << 40, free: 1 << 40, available: 1 << 40) },
                pool: pool,
                provider: access.provider,
                contentTypes: Self.contentTypes
            )
            let logger = Logger(label: device) { _ in
                // What a process does that is no more is nobody's to see.
                TraceLog(device: device) { text in if !self.isOver { self.onFailure(text) } }
            }
            let parts = try DriveParts(
                configuration,
                in: surroundings,
                kept: try KeptState(nil, NoKeeper()),
                keeper: NoKeeper(),
                logger: logger
            ) { _ in }
            let task = Task { await parts.run() }
            drive.withLock { $0 = (parts, task) }
            // It may have been killed on the way.
            if isOver { task.cancel() }
        }
    }

    /// Ends all that the process can still do.
    func end() {
        hasEnded.store(true, ordering: .relaxed)
        access.withLock { $0 }?.end()
        // Not here: it may have been killed inside a lock that the end of its tasks takes.
        let task = drive.withLock { $0?.task }
        Scheduler.shared.run { task?.cancel() }
    }

    /// Lets go of the drive, once nothing asks for it any more.
    func forget() {
        let parts = drive.withLock { drive in
            defer { drive = nil }
            return drive?.parts
        }
        // What a drive is made of keeps itself, and its files open: a process takes all with it.
        do {
            try parts?.filesystem.catalog.close()
        } catch {
            Trace.note(device, "\(error)")
        }
        // It does its work in this process's name, and would keep it for ever.
        access.withLock { $0 = nil }
    }

    func reachFault(_ name: String) {
        guard !isOver else { return }
        onFault(self, name)
    }
}

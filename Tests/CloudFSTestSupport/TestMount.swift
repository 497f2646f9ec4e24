import Foundation
import Glibc
import Synchronization

/// One `cloudfs-mount -f`, from its start to a certain end.
///
/// It is started and watched from outside, as a service manager would: ready when it says so on
/// `NOTIFY_SOCKET`, ended by a signal, and taken away by force when that does not help.
public final class TestMount: Sendable {
    public struct Options: Sendable {
        /// More arguments for `cloudfs-mount`.
        public var arguments: [String]
        /// How long a file must be quiet before it is uploaded; short, as tests wait for it.
        public var quietTime = "100ms"
        /// The container's URL; `nil`: a folder of the test.
        public var container: String?
        /// More environment for the daemon, such as credentials.
        public var environment: [String: String] = [:]
        /// Another user to run as; needs root.
        public var userID: UInt32?
        /// How long it may take until it says that it is ready.
        public var readyLimit: Duration = .seconds(20)

        public init(_ arguments: [String] = []) {
            self.arguments = arguments
        }

        /// Every request to the cloud takes this long.
        public static func latency(_ time: String) -> [String] { ["--simulate-latency", time] }
        /// What all downloads together, and all uploads together, get per second.
        public static func bandwidth(_ rate: String) -> [String] { ["--simulate-bandwidth", rate] }
        /// The share of requests that fail, 0 to 1.
        public static func failures(_ share: String) -> [String] { ["--simulate-failures", share] }
        /// A cloud that accepts requests and never answers.
        public static let hanging = latency("1h")
    }

    /// The copy of a catalog could not be asked.
    public struct NoAnswer: Error, CustomStringConvertible {
        public let description: String
    }

    /// It ended, or said nothing, before it was ready.
    public struct NotReady: Error, CustomStringConvertible {
        public let status: Int32?
        public let log: String

        public var description: String {
            "cloudfs-mount \(status.map { "ended with \($0)" } ?? "did not say READY=1")\n\(log)"
        }
    }

    public let container: String
    public let path: String
    public let state: String
    public let runtime: String
    public let log: String
    private let currentOptions: Mutex<Options>
    private let process = Mutex<ChildProcess?>(nil)
    private let started = Mutex<Duration>(.zero)

    /// - Parameters:
    ///   - container: The container's URL.
    ///   - path: The mountpoint, an empty folder.
    ///   - folder: Where state, sockets and log go.
    ///   - name: Tells them from those of other mounts in the same folder.
    ///   - options: How it is started.
    public init(
        container: String,
        path: String,
        folder: String,
        name: String,
        options: Options
    ) {
        self.container = container
        self.path = path
        currentOptions = Mutex(options)
        state = "\(folder)/\(name)-state"
        runtime = "\(folder)/run"
        log = "\(folder)/\(name).log"
    }

    public var options: Options { currentOptions.withLock { $0 } }

    /// Gives the next start other arguments.
    public func change(_ arguments: [String]) {
        currentOptions.withLock { $0.arguments = arguments }
    }

    /// Gives the next start another environment.
    public func change(environment: [String: String]) {
        currentOptions.withLock { $0.environment = environment }
    }

    /// The supervisor.
    public var pid: Int32? { process.withLock { $0?.pid } }
    /// The process that serves the drive; `nil` while there is none, or one is about to take over.
    public var worker: Int32? {
        guard let pid else { return nil }
        let tasks = (try? SystemCall.names(in: "/proc/\(pid)/task")) ?? []
        let children = tasks.flatMap { task in
            Shell.text(of: "/proc/\(pid)/task/\(task)/children").split(separator: " ")
        }
        let workers = children.compactMap { Int32($0) }.filter { child in
            Shell.text(of: "/proc/\(child)/cmdline").contains("--worker-descriptor")
        }
        return workers.count == 1 ? workers[0] : nil
    }
    public var isRunning: Bool { process.withLock { $0.map { $0.status == nil } ?? false } }
    public var logText: String { Shell.text(of: log) }

    /// What a query finds in the catalog: in a copy of it, as a running daemon lets nobody else
    /// open its own.
    public func catalog(_ query: String) async throws -> String {
        let copy = try TemporaryDirectory()
        let result = try await Shell.script(
            """
            cp \(state)/catalog.sqlite* \(copy.path)
            sqlite3 \(copy.path("catalog.sqlite")) '\(query)'
            """
        )
        guard result.status == 0 else { throw NoAnswer(description: "\(result)") }
        return String(result.output.dropLast())
    }

    public var command: [String] {
        var command = [TestMount.binary("cloudfs-mount"), "-f", "--state-dir", state]
        command += ["--quiet-time", options.quietTime] + options.arguments + [container, path]
        if let user = options.userID {
            command = ["setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups"] + command
        }
        return command
    }

    /// Starts it and waits until the drive is usable.
    public func start() async throws {
        let notifications = try NotifySocket(
            path: "\(runtime)/notify-\(UInt32.random(in: 0 ... .max))"
        )
        let begin = ContinuousClock.now
        let child = try ChildProcess(
            command,
            environment: environment.merging(["NOTIFY_SOCKET": notifications.path]) { $1 }
                .merging(options.environment) { $1 },
            output: log,
            errors: log
        )
        process.withLock { $0 = child }
        let end = begin + options.readyLimit
        while !notifications.isReady() {
            guard child.status == nil, ContinuousClock.now < end else {
                throw NotReady(status: child.status, log: logText)
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        started.withLock { $0 = ContinuousClock.now - begin }
    }

    /// What the daemon and the commands for it find in their environment.
    public var environment: [String: String] {
        ["XDG_RUNTIME_DIR": runtime, "XDG_DATA_HOME": "\(runtime)/data", "HOME": "\(runtime)/home"]
    }

    /// How long the last start took until the drive was usable.
    public var startDuration: Duration { started.withLock { $0 } }

    /// Asks it to end and waits until it has, and the mount with it.
    ///
    /// - Returns: The exit status.
    @discardableResult
    public func stop(within limit: Duration = .seconds(15)) async throws -> Int32 {
        guard let child = process.withLock({ $0 }) else { return 0 }
        child.send(SIGTERM)
        return try await child.wait(within: limit)
    }

    /// Ends it without a warning; the dead mount stays behind.
    public func kill9() async throws {
        guard let child = process.withLock({ $0 }) else { return }
        child.send(SIGKILL, toGroup: true)
        _ = try await child.wait(within: .seconds(10))
    }

    public func send(_ signal: Int32) {
        process.withLock { $0?.send(signal) }
    }

    /// Waits for an end that something else caused.
    public func wait(within limit: Duration = .seconds(15)) async throws -> Int32 {
        guard let child = process.withLock({ $0 }) else { return 0 }
        return try await child.wait(within: limit)
    }

    /// Takes mount and process away whatever state they are in.
    ///
    /// Never hangs, never throws.
    public func dispose() async {
        let child = process.withLock { $0 }
        do {
            try await TestMount.detach(path)
            child?.send(SIGKILL, toGroup: true)
            _ = try await child?.wait(within: .seconds(5))
        } catch {
            print("cleaning up \(path): \(error)")
        }
    }

    /// Aborts and lazily unmounts whatever is mounted at `path`.
    public static func detach(_ path: String) async throws {
        for mount in MountEntry.all() where mount.path == path {
            if mount.type.hasPrefix("fuse"), let device = mount.device.split(separator: ":").last {
                // Frees every process that waits for an answer of a daemon that hangs.
                let abort = "/sys/fs/fuse/connections/\(device)/abort"
                if access(abort, W_OK) == 0 {
                    let descriptor = try SystemCall.open(abort, O_WRONLY)
                    _ = try SystemCall.write(descriptor, [0x31], at: 0)
                    try SystemCall.close(descriptor)
                }
            }
            let command = getuid() == 0 ? ["umount", "-l", path] : ["fusermount3", "-uz", path]
            let result = try await Shell.run(command, within: .seconds(10))
            if result.status != 0 { print(result) }
        }
    }

    // MARK: - What this machine can do

    /// Whether mounts can be tested: always with `CI=true`, where what is missing must fail.
    public static var isAvailable: Bool {
        ProcessInfo.processInfo.environment["CI"] == "true"
            || (access("/dev/fuse", R_OK | W_OK) == 0
                && access(binary("cloudfs-mount"), X_OK) == 0)
    }

    public static var isRoot: Bool { getuid() == 0 }

    /// A built program: beside the test bundle, or in `CLOUDFS_BINARIES`.
    public static func binary(_ name: String) -> String {
        if let folder = ProcessInfo.processInfo.environment["CLOUDFS_BINARIES"] {
            return "\(folder)/\(name)"
        }
        return "\(products)/\(name)"
    }

    /// What was built together with the tests.
    static var products: String {
        guard let own = try? SystemCall.symlinkTarget("/proc/self/exe") else { return "." }
        return URL(filePath: own).deletingLastPathComponent().path
    }
}

/// One line of the kernel's list of mounts.
///
/// Reading it touches no mount.
public struct MountEntry: Sendable, Equatable {
    public let path: String
    public let type: String
    public let source: String
    /// Major and minor number, as in `0:42`.
    public let device: String
    public let options: Set<String>

    public static func all() -> [MountEntry] {
        Shell.text(of: "/proc/self/mountinfo").split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ").map(String.init)
            guard let dash = fields.firstIndex(of: "-"), dash >= 6, fields.count > dash + 3 else {
                return nil
            }
            return MountEntry(
                path: fields[4],
                type: fields[dash + 1],
                source: fields[dash + 2],
                device: fields[2],
                options: Set(
                    (fields[5] + "," + fields[dash + 3]).split(separator: ",").map(String.init)
                )
            )
        }
    }

    public static func at(_ path: String) -> [MountEntry] { all().filter { $0.path == path } }
}

/// A socket that a service reports to, as systemd has one.
final class NotifySocket: Sendable {
    let path: String
    private let descriptor: Int32

    init(path: String) throws {
        self.path = path
        let type =
            Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
            | Int32(SOCK_NONBLOCK.rawValue)
        descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { throw SystemError("socket", errno) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0, chmod(path, 0o777) == 0 else {
            close(descriptor)
            throw SystemError("bind \(path)", errno)
        }
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    /// Whether `READY=1` has arrived.
    func isReady() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { return false }
        return String(decoding: buffer[..<count], as: UTF8.self)
            .split(separator: "\n").contains("READY=1")
    }
}

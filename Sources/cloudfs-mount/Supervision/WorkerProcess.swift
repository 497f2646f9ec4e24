import CLinux
import CloudFS
import Dispatch
import Glibc
import Synchronization

/// A worker as its supervisor sees it: a process, and the socket to it.
final class WorkerProcess: Sendable {
    /// What is heard of a worker, in order.
    enum News: Sendable {
        case report(WorkerReport, descriptors: [Int32])
        /// All of its threads that can touch the drive's state are gone.
        case lost(how: String)
    }

    let id: Int
    let channel: MessageSocket
    private let process: pid_t

    private init(id: Int, channel: MessageSocket, process: pid_t) {
        self.id = id
        self.channel = channel
        self.process = process
    }

    /// Starts this program once more, and tells what is heard of it.
    ///
    /// A thread starts it and stays as long as it does, because the kernel ends a worker with the
    /// thread that started it.
    static func start(
        id: Int,
        words: [String],
        _ tell: @escaping @Sendable (News) -> Void
    ) throws(CloudFSError) -> WorkerProcess {
        let outcome = Outcome()
        let result = OwnThread.attempt("cloudfs-worker") {
            do throws(CloudFSError) {
                let worker = try spawn(id, words)
                outcome.finish(.success(worker))
                worker.listen(tell)
            } catch {
                outcome.finish(.failure(error))
            }
        }
        guard result == 0 else { throw failure(result) }
        return try outcome.wait()
    }

    /// Ends it as the kernel would: it has no say in it.
    func kill() {
        Glibc.kill(process, SIGKILL)
    }

    // MARK: - Starting

    /// The number under which the worker finds its socket.
    private static let descriptor: Int32 = 3

    private static func spawn(_ id: Int, _ words: [String]) throws(CloudFSError) -> WorkerProcess {
        guard let (channel, end) = MessageSocket.pair() else { throw failure(errno) }
        defer { withExtendedLifetime(end) {} }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // One that has that number already would be closed on exec.
        let copy = fcntl(end.descriptor, F_DUPFD_CLOEXEC, descriptor + 1)
        guard copy >= 0 else { throw failure(errno) }
        defer { close(copy) }
        posix_spawn_file_actions_adddup2(&actions, copy, descriptor)
        clinux_spawn_close_from(&actions, descriptor + 1)
        let argv = (["cloudfs-mount", "--worker-descriptor", "\(descriptor)"] + words)
            .map { strdup($0) }
        defer { for word in argv { free(word) } }
        let environment = environment(id).map { strdup($0) }
        defer { for entry in environment { free(entry) } }
        var process = pid_t()
        let result = posix_spawn(
            &process,
            Program.path,
            &actions,
            nil,
            argv + [nil],
            environment + [nil]
        )
        guard result == 0 else { throw failure(result) }
        return WorkerProcess(id: id, channel: channel, process: process)
    }

    /// Faults that a test asked for happen to the first worker; the next ones have to cope.
    private static func environment(_ id: Int) -> [String] {
        var entries: [String] = []
        var next = environ
        while let entry = next.pointee {
            entries.append(String(cString: entry))
            next += 1
        }
        return entries.filter { id == 1 || !$0.hasPrefix("CLOUDFS_FAULTS=") }
    }

    private static func failure(_ number: Int32) -> CloudFSError {
        CloudFSError(
            .internalFailure,
            "the drive's worker cannot be started: \(String(cString: strerror(number)))"
        )
    }

    // MARK: - Listening

    private func listen(_ tell: @Sendable (News) -> Void) {
        while let message = channel.receive() {
            guard let report = WorkerReport(message.text) else {
                for descriptor in message.descriptors { close(descriptor) }
                continue
            }
            tell(.report(report, descriptors: message.descriptors))
        }
        if let how = end(within: .milliseconds(50)) { return tell(.lost(how: how)) }
        tell(.lost(how: "a status that the kernel keeps"))
        // It is gone when the kernel lets go of its last thread.
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
    }

    /// How the process ended, if the kernel says so in time.
    private func end(within limit: Duration) -> String? {
        let last = ContinuousClock.now + limit
        var status: Int32 = 0
        while waitpid(process, &status, WNOHANG) != process {
            guard ContinuousClock.now < last else { return nil }
            usleep(2_000)
        }
        let signal = status & 0x7f
        return signal == 0 ? "status \((status >> 8) & 0xff)" : "signal \(signal)"
    }
}

/// What a thread brought about, for the one that waits for it.
private final class Outcome: Sendable {
    private let done = DispatchSemaphore(value: 0)
    private let result = Mutex<Result<WorkerProcess, CloudFSError>?>(nil)

    func finish(_ value: Result<WorkerProcess, CloudFSError>) {
        result.withLock { $0 = value }
        done.signal()
    }

    func wait() throws(CloudFSError) -> WorkerProcess {
        done.wait()
        guard let value = result.withLock({ $0 }) else {
            preconditionFailure("a thread that was waited for has finished")
        }
        return try value.get()
    }
}

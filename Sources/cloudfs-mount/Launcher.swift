import CLinux
import CloudFS
import Glibc

/// Starts the daemon of a drive and waits until the drive is usable.
///
/// The daemon is a new process of the same program, because a Swift process with threads must not
/// `fork`.
struct Launcher {
    private let configuration: MountConfiguration
    private let arguments: [String]

    /// - Parameters:
    ///   - configuration: What will be mounted.
    ///   - arguments: The words that gave this configuration; the daemon reads them again.
    init(_ configuration: MountConfiguration, arguments: [String]) {
        self.configuration = configuration
        self.arguments = arguments
    }

    /// Returns the exit status 0 when the drive is usable.
    ///
    /// - Throws: The sentence of the check or of the daemon that failed.
    func launch() throws(CloudFSError) -> Int32 {
        _ = try MountConfiguration.Checks(configuration).run()
        let state = try StateDirectory(at: configuration.stateDirectory)
        let flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW
        let log = open(state.logPath, flags, 0o600)
        guard log >= 0 else { throw Self.failure("its log \(state.logPath)", errno) }
        defer { close(log) }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Self.failure("a pipe", errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }
        let process: pid_t
        do throws(CloudFSError) {
            process = try start(log: log, readiness: ends[1])
        } catch {
            close(ends[1])
            throw error
        }
        close(ends[1])
        return try wait(for: process, at: ends[0], logPath: state.logPath)
    }

    // MARK: - Starting

    /// The number under which the daemon finds the readiness pipe.
    private static let readinessDescriptor: Int32 = 3

    /// `POSIX_SPAWN_SETSID` of `<spawn.h>`, which the header shows to GNU sources only.
    private static let setSessionFlag: Int16 = 0x80

    private func start(log: Int32, readiness: Int32) throws(CloudFSError) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // The log first: it may itself have the number that the pipe is about to take.
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, log, 1)
        posix_spawn_file_actions_adddup2(&actions, log, 2)
        posix_spawn_file_actions_adddup2(&actions, readiness, Self.readinessDescriptor)
        // What a shell or a script happened to leave open would keep its pipes and folders busy
        // for as long as the drive is mounted. The daemon itself must not close what it did not
        // open: threads of its runtime have descriptors of their own by then.
        clinux_spawn_close_from(&actions, Self.readinessDescriptor + 1)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setflags(&attributes, Self.setSessionFlag)

        let words = ["cloudfs-mount", "--readiness-descriptor", "\(Self.readinessDescriptor)"]
        let argv = (words + arguments).map { strdup($0) }
        defer { for word in argv { free(word) } }
        var process = pid_t()
        let result = posix_spawn(
            &process,
            Program.path,
            &actions,
            &attributes,
            argv + [nil],
            environ
        )
        guard result == 0 else { throw Self.failure("its daemon", result) }
        return process
    }

    /// Makes sure that this command runs in a mount namespace, where all of the drive then is.
    ///
    /// Begins anew there instead of going on: other threads of this process stay where they are.
    ///
    /// - Throws: What keeps the namespace from being entered.
    static func move(to namespace: String, _ command: [String]) throws(CloudFSError) {
        let program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
        guard program >= 0 else { throw failure("in another namespace", errno) }
        defer { close(program) }
        guard try MountConfiguration.HelperArguments.enter(namespace: namespace) else { return }
        let argv = command.map { strdup($0) }
        defer { for word in argv { free(word) } }
        fexecve(program, argv + [nil], environ)
        throw failure("in another namespace", errno)
    }

    // MARK: - Waiting

    private func wait(
        for process: pid_t,
        at descriptor: Int32,
        logPath: String
    ) throws(CloudFSError) -> Int32 {
        var pending: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            pending += buffer[..<count]
            while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: pending[..<end], as: UTF8.self)
                pending.removeSubrange(...end)
                switch ReadinessChannel.parse(line[...]) {
                case .ready: return 0
                case .note(let sentence): Output.line(sentence)
                case .failed(let error):
                    Self.reap(process)
                    throw error
                case nil: Output.line(line)
                }
            }
        }
        let end = Self.reap(process)
        throw CloudFSError(
            .internalFailure,
            "the daemon ended (\(end)) before the drive was usable; \(logPath) says why"
        )
    }

    /// Waits until the daemon has ended, so that nothing is left mounted when this returns.
    @discardableResult
    private static func reap(_ process: pid_t) -> String {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 {
            guard errno == EINTR else { return "status unknown" }
        }
        let signal = status & 0x7f
        return signal == 0 ? "status \((status >> 8) & 0xff)" : "signal \(signal)"
    }

    private static func failure(_ what: String, _ number: Int32) -> CloudFSError {
        CloudFSError(
            .internalFailure,
            "the drive cannot start \(what): \(String(cString: strerror(number))); "
                + "free some resources and try again, or use -f"
        )
    }
}

import Foundation
import Glibc
import Synchronization

/// A child process in a process group of its own.
///
/// All access of tests to a mount that might hang happens in one of these: it can be killed, and
/// if even that does not end it, waiting for it ends.
public final class ChildProcess: Sendable {
    public let pid: Int32
    public let command: String
    private let exit = Promise<Int32>()
    private let isReaped = Mutex(false)

    /// Starts `arguments`; the first is looked up in `PATH`.
    ///
    /// - Parameters:
    ///   - arguments: The program and its arguments.
    ///   - environment: Added to this process's own.
    ///   - input: The file to read standard input from.
    ///   - output: The file that standard output is appended to.
    ///   - errors: The file that standard error is appended to.
    /// - Throws: `SystemError` if it cannot be started.
    public init(
        _ arguments: [String],
        environment: [String: String] = [:],
        input: String = "/dev/null",
        output: String = "/dev/null",
        errors: String = "/dev/null"
    ) throws {
        command = arguments.joined(separator: " ")
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        let appending = O_WRONLY | O_CREAT | O_APPEND
        posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output, appending, 0o644)
        posix_spawn_file_actions_addopen(&actions, 2, errors, appending, 0o644)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setpgroup(&attributes, 0)
        // Swift's runtime and the test runner may block signals; children start with none blocked.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP) | Int16(POSIX_SPAWN_SETSIGMASK)
        )
        let merged = ProcessInfo.processInfo.environment
            .merging(environment) { _, new in new }
            .map { "\($0.key)=\($0.value)" }
        var child: pid_t = 0
        let code = withCStrings(arguments) { argv in
            withCStrings(merged) { envp in
                posix_spawnp(&child, arguments[0], &actions, &attributes, argv, envp)
            }
        }
        guard code == 0 else { throw SystemError("posix_spawn \(arguments[0])", code) }
        pid = child
        Thread.detachNewThread { [self] in reap() }
    }

    /// Waits for the end and returns the exit status, or 128 and the signal's number.
    public func wait(within limit: Duration) async throws -> Int32 {
        try await exit.value("the end of: \(command)", within: limit)
    }

    /// The exit status if it has ended.
    public var status: Int32? { try? exit.result?.get() }

    /// Sends `signal` to the process, or to its whole group.
    public func send(_ signal: Int32, toGroup: Bool = false) {
        isReaped.withLock { isReaped in
            if !isReaped { kill(toGroup ? -pid : pid, signal) }
        }
    }

    /// Whether the process has the file at `path` open.
    ///
    /// Asks the kernel, not the file system.
    public func hasOpen(_ path: String) -> Bool {
        let folder = "/proc/\(pid)/fd"
        let names = (try? SystemCall.names(in: folder)) ?? []
        return names.contains { (try? SystemCall.symlinkTarget("\(folder)/\($0)")) == path }
    }

    private func reap() {
        var info = siginfo_t()
        // The process stays a zombie until the lock is held, so that `send` never hits a stranger
        // that got its number.
        while waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        var raw: Int32 = 0
        isReaped.withLock { isReaped in
            while waitpid(pid, &raw, 0) < 0, errno == EINTR {}
            isReaped = true
        }
        let signal = raw & 0x7f
        exit.fulfil(.success(signal == 0 ? (raw >> 8) & 0xff : 128 + signal))
    }
}

/// Lends C's array of strings to `body`, ended by a null pointer.
private func withCStrings<Value>(
    _ strings: [String],
    _ body: ([UnsafeMutablePointer<CChar>?]) -> Value
) -> Value {
    let copies = strings.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    return body(copies + [nil])
}

/// Runs commands to their end and keeps what they say.
public enum Shell {
    public struct Result: Sendable, CustomStringConvertible {
        public let command: String
        public let status: Int32
        public let output: String
        public let errors: String

        public var description: String {
            "\(command)\nexit status \(status)\noutput: \(output)\nerrors: \(errors)"
        }
    }

    /// A command that ended with another status than the wanted one.
    public struct Failure: Error, CustomStringConvertible {
        public let result: Result

        public var description: String { result.description }
    }

    /// Runs `arguments` and returns how it ended; its whole group is killed after `limit`.
    public static func run(
        _ arguments: [String],
        environment: [String: String] = [:],
        within limit: Duration = .seconds(30)
    ) async throws -> Result {
        let folder = try makeTemporaryFolder()
        defer { removeTree(folder) }
        let child = try ChildProcess(
            arguments,
            environment: environment,
            output: folder + "/output",
            errors: folder + "/errors"
        )
        let status: Int32
        do {
            status = try await child.wait(within: limit)
        } catch {
            child.send(SIGKILL, toGroup: true)
            throw DeadlineError(
                "the end of: \(child.command)\n" + text(of: folder + "/output")
                    + text(of: folder + "/errors"),
                limit
            )
        }
        return Result(
            command: child.command,
            status: status,
            output: text(of: folder + "/output"),
            errors: text(of: folder + "/errors")
        )
    }

    /// Runs a script of bash; a failing command ends it.
    public static func script(
        _ script: String,
        environment: [String: String] = [:],
        within limit: Duration = .seconds(30)
    ) async throws -> Result {
        try await run(
            ["bash", "-c", "set -eo pipefail\n" + script],
            environment: environment,
            within: limit
        )
    }

    /// Whether a command of this name is installed.
    public static func has(_ command: String) -> Bool {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        return path.split(separator: ":").contains { access("\($0)/\(command)", X_OK) == 0 }
    }

    /// A new folder for one test, on the local disk.
    public static func makeTemporaryFolder() throws -> String {
        // Kept short: sockets live below it, and their paths have 108 bytes.
        var template = Array("/tmp/cloudfs-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw SystemError("mkdtemp", errno) }
        return String(cString: made)
    }

    /// Removes a folder of this test with all that is in it, on this file system only.
    ///
    /// Not waited for: the folder may hold a mount that hangs.
    public static func removeTree(_ path: String) {
        do {
            _ = try ChildProcess(["rm", "-rf", "--one-file-system", path])
        } catch {
            print("\(path) was left behind: \(error)")
        }
    }

    public static func text(of path: String) -> String {
        // To its end, also where the kernel writes it and it has no length.
        let bytes = try? FileHandle(forReadingFrom: URL(filePath: path)).readToEnd()
        return String(decoding: bytes ?? Data(), as: UTF8.self)
    }
}

import ArgumentParser
import Foundation
import Glibc

/// A command of the user, run in the same terminal and the same group of processes: Ctrl-C reaches
/// it from the terminal, and other signals are handed on.
struct ChildCommand: Sendable {
    private(set) var words: [String]
    /// What the user handed on; connections are opened later, and must end with this process.
    private let inherited: Set<Int32>

    init(_ words: [String]) {
        self.words = words
        inherited = Set(Self.descriptors())
    }

    /// The same command with further arguments.
    func with(_ arguments: [String]) -> ChildCommand {
        var command = self
        command.words += arguments
        return command
    }

    /// All that this process has open.
    private static func descriptors() -> [Int32] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        return names?.compactMap { Int32($0) } ?? []
    }

    private static let handedOn = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]
    /// What a terminal sends to the whole group: the child decides what to do.
    private static let leftToChild = [SIGINT, SIGQUIT]

    /// Runs the command until it ends.
    ///
    /// - Returns: Its exit status; 128 and the signal's number if one ended it, as in a shell.
    /// - Throws: `ExitCode` 127 if there is no such command, and 126 if it cannot be run.
    func run() async throws -> Int32 {
        let old = Self.leftToChild.map { signal($0, SIG_IGN) }
        defer {
            for (number, handler) in zip(Self.leftToChild, old) { _ = signal(number, handler) }
        }
        let child = try start()
        let sources = Self.handedOn.map { number in
            _ = signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { kill(child, number) }
            source.resume()
            return source
        }
        defer { for source in sources { source.cancel() } }
        return await withCheckedContinuation { continuation in
            // A thread of its own: it does nothing but wait.
            Thread.detachNewThread { continuation.resume(returning: Self.wait(for: child)) }
        }
    }

    private func start() throws -> pid_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var ordinary = sigset_t()
        sigemptyset(&ordinary)
        for number in Self.leftToChild + Self.handedOn + [SIGPIPE] { sigaddset(&ordinary, number) }
        posix_spawnattr_setsigdefault(&attributes, &ordinary)
        attributes.blockNoSignals()
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
        )
        for descriptor in Self.descriptors() where !inherited.contains(descriptor) {
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var child = pid_t()
        let result = posix_spawnp(&child, words[0], nil, &attributes, &arguments, environ)
        guard result == 0 else {
            let reason = String(cString: strerror(result))
            Terminal.errors.line("cloudfs: \(words[0].printable): \(reason)")
            throw ExitCode(result == ENOENT ? 127 : 126)
        }
        return child
    }

    private static func wait(for child: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0 {
            guard errno == EINTR else { return 126 }
        }
        let signal = status & 0x7f
        return signal == 0 ? (status >> 8) & 0xff : 128 + signal
    }
}

extension posix_spawnattr_t {
    /// Gives a command no blocked signals, if `POSIX_SPAWN_SETSIGMASK` is set: the threads that
    /// tasks run on block them, and it would inherit that.
    mutating func blockNoSignals() {
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&self, &none)
    }
}

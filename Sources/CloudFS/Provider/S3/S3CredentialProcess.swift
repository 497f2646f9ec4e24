import Foundation
import Glibc
import Synchronization

/// A program of the user's that prints credentials, run without a shell and within bounds.
///
/// - Source: AWS SDKs and Tools Reference Guide, "Process credential provider"
struct S3CredentialProcess: Sendable {
    private static let outputLimit = 64 * 1_024
    /// One start at a time: a pipe is unmarked for a moment, and a child of another start that
    /// got it would hold it open.
    private static let spawning = Mutex(())

    /// As it stands in the profile: words, some of them quoted.
    var command: String
    /// For sentences.
    var profile: String
    var environment: [String: String]
    /// How long it may take; then it is killed with all it started.
    var limit: Duration = .seconds(30)

    /// Runs the program and understands what it prints; blocks as long as it runs.
    ///
    /// - Throws: `unauthenticated`; `timedOut`; `invalidArgument` for a command that is no words.
    func credentials() throws(CloudFSError) -> S3Credentials {
        guard let words = Self.words(command), !words.isEmpty else {
            throw failure(.invalidArgument, "is no command: a quotation mark is not closed")
        }
        let output = try run(words)
        let answer: ProcessOutput
        do {
            answer = try JSONDecoder().decode(ProcessOutput.self, from: Data(output))
        } catch {
            // The error is not passed on: it may show what was printed.
            throw failure(.unauthenticated, "printed no credentials as JSON")
        }
        guard answer.version == 1 else {
            throw failure(.unauthenticated, "printed credentials of an unknown version")
        }
        var expiration: Timestamp?
        if let text = answer.expiration {
            expiration = S3Time.iso8601(text)
            if expiration == nil { throw failure(.unauthenticated, "printed no valid Expiration") }
        }
        guard
            let credentials = try S3Credentials(
                accessKeyID: answer.accessKeyID,
                secretAccessKey: answer.secretAccessKey,
                sessionToken: answer.sessionToken,
                expiration: expiration,
                source: "what credential_process of the profile \(profile) printed"
            )
        else { throw failure(.unauthenticated, "printed no credentials") }
        return credentials
    }

    private struct ProcessOutput: Decodable {
        enum CodingKeys: String, CodingKey {
            case version = "Version"
            case accessKeyID = "AccessKeyId"
            case secretAccessKey = "SecretAccessKey"
            case sessionToken = "SessionToken"
            case expiration = "Expiration"
        }

        var version: Int
        var accessKeyID: String?
        var secretAccessKey: String?
        var sessionToken: String?
        var expiration: String?
    }

    private func failure(_ code: CloudFSError.Code, _ what: String) -> CloudFSError {
        CloudFSError(code, "credential_process of the profile \(profile) \(what)")
    }

    // MARK: - The command

    /// The words of a command as a shell would see them, with nothing expanded.
    ///
    /// - Returns: `nil` when a quotation mark is not closed.
    static func words(_ command: String) -> [String]? {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var characters = command.makeIterator()
        while let character = characters.next() {
            if character == "\\", quote != "'" {
                guard let next = characters.next() else { return nil }
                let isKept = quote == "\"" && next != "\"" && next != "\\"
                word = (word ?? "") + (isKept ? "\\" : "") + String(next)
            } else if character == quote {
                quote = nil
            } else if quote == nil, character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if quote == nil, character.isWhitespace {
                if let word { words.append(word) }
                word = nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        if let word { words.append(word) }
        return quote == nil ? words : nil
    }

    // MARK: - The child

    private func run(_ words: [String]) throws(CloudFSError) -> [UInt8] {
        let (reading, child, errorNumber) = Self.spawning.withLock { _ in start(words) }
        guard reading >= 0 else { throw failure(.tooManyOpen, "gets no pipe") }
        defer { close(reading) }
        guard errorNumber == 0 else {
            let reason = String(cString: strerror(errorNumber))
            throw failure(.unauthenticated, "cannot be run: \(reason)")
        }
        let end = ContinuousClock.now + limit
        let output = read(reading, until: end)
        let status = output == nil ? nil : wait(for: child, until: end)
        guard let output, let status else {
            // The group: a program that a script started goes with it.
            kill(-child, SIGKILL)
            _ = waitpid(child, nil, 0)
            throw failure(.timedOut, "printed no end within \(limit), or too much")
        }
        guard status == 0 else {
            throw failure(.unauthenticated, "failed; run it by hand to see why")
        }
        return output
    }

    /// Starts the program with a pipe for its output; a `reading` of -1 means that there is none.
    private func start(
        _ words: [String]
    ) -> (reading: Int32, child: pid_t, errorNumber: Int32) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return (-1, 0, errno) }
        // The child's copy has another number; these must not reach it or any other child.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let (child, errorNumber) = spawn(words, output: ends[1])
        close(ends[1])
        return (ends[0], child, errorNumber)
    }

    private func spawn(_ words: [String], output: Int32) -> (child: pid_t, errorNumber: Int32) {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        for descriptor in Self.openDescriptors() where descriptor > 2 {
            posix_spawn_file_actions_addclose(&actions, descriptor)
        }
        // The mount's own threads block signals; the child gets them as a shell would give them.
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
        )
        var arguments = words.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var child: pid_t = 0
        let errorNumber = posix_spawnp(
            &child,
            words[0],
            &actions,
            &attributes,
            &arguments,
            &variables
        )
        return (child, errorNumber)
    }

    /// What is open now: the child is to have none of it, also what others forgot to mark.
    private static func openDescriptors() -> [Int32] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
                .compactMap { Int32($0) }
        } catch {
            // Without /proc the marks (O_CLOEXEC) have to do, which every descriptor here has.
            return []
        }
    }

    /// What comes until the other end is closed; `nil` when it takes too long or is too much.
    private func read(_ descriptor: Int32, until end: ContinuousClock.Instant) -> [UInt8]? {
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4_096)
        while output.count <= Self.outputLimit {
            let rest = ContinuousClock.now.duration(to: end)
            guard rest > .zero else { return nil }
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let milliseconds = rest.components.seconds * 1_000 + 1
            let ready = poll(&waiting, 1, Int32(clamping: min(milliseconds, 1_000)))
            guard ready > 0 else { continue }
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count == 0 { return output }
            if count > 0 {
                output += piece[..<count]
            } else if errno != EINTR {
                return nil
            }
        }
        return nil
    }

    /// How the child ended; `nil` when it has not.
    private func wait(for child: pid_t, until end: ContinuousClock.Instant) -> Int32? {
        var status: Int32 = 0
        while ContinuousClock.now < end {
            let ended = waitpid(child, &status, WNOHANG)
            if ended == child { return status }
            if ended < 0, errno != EINTR { return nil }
            // A child that closed its output and lives on is rare; nothing tells of its end.
            usleep(5_000)
        }
        return nil
    }
}

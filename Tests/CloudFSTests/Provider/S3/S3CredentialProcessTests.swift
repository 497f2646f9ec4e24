import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// Real programs, run as a profile's `credential_process`.
@Suite(.timeLimit(.minutes(10))) struct S3CredentialProcessTests {
    private let folder: TemporaryDirectory

    init() throws {
        folder = try TemporaryDirectory()
    }

    private func process(
        _ script: String,
        limit: Duration = .seconds(20)
    ) throws
        -> S3CredentialProcess
    {
        // Read by the shell: a program just written is busy while other programs are started.
        try folder.write("\(script)\n".utf8, to: "my tool")
        return S3CredentialProcess(
            command: "/bin/sh '\(folder.path("my tool"))' \"one two\" three",
            profile: "p",
            environment: ["PATH": "/usr/bin:/bin", "MARK": "given"],
            limit: limit
        )
    }

    private func error(
        _ script: String,
        limit: Duration = .seconds(20)
    ) async throws
        -> CloudFSError
    {
        let process = try process(script, limit: limit)
        return try await onThread("the program") {
            do throws(CloudFSError) {
                return CloudFSError(.internalFailure, "it gave \(try process.credentials())")
            } catch {
                return error
            }
        }
    }

    @Test func `what a program prints is used`() async throws {
        let process = try process(
            """
            test "$1|$2|$3|$MARK|$HOME" = 'one two|three||given|' || exit 1
            printf '{"Version": 1, "AccessKeyId": "AK", "SecretAccessKey": "s",'
            printf '"SessionToken": "t", "Expiration": "2030-01-01T00:00:00+00:00", "More": [1]}'
            """
        )
        let found = try await onThread("the program") { try process.credentials() }
        #expect(
            found
                == S3Credentials(
                    accessKeyID: "AK",
                    secretAccessKey: "s",
                    sessionToken: "t",
                    expiration: Timestamp(seconds: 1_893_456_000, nanoseconds: 0)
                )
        )
    }

    @Test func `a program inherits no descriptor`() async throws {
        let descriptor = open(folder.path, O_RDONLY)
        defer { close(descriptor) }
        let process = try process(
            """
            for fd in /proc/$$/fd/*; do
              case $(readlink $fd) in '\(folder.path)') exit 1;; esac
            done
            echo '{"Version": 1, "AccessKeyId": "AK", "SecretAccessKey": "s"}'
            """
        )
        #expect(try await onThread("the program") { try process.credentials() }.accessKeyID == "AK")
    }

    @Test(
        arguments: [
            "echo SECRET", "echo '{}'", "echo '{\"Version\": 2}'", "echo '{\"Version\": 1}'",
            "exit 3", "kill -9 $$", "true",
            "echo '{\"Version\":1,\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"SECRET SECRET\"}'",
            "echo '{\"Version\":1,\"AccessKeyId\":\"a\",\"SecretAccessKey\":[\"SECRET\"]}'",
        ]
    )
    func `a program that gives nothing useful is an error without its output`(
        script: String
    ) async throws {
        let error = try await error(script)
        #expect([.unauthenticated, .invalidArgument].contains(error.code), "\(error)")
        #expect(!error.description.contains("SECRET"))
        #expect(error.message.contains("credential_process of the profile p"))
    }

    @Test func `a program that never ends is killed with what it started`() async throws {
        let error = try await error(
            "sleep 600 & echo $! > '\(folder.path("pid"))'; wait",
            limit: .milliseconds(700)
        )
        #expect(error.code == .timedOut)
        let text = String(decoding: try folder.read("pid"), as: UTF8.self)
        let child = try #require(pid_t(text.dropLast()))
        try await eventually("the program's child ended") {
            // A zombie that nobody has waited for yet is dead too.
            guard kill(child, 0) == 0 else { return true }
            let file = fopen("/proc/\(child)/stat", "r")
            guard let file else { return true }
            defer { fclose(file) }
            var line = [CChar](repeating: 0, count: 256)
            fgets(&line, 256, file)
            let bytes = line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
            return String(decoding: bytes, as: UTF8.self).contains(") Z")
        }
    }

    @Test func `a program that prints without end is killed`() async throws {
        #expect(try await error("exec yes").code == .timedOut)
    }

    @Test func `a program that is not there is named as the profile's`() throws {
        let process = S3CredentialProcess(
            command: "/nowhere/tool",
            profile: "p",
            environment: [:]
        )
        let error = #expect(throws: CloudFSError.self) { try process.credentials() }
        #expect(error?.message.contains("cannot be run: No such file") == true)
    }

    @Test(
        arguments: [
            ("", []), ("  a  b\t", ["a", "b"]), ("'a b' \"c d\"e", ["a b", "c de"]),
            ("a\\ b", ["a b"]), ("\"a\\\"b\\n\"", ["a\"b\\n"]), ("'a\\'", ["a\\"]),
            ("'' \"\"", ["", ""]), ("$HOME `x` ;", ["$HOME", "`x`", ";"]),
        ] as [(String, [String])]
    )
    func `a command is split into words`(command: String, words: [String]) {
        #expect(S3CredentialProcess.words(command) == words)
    }

    @Test(arguments: ["'a", "\"a", "a\\"])
    func `a command with an open quotation is refused`(command: String) {
        #expect(S3CredentialProcess.words(command) == nil)
    }
}

import CloudFSTestSupport
import Glibc
import Testing

/// How often a drive has the disk flush what no program asked to be flushed.
@Suite(
    .onMounts,
    .asRoot,
    .printingLogs,
    .notingIssues,
    .enabled(if: Shell.has("strace"), "needs strace")
)
struct FlushTests {
    /// Nothing is sent meanwhile: the folder that plays the cloud flushes what it gets.
    private static func with(
        _ reads: Reads,
        prepare: Filling = Filling { _ in },
        body: (TestDrive) async throws -> Void
    ) async throws {
        var options = TestMount.Options(reads.arguments)
        options.quietTime = "1h"
        try await TestDrive.with(options: options, prepare: prepare) { drive in
            try await eventually("the first comparison is over") {
                try await drive.mustDo(["status", "--json"]).contains(/"isComplete"\s*:\s*true/)
            }
            try await body(drive)
        }
    }

    /// The flushes of the drive's worker while `body` runs, as strace shows them.
    private static func flushes(
        of drive: TestDrive,
        during body: () async throws -> Void
    ) async throws -> [String] {
        let worker = try #require(drive.mount.worker)
        let trace = "\(drive.folder)/run/trace-\(UInt32.random(in: 0 ... .max))"
        let calls = "trace=fsync,fdatasync,syncfs,sync,sync_file_range"
        let tracer = try ChildProcess(
            ["strace", "-f", "-qq", "-y", "-e", calls, "-o", trace, "-p", "\(worker)"],
            errors: "\(trace).errors"
        )
        defer { tracer.send(SIGKILL) }
        try await eventually("all its threads are traced") {
            guard tracer.status == nil else {
                throw SystemError("strace: \(Shell.text(of: trace + ".errors"))", EPERM)
            }
            return try SystemCall.names(in: "/proc/\(worker)/task").allSatisfy { thread in
                // One that has just ended has nothing to say.
                !Shell.text(of: "/proc/\(worker)/task/\(thread)/status")
                    .contains("TracerPid:\t0\n")
            }
        }
        try await body()
        tracer.send(SIGINT)
        _ = try await tracer.wait(within: .seconds(10))
        // A call that another thread's line interrupts has a second line, without its name and a
        // parenthesis.
        return Shell.text(of: trace).split(separator: "\n").map(String.init).filter {
            // Who only waits for what is on its way, in a range that no file has, looks for errors.
            $0.contains(/\b(fsync|fdatasync|syncfs|sync|sync_file_range)\(/)
                && !$0.contains("4611686018427387904, 1, SYNC_FILE_RANGE_WAIT_BEFORE")
        }
    }

    private static func script(_ body: String) -> String {
        """
        for number in range(100):
            name = f"file-{number}"
        \(body.split(separator: "\n").map { "    \($0)" }.joined(separator: "\n"))
        """
    }

    @Test(arguments: Reads.allCases)
    func `what is made, written, closed and renamed is flushed by nobody`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            let flushes = try await Self.flushes(of: drive) {
                try await drive.python(
                    Self.script(
                        """
                        handle = os.open(name + ".new", os.O_CREAT | os.O_WRONLY)
                        os.write(handle, b"text")
                        os.close(handle)
                        os.rename(name + ".new", name)
                        """
                    )
                )
            }
            #expect(flushes.isEmpty, "\(flushes.count): \(flushes.prefix(5))")
            // What would be counted is.
            let asked = try await Self.flushes(of: drive) {
                try await drive.python("os.fsync(os.open('file-0', os.O_RDWR))")
            }
            #expect(!asked.isEmpty)
        }
    }

    /// The bytes of what is gone are unlinked when a power failure cannot bring its name back: for
    /// all that goes in a short time that is certain with one flush, beside the programs.
    @Test(arguments: Reads.allCases)
    func `what is unlinked is flushed together, beside the programs`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            let contents = "find '\(drive.mount.state)/content' -type f | wc -l"
            let before = try await drive.run(contents)
            try await drive.python(Self.script("open(name, 'w').write('text')"))
            let flushes = try await Self.flushes(of: drive) {
                try await drive.python(Self.script("os.unlink(name)"))
                try await eventually("their bytes are gone") {
                    try await drive.run(contents) == before
                }
            }
            #expect(flushes.count <= 12, "\(flushes.count): \(flushes.prefix(5))")
        }
    }

    /// After a power failure a file that the cloud has must not look unchanged with other bytes.
    @Test(arguments: Reads.allCases)
    func `a file that the cloud has costs one flush, at its first change`(
        reads: Reads
    ) async throws {
        let count = 20
        try await Self.with(
            reads,
            prepare: Filling { cloud in
                for number in 0..<count { try cloud.write("\(number)", "\(number)") }
            }
        ) { drive in
            try await drive.run("cat * > /dev/null")
            for number in 0..<count {
                try await eventually("it is here") {
                    try await drive.state("\(number)") == "local"
                }
            }
            let unchanged = try await Self.flushes(of: drive) {
                try await drive.run("cat * > /dev/null; touch -d 2001-02-03 *; chmod 600 *")
            }
            #expect(unchanged.isEmpty, "\(unchanged.count): \(unchanged.prefix(5))")
            let changed = try await Self.flushes(of: drive) {
                try await drive.run("for name in *; do echo more >> $name; done")
            }
            #expect(changed.count <= count, "\(changed.count)")
            #expect(changed.allSatisfy { $0.contains("catalog.sqlite-wal") }, "\(changed)")
            let changedAgain = try await Self.flushes(of: drive) {
                try await drive.run("for name in *; do echo again >> $name; done")
            }
            #expect(changedAgain.isEmpty, "\(changedAgain.count): \(changedAgain.prefix(5))")
        }
    }

    // MARK: - With a cloud that flushes nothing itself

    /// Lends a drive on a bucket, as it is by default.
    private static func with(
        _ reads: Reads,
        on server: FakeS3Server,
        body: (TestDrive) async throws -> Void
    ) async throws {
        var options = S3FaultTests.options(server)
        options.arguments += reads.arguments
        options.quietTime = "2s"
        try await TestDrive.with(options: options) { drive in
            try await eventually("the first comparison is over") {
                try await drive.mustDo(["status", "--json"]).contains(/"isComplete"\s*:\s*true/)
            }
            try await body(drive)
        }
    }

    private static func isOfWholeDisk(_ call: String) -> Bool {
        call.contains(/\b(syncfs|sync)\(/)
    }

    @Test(arguments: Reads.allCases)
    func `small files that are sent cost one flush each, and never one of the whole disk`(
        reads: Reads
    ) async throws {
        let count = 20
        let server = try await FakeS3Server.start()
        try await Self.with(reads, on: server) { drive in
            let flushes = try await Self.flushes(of: drive) {
                try await drive.run("for n in {1..\(count)}; do echo $n > $n; done")
                try await eventually("all are in the cloud", within: .seconds(30)) {
                    (1...count).allSatisfy {
                        server.object(FakeS3Key("prefix/\($0)"))?.bytes == Array("\($0)\n".utf8)
                    }
                }
                try await drive.drain()
            }
            let ofContent = flushes.filter { $0.contains("/content/") }
            let ofCatalog = flushes.filter { $0.contains("/catalog.sqlite") }
            #expect(ofContent.count <= count, "\(ofContent.count): \(ofContent.prefix(5))")
            #expect(ofCatalog.count <= count + 4, "\(ofCatalog.count)")
            // None of the whole disk, which others may have filled.
            #expect(flushes.count == ofContent.count + ofCatalog.count, "\(flushes)")
            #expect(!flushes.contains(where: Self.isOfWholeDisk), "\(flushes)")
        }
    }

    /// What was fetched is flushed before the catalog calls it resident: by itself, or, where eight
    /// or more have come meanwhile, with the whole disk, once.
    @Test(arguments: Reads.allCases, ["cat {1..20}", "echo {1..20} | xargs -n 1 -P 8 cat"])
    func `small files that are fetched are flushed once each, or many of them together`(
        reads: Reads,
        script: String
    ) async throws {
        let count = 20
        let server = try await FakeS3Server.start()
        for number in 1...count { server.put(FakeS3Key("prefix/\(number)"), "text") }
        try await Self.with(reads, on: server) { drive in
            try await drive.run("ls -l > /dev/null")
            let flushes = try await Self.flushes(of: drive) {
                #expect(try await drive.run("\(script) | wc -c") == "80")
                for number in 1...count {
                    try await eventually("it is here") {
                        try await drive.state("\(number)") == "local"
                    }
                }
            }
            let ofWholeDisk = flushes.count(where: Self.isOfWholeDisk)
            let ofContent = flushes.count { $0.contains(/\bfdatasync\(.*\/content\//) }
            #expect(ofContent + 8 * ofWholeDisk <= count, "\(ofContent), \(ofWholeDisk)")
            #expect(flushes.count == ofContent + ofWholeDisk, "\(flushes)")
            #expect(!flushes.isEmpty)
        }
    }
}

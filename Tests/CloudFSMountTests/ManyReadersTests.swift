import CloudFSTestSupport
import Testing

/// What the daemon holds in memory does not grow with those who read.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct ManyReadersTests {
    /// In KiB; 108,000 were measured with a bucket, 59,000 before anybody reads.
    private static let bound = 240 << 10

    /// Starts a hundred `cat` and lets all go at once when the last one has been made.
    private static let readers = """
        wait, go = os.pipe()
        readers = []
        for number in range(100):
            reader = os.fork()
            if reader == 0:
                os.close(go)
                os.read(wait, 1)
                os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
                os.execvp("cat", ["cat", f"file{number}"])
            readers.append(reader)
        os.close(go)
        ended = [os.waitpid(reader, 0)[1] for reader in readers]
        assert ended == [0] * 100, ended
        """

    /// Reads all files of a drive at once.
    ///
    /// - Parameter size: How long each of them is.
    private func check(_ drive: TestDrive, size: Int64) async throws {
        try await drive.run("[ \"$(ls | wc -l)\" = 100 ]")
        let worker = try #require(drive.mount.worker)
        try await drive.python(Self.readers, within: .seconds(180))
        #expect(try await drive.fetched().bytes >= 100 * size)
        #expect(drive.mount.worker == worker)
        let peak = try await drive.run("grep VmHWM /proc/\(worker)/status")
        let kilobytes = try #require(Int(peak.split(separator: " ").dropFirst().first ?? ""))
        print("100 readers of \(size) bytes each: \(kilobytes) KiB")
        #expect(kilobytes < Self.bound)
    }

    @Test func `a hundred readers of placeholders take little memory`() async throws {
        let size = Int64(8 << 20)
        try await TestDrive.with(
            TestMount.Options.bandwidth("100MB"),
            slots: 4,
            prepare: Filling { cloud in
                for number in 0..<100 { try cloud.writeSparse("file\(number)", size: size) }
            }
        ) { drive in
            try await check(drive, size: size)
        }
    }

    @Test func `a hundred readers of objects take little memory`() async throws {
        let size = Int64(8 << 20)
        let server = try await FakeS3Server.start()
        for number in 0..<100 {
            let key = FakeS3Key(Array("prefix/file\(number)".utf8))
            server.putSynthetic(key, byteCount: size)
        }
        var options = S3FaultTests.options(server)
        options.arguments += TestMount.Options.bandwidth("100MB")
        try await TestDrive.with(options: options, slots: 4) { drive in
            try await check(drive, size: size)
        }
    }
}

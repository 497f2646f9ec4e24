import CloudFSTestSupport
import Glibc
import Testing

/// A folder with more names than anybody wants to wait for.
@Suite(
    .onMounts,
    .asRoot,
    .printingLogs,
    .notingIssues,
    .enabled(if: KernelRequests.areCounted, "needs root and a kernel with tracepoints for FUSE")
)
struct WideFolderTests {
    private static let count = 100_000

    private static var filling: Filling {
        Filling { cloud in
            try cloud.makeFolder("wide")
            for number in 0..<count {
                let path = "\(cloud.path)/wide/a file of many \(number)"
                try SystemCall.close(SystemCall.open(path, O_WRONLY | O_CREAT))
            }
        }
    }

    /// Lists as programs do that show names as they come.
    private static let listing = """
        begin = time.monotonic()
        names = os.scandir("wide")
        next(names)
        first = time.monotonic() - begin
        count = 1 + sum(1 for _ in names)
        print(count, first, time.monotonic() - begin)
        """

    private static func expectPages(of drive: TestDrive) async throws {
        var output = ""
        let asked = try await KernelRequests.count(of: drive.path) {
            output = try await drive.python(listing, within: .seconds(60))
        }
        let figures = output.split(separator: " ").compactMap { Double($0) }
        try #require(figures.count == 3, "\(output)")
        #expect(figures[0] == Double(count))
        #expect(figures[1] < figures[2] / 10, "the first name and all, in seconds: \(output)")
        let pages = asked["READDIR", default: 0] + asked["READDIRPLUS", default: 0]
        #expect(pages > 10, "\(asked)")
    }

    /// The most memory that a process has held since that was asked to be forgotten, in bytes.
    private static func peak(of process: Int32) throws -> Int {
        let status = Shell.text(of: "/proc/\(process)/status")
        let line = try #require(status.firstMatch(of: /VmHWM:\s*(\d+) kB/))
        return try #require(Int(line.1)) << 10
    }

    @Test func `100,000 names come in pages, the first at once, and take no memory`() async throws {
        try await TestDrive.with(slots: .max, prepare: Self.filling) { drive in
            try await eventually("all are known", within: .seconds(120)) {
                // Who looks before waits for a while, and gets an error then.
                try await drive.run(
                    "(ls -f wide 2> /dev/null || true) | wc -l",
                    within: .seconds(60)
                ) == "\(Self.count + 2)"
            }
            let again = try await drive.restart()
            try await Self.expectPages(of: again)
            try await eventually("all are compared", within: .seconds(120)) {
                try await again.mustDo(["status", "--json"]).contains(/"isComplete"\s*:\s*true/)
            }
            // Not what the kernel keeps of the folder: that ends with a change.
            try await again.run("> wide/new; rm wide/new")
            let worker = try #require(again.mount.worker)
            try await again.run("echo 5 > /proc/\(worker)/clear_refs")
            let before = try Self.peak(of: worker)
            try await Self.expectPages(of: again)
            // All names at once would be more than 20 MB.
            #expect(try Self.peak(of: worker) - before < 12 << 20)
        }
    }
}

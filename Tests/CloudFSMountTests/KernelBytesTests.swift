import CloudFSTestSupport
import Testing

/// Which bytes of a local file pass through the daemon.
@Suite(
    .onMounts,
    .asRoot,
    .printingLogs,
    .notingIssues,
    .enabled(if: KernelRequests.areCounted, "needs root and a kernel with tracepoints for FUSE")
)
struct KernelBytesTests {
    enum Use: String, CaseIterable, CustomTestStringConvertible, Sendable {
        case reading
        case writing
        case loadingFromMapping
        case storingIntoMapping

        var testDescription: String { rawValue }

        /// What is done with `file`, of which the kernel has no page.
        var program: String {
            switch self {
            case .reading: "assert os.pread(handle, 200000, 0) == real"
            case .writing: "assert os.pwrite(handle, real[:4], 1000) == 4"
            case .loadingFromMapping:
                "assert mmap.mmap(handle, 0, prot=mmap.PROT_READ)[:] == real"
            case .storingIntoMapping:
                """
                view = mmap.mmap(handle, 0)
                view[5000:5004] = real[:4]
                view.flush()
                """
            }
        }

        /// What the kernel has to ask for then, where it cannot reach the bytes by itself.
        var request: String {
            switch self {
            case .reading, .loadingFromMapping: "READ"
            case .writing, .storingIntoMapping: "WRITE"
            }
        }
    }

    private static func asked(for use: Use, of drive: TestDrive) async throws -> [String: Int] {
        try await KernelRequests.count(of: drive.path) {
            try await drive.python(
                """
                real = open(os.environ["SCRATCH"] + "/file", "rb").read()
                handle = os.open("file", os.O_RDWR)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                \(use.program)
                os.close(handle)
                with open(os.environ["SCRATCH"] + "/file", "wb") as now:
                    now.write(open("file", "rb").read())
                """
            )
        }
    }

    @Test(arguments: Reads.allCases, Use.allCases)
    func `bytes of a local file pass through the daemon only where they must`(
        reads: Reads,
        use: Use
    ) async throws {
        try await TestDrive.with(
            reads.arguments,
            prepare: Filling { try $0.write("file", HydrationTests.bytes(200_000)) }
        ) { drive in
            try await drive.run("cp file \"$SCRATCH/file\"")
            try await eventually("it is here") { try await drive.state("file") == "local" }
            let disk = try await drive.run("stat -f -c %T '\(drive.mount.state)'")
            if reads == .byKernel, disk != "tmpfs" {
                var asked: [String: Int] = [:]
                do {
                    // A handle from before it was here lasts a little longer than its program.
                    try await eventually("the kernel does it by itself", within: .seconds(10)) {
                        asked = try await Self.asked(for: use, of: drive)
                        return asked["READ"] == nil && asked["WRITE"] == nil
                    }
                } catch {
                    Issue.record("\(asked.sorted { $0.key < $1.key })")
                    throw error
                }
                #expect(asked["OPEN", default: 0] > 0, "nothing was counted")
            } else {
                let asked = try await Self.asked(for: use, of: drive)
                #expect(asked[use.request, default: 0] > 0, "\(asked)")
            }
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"; cmp file \"$SCRATCH/file\"")
        }
    }

    /// `git status` reads its own files, each of which is asked for its times before.
    @Test func `git status asks for nothing of the files that it looks after`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
                git init -q .
                git config user.name x && git config user.email x@example.org
                for i in {0..14}; do
                    mkdir $i; for j in {0..19}; do echo $i$j > $i/$j; done
                done
                git add . && git commit -qm all
                """
            )
            try await drive.drain()
            var asked: [String: Int] = [:]
            do {
                try await eventually("only git's own files are asked for") {
                    asked = try await KernelRequests.count(of: drive.path) {
                        try await drive.run(
                            """
                            export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
                            [ -z "$(git status --porcelain)" ]
                            """
                        )
                    }
                    let opened = asked["OPEN", default: 0]
                    return opened <= 40 && asked["GETATTR", default: 0] <= opened + 4
                        && asked["LOOKUP", default: 0] <= 4
                        && asked["READDIR"] == nil && asked["READDIRPLUS"] == nil
                }
            } catch {
                Issue.record("\(asked.sorted { $0.key < $1.key })")
                throw error
            }
        }
    }
}

import CloudFSTestSupport
import Testing

/// What the kernel answers by itself, without asking the drive.
@Suite(
    .onMounts,
    .printingLogs,
    .notingIssues,
    .enabled(if: KernelRequests.areCounted, "needs root and a kernel with tracepoints for FUSE")
)
struct KernelRequestTests {
    private static let folders = 12

    private static var filling: Filling {
        Filling { cloud in
            for folder in 0..<folders {
                for file in 0..<10 { try cloud.write("all/\(folder)/\(file)", "some bytes") }
            }
        }
    }

    /// Expects that `script`, of which all is known, asks the drive for nothing but `allowed`, and
    /// only so often, also after a while.
    private static func expect(
        atMost allowed: [String: Int],
        of script: String,
        in drive: TestDrive
    ) async throws {
        // What the first comparison finds is news to the kernel as well.
        try await eventually("the first comparison is over") {
            try await drive.mustDo(["status", "--json"]).contains(/"isComplete"\s*:\s*true/)
        }
        // The second time the kernel asks when the folders were read that it has just read.
        for _ in 1...2 { try await drive.run(script) }
        // The property itself, and no condition: what the kernel keeps for a second is no cache.
        try await Task.sleep(for: .seconds(3))
        let asked = try await KernelRequests.count(of: drive.path) {
            try await drive.run(script)
        }
        let isKnown = asked.allSatisfy { $0.value <= allowed[$0.key, default: 0] }
        #expect(isKnown, "\(script): \(asked.sorted { $0.key < $1.key })")
    }

    /// Nothing counted would look like nothing asked.
    @Test func `what was never seen is asked for, and counted`() async throws {
        try await TestDrive.with(prepare: Self.filling) { drive in
            let asked = try await KernelRequests.count(of: drive.path) {
                try await drive.run("ls all/0 > /dev/null")
            }
            #expect(asked["OPENDIR"] == 1 && asked["READDIRPLUS"] == 1)
            #expect(asked["LOOKUP", default: 0] >= 2)
        }
    }

    @Test(arguments: ["find all -printf '%s %m %T@\\n'", "ls -lR all", "du -s all"])
    func `going through what is known asks for folders to be opened only`(
        script: String
    ) async throws {
        try await TestDrive.with(prepare: Self.filling) { drive in
            let count = Self.folders + 2
            // `ls` asks for attributes of other systems until one file has none of them. The kernel
            // may have let go of the names of a folder.
            try await Self.expect(
                atMost: [
                    "OPENDIR": count, "RELEASEDIR": count, "GETXATTR": 2,
                    "READDIR": 4, "READDIRPLUS": 4,
                ],
                of: script + " > /dev/null",
                in: drive
            )
        }
    }

    @Test func `stat of what is known, and of what is not there, asks nothing`() async throws {
        try await TestDrive.with(prepare: Self.filling) { drive in
            try await Self.expect(
                atMost: [:],
                of: "stat all/{0..11}/3 > /dev/null; [ ! -e all/nothing ]; [ ! -e all/1/nothing ]",
                in: drive
            )
        }
    }

    @Test func `what was sent is still known`() async throws {
        try await TestDrive.with { drive in
            try await drive.run("for i in {0..49}; do echo $i > $i; done; stat * > /dev/null")
            let asked = try await KernelRequests.count(of: drive.path) {
                try await drive.drain()
                try await drive.run("stat {0..49} > /dev/null")
            }
            #expect(asked["GETATTR", default: 0] <= 5 && asked["LOOKUP", default: 0] <= 5)
        }
    }

    @Test func `git status opens folders and its own files`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
                git init -q .
                git config user.name x && git config user.email x@example.org
                for i in {0..9}; do mkdir $i; for j in {0..9}; do echo $i$j > $i/$j; done; done
                git add . && git commit -qm all
                """
            )
            try await drive.drain()
            // It has a lock file, and each file of its own that it opens is asked for its times.
            try await Self.expect(
                atMost: [
                    "OPENDIR": 14, "RELEASEDIR": 14, "READDIR": 4, "READDIRPLUS": 4,
                    "OPEN": 24, "FLUSH": 26, "RELEASE": 26, "GETATTR": 28, "READ": 4,
                    "CREATE": 2, "UNLINK": 2, "RENAME": 2, "LOOKUP": 4,
                ],
                of: "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; git status --porcelain > /dev/null",
                in: drive
            )
        }
    }
}

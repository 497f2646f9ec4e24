import CloudFSTestSupport
import Testing

/// What takes long goes on when the worker dies in the middle of it.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct GoingOnTests {
    /// A way to the origin that stops in the middle, until somebody opens the gate.
    private static let way = """
        import os
        sent, gate = 0, os.environ["SCRATCH"] + "/gate"
        while data := os.read(0, 4096):
            os.write(1, data)
            sent += len(data)
            if gate and sent > 1_000_000:
                open(gate).close()
                gate = None
        """

    private static func makeOrigin(beside drive: TestDrive) async throws {
        let scratch = TestFolder("\(drive.folder)/run")
        try scratch.write("way.py", way)
        try scratch.write(
            "far",
            "#!/bin/sh\ngit-upload-pack \"$@\" | /usr/bin/python3 \"$SCRATCH/way.py\"\n"
        )
        try await drive.run(
            """
            export GIT_CONFIG_GLOBAL=/dev/null
            mkfifo "$SCRATCH/gate"; chmod +x "$SCRATCH/far"
            git init -q "$SCRATCH/origin"; cd "$SCRATCH/origin"
            git config user.name n; git config user.email e@x
            head -c 4000000 /dev/urandom | split -b 4000 -a 3 -d - f
            git add .; git commit -qm all; git repack -qad
            """
        )
    }

    @Test func `a git clone that is under way does not notice that workers die`() async throws {
        try await TestDrive.with(slots: 2) { drive in
            try await Self.makeOrigin(beside: drive)
            let said = "\(drive.folder)/run/clone.out"
            let clone = try drive.start(
                """
                export GIT_CONFIG_GLOBAL=/dev/null
                exec git clone -q --no-local -u "$SCRATCH/far" "$SCRATCH/origin" clone
                """,
                output: said
            )
            let part = "find clone/.git -name 'tmp_pack*' -size +400k 2> /dev/null || :"
            try await eventually("it receives", within: .seconds(30)) {
                try await !drive.run(part).isEmpty
            }
            #expect(clone.status == nil, "\(Shell.text(of: said))")
            try await drive.loseWorker()
            try await drive.run(": > \"$SCRATCH/gate\"")
            for name in ["f050", "f300"] {
                try await eventually("\(name) is checked out", within: .seconds(60)) {
                    try await drive.exists("clone/\(name)")
                }
                #expect(try await !drive.exists("clone/f999"))
                #expect(clone.status == nil, "\(Shell.text(of: said))")
                try await drive.loseWorker()
            }
            let status = try await clone.wait(within: .seconds(120))
            #expect(status == 0, "\(Shell.text(of: said))")
            try await drive.run(
                """
                export GIT_CONFIG_GLOBAL=/dev/null
                git -C clone fsck --strict
                diff -r -x .git "$SCRATCH/origin" clone
                """
            )
        }
    }

    @Test(arguments: [["--no-passthrough"], []])
    func `a cp out of a slow cloud does not notice that workers die`(
        arguments: [String]
    ) async throws {
        let bytes = HydrationTests.bytes(4_000_000)
        try await TestDrive.with(
            arguments + TestMount.Options.bandwidth("1MB"),
            slots: 2,
            prepare: Filling { try $0.write("big", bytes) }
        ) { drive in
            let scratch = TestFolder("\(drive.folder)/run")
            let said = "\(drive.folder)/run/cp.out"
            let copy = try drive.start("exec cp big \"$SCRATCH/copy\"", output: said)
            for size in [Int64(500_000), 1_500_000, 2_500_000] {
                try await eventually("\(size) bytes are copied", within: .seconds(30)) {
                    ((try? scratch.status("copy"))?.size ?? 0) >= size
                }
                #expect(copy.status == nil, "\(Shell.text(of: said))")
                try await drive.loseWorker()
            }
            let status = try await copy.wait(within: .seconds(60))
            #expect(status == 0, "\(Shell.text(of: said))")
            #expect(scratch.bytes("copy") == bytes)
        }
    }
}

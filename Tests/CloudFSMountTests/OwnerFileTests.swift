import CloudFSTestSupport
import Glibc
import Testing

/// Files by which office programs tell each other who has a document open.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct OwnerFileTests {
    private static let name = ".~lock.doc.odt#"

    /// A program that has a document open, as its lock file says.
    private static func open(on drive: TestDrive) throws -> ChildProcess {
        try drive.start(
            """
            exec python3 -c '
            import time
            open("\(name)", "x").write(",me,here,22.11.2026 12:00,;")
            while True: time.sleep(60)
            '
            """
        )
    }

    /// How many lock files the drive knows the programs of, and whether those mean to keep them.
    private static func known(to drive: TestDrive, kept: Bool) async throws -> String {
        let query = "SELECT count(*) FROM owner_file WHERE is_kept = \(kept ? 1 : 0)"
        return try await drive.mount.catalog(query)
    }

    private static func isKept(on drive: TestDrive) async throws {
        try await eventually("it is known whose lock file it is") {
            try await known(to: drive, kept: true) == "1"
        }
    }

    @Test func `a lock file is seen on other devices, and goes away with its program`()
        async throws
    {
        try await TestDrive.with(slots: 2) { drive in
            try await drive.withSecondDrive { second in
                let program = try Self.open(on: drive)
                try await eventually("the other device sees it") {
                    try await second.names() == [Self.name]
                }
                try await Self.isKept(on: drive)
                program.send(SIGKILL)
                for each in [drive, second] {
                    try await eventually("it is gone") { try await each.names() == [] }
                }
                #expect(try await Self.known(to: drive, kept: true) == "0")
            }
        }
    }

    @Test func `a lock file goes away when its program died with the daemon`() async throws {
        try await TestDrive.with { drive in
            let program = try Self.open(on: drive)
            try await Self.isKept(on: drive)
            try await drive.mount.kill9()
            program.send(SIGKILL)
            try await drive.mount.start()
            try await eventually("it is gone") { try await drive.names() == [] }
            try await drive.drain()
            #expect(try drive.cloud.paths() == [])
        }
    }

    @Test func `who copies a lock file leaves it there`() async throws {
        try await TestDrive.with { drive in
            // Both are gone long before the cloud has their files.
            try await drive.mustDo(["pause"])
            try await drive.run("touch '\(Self.name)'; cp '\(Self.name)' '~$doc.docx'")
            try await eventually("nobody is waited for") {
                try await Self.known(to: drive, kept: false) == "0"
            }
            try await drive.mustDo(["resume"])
            try await drive.drain()
            #expect(try await drive.names() == [Self.name, "~$doc.docx"])
            #expect(try drive.cloud.paths().count == 2)
        }
    }

    @Test func `of two lock files made at once the first to arrive counts`() async throws {
        try await ConflictTests.apart(
            prepare: Filling { _ in },
            here: "echo ours > '\(Self.name)'",
            elsewhere: "echo theirs > '\(Self.name)'"
        ) { drive in
            try await eventually("it is theirs") {
                try await drive.text(Self.name) == "theirs\n"
            }
            #expect(try await drive.names() == [Self.name])
            try await drive.drain()
            #expect(try drive.cloud.paths() == [Self.name])
        }
    }
}

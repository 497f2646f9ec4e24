import CloudFSTestSupport
import Testing

/// Pinned folders have everything here, and a pause holds that back.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct PinnedTests {
    private static func fill(_ cloud: TestFolder) throws {
        for name in ["pins/first", "other/here", "other/there", "other/folder/deep"] {
            try cloud.write(name, HydrationTests.bytes(300_000))
        }
    }

    private static func areHere(_ names: [String], on drive: TestDrive) async throws -> Bool {
        for name in names {
            guard try await drive.exists(name) else { return false }
            let info = try await drive.info(name)
            guard info["percent-downloaded"]?.integer == 100 else { return false }
        }
        return true
    }

    @Test func `what is moved to a pinned folder comes, whoever moves it`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pin", "pins"])
            try await eventually("the first is here") {
                try await Self.areHere(["pins/first"], on: drive)
            }
            try await drive.run("mv other/here other/folder pins")
            try await drive.run("mv \"$CLOUD/other/there\" \"$CLOUD/pins\"")
            try await eventually("all is here", within: .seconds(20)) {
                let names = ["pins/here", "pins/folder/deep", "pins/there"]
                return try await Self.areHere(names, on: drive)
            }
        }
    }

    @Test func `what is pinned by itself comes though its folder no longer is`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pause"])
            try await drive.mustDo(["pin", "other/folder"])
            try await drive.mustDo(["pin", "other"])
            try await drive.mustDo(["unpin", "other"])
            try await drive.mustDo(["resume"])
            try await eventually("it is here", within: .seconds(20)) {
                try await Self.areHere(["other/folder/deep"], on: drive)
            }
            let info = try await drive.info("other/here")
            #expect(info["percent-downloaded"]?.integer == 0)
        }
    }

    @Test func `the cloud's version of a conflict in a pinned folder comes`() async throws {
        try await TestDrive.with(
            prepare: Filling { try $0.write("pins/document", "base\n") }
        ) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pin", "pins"])
            try await eventually("it is here") {
                try await Self.areHere(["pins/document"], on: drive)
            }
            try await drive.mustDo(["pause"])
            try await drive.run("echo ours > pins/document")
            try await drive.run("echo theirs > \"$CLOUD/pins/document\"")
            try await drive.mustDo(["resume"])
            try await drive.drain()
            try await eventually("both are here", within: .seconds(20)) {
                let names = try await drive.names("pins").map { "pins/\($0)" }
                guard names.count == 2 else { return false }
                return try await Self.areHere(names, on: drive)
            }
            #expect(try await drive.text("pins/document") == "theirs\n")
        }
    }

    @Test func `during a pause what is read comes, and nothing else`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            func connection() async throws -> JSONNode? {
                try JSONNode(try await drive.mustDo(["status", "--json"])).first("connection")
            }
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pause"])
            let paused = try await connection()
            #expect(paused?["state"]?.string == "paused")
            #expect(paused?["since"]?.string != nil)
            try await drive.mustDo(["pin", "pins"])
            let asked = try await drive.cloudfs(["download", "other/there"])
            #expect(asked.status == 1)
            #expect(asked.errors.contains("cloudfs resume"), "\(asked)")
            try await drive.run("cmp other/here \"$CLOUD/other/here\"")
            try await Task.sleep(for: .seconds(1))
            #expect(try await drive.fetched().bytes == 300_000)
            #expect(try await connection() == paused)

            let again = try await drive.restart()
            #expect(try await connection() == paused)
            try await Task.sleep(for: .seconds(1))
            #expect(try await again.fetched().bytes == 0)
            try await again.mustDo(["resume"])
            try await eventually("what was asked for is here") {
                try await Self.areHere(["pins/first", "other/there"], on: again)
            }
        }
    }

    @Test func `a pause ends a download on its way, which goes on after it`() async throws {
        try await TestDrive.with(
            ["--download-limit", "2MB"],
            prepare: Filling { try $0.write("pins/film", HydrationTests.bytes(6 << 20)) }
        ) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pin", "pins"])
            try await eventually("some of it is here") { try await drive.fetched().bytes > 0 }
            try await drive.mustDo(["pause"])
            try await Task.sleep(for: .milliseconds(500))
            let held = try await drive.fetched().bytes
            #expect(held < 6 << 20)
            try await Task.sleep(for: .seconds(2))
            #expect(try await drive.fetched().bytes == held)
            try await drive.mustDo(["resume"])
            try await eventually("all of it is here", within: .seconds(20)) {
                try await Self.areHere(["pins/film"], on: drive)
            }
            try await drive.run("cmp pins/film \"$CLOUD/pins/film\"")
        }
    }
}

import CloudFSTestSupport
import Testing

/// What is removed here while another device removes or moves it, or what it is in; and what only
/// seems to be removed.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct RemovedTwiceTests {
    /// Mounts a drive again that was paused: what waits is sent before the cloud was compared.
    private static func sendingAtOnce(_ drive: TestDrive) async throws -> TestDrive {
        let sql = "DELETE FROM setting WHERE key = 'paused'; UPDATE outbox SET not_before = 0"
        let catalog = "\(drive.mount.state)/catalog.sqlite"
        let result = try await Shell.run(["sqlite3", catalog, sql])
        try #require(result.status == 0, "\(result)")
        return try await drive.again()
    }

    /// The deletion may be sent before anybody knows where the folder is.
    @Test func `what was removed before its folder was moved elsewhere stays removed`()
        async throws
    {
        let names = (0..<20).map { "folder/deep/\($0)" }
        try await TestDrive.with(
            prepare: Filling { cloud in
                for name in names + ["folder/deep/kept"] { try cloud.write(name, name) }
            }
        ) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pause"])
            try await drive.run("rm folder/deep/[0-9]*")
            try await drive.mount.stop()
            try drive.cloud.rename("folder", to: "elsewhere")
            let again = try await Self.sendingAtOnce(drive)
            try await eventually("the folder is where it was moved to") {
                try await again.names() == ["elsewhere"]
            }
            try await again.drain()
            #expect(try await again.run("ls elsewhere/deep") == "kept")
            #expect(
                try drive.cloud.paths() == ["elsewhere", "elsewhere/deep", "elsewhere/deep/kept"]
            )
        }
    }

    /// Nobody lists a folder that was removed here, so nobody hears that one in it is gone.
    @Test(arguments: [false, true])
    func `what was removed here is sent though another device removed a folder in it`(
        isEdited: Bool
    ) async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for name in ["folder/deep/deeper/x", "folder/y", "other"] {
                    try cloud.write(name, name)
                }
            }
        ) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pause"])
            try await drive.run("rm -r folder; rm -r \"$CLOUD/folder/deep\"")
            if isEdited { try drive.cloud.write("folder/new", "new") }
            try await drive.mustDo(["resume"])
            try await drive.drain()
            let left = isEdited ? ["folder", "folder/new", "other"] : ["other"]
            #expect(try drive.cloud.paths() == left)
            try await eventually("the drive has the same") {
                try await drive.run("find . -mindepth 1 -printf '%P\\n' | sort")
                    == left.joined(separator: "\n")
            }
        }
    }

    @Test func `a folder that was removed here with all in it stays removed where it was moved to`()
        async throws
    {
        let names = (0..<20).map { "folder/deep/deeper/\($0)" }
        try await TestDrive.with(
            prepare: Filling { cloud in
                for name in names + ["other"] { try cloud.write(name, name) }
            }
        ) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pause"])
            try await drive.run("rm -r folder")
            try await drive.mount.stop()
            try drive.cloud.rename("folder/deep", to: "elsewhere")
            let again = try await Self.sendingAtOnce(drive)
            try await eventually("nothing of it is left in the cloud", within: .seconds(20)) {
                try drive.cloud.paths() == ["other"]
            }
            try await again.drain()
            #expect(try await again.names() == ["other"])
        }
    }

    /// Folders are compared in the order in which they came to be, some at a time: this one long
    /// before the one that it is in now.
    @Test func `a folder whose place another one has taken loses nothing`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 10..<90 { try cloud.write("\(number)/file", "bytes") }
            }
        ) { drive in
            try await drive.run("find . > /dev/null; mkdir newest; mv 10 newest/early")
            try await drive.drain()
            let inode = try await drive.status("newest/early/file").inode
            try await drive.mount.stop()
            try drive.cloud.rename("newest/early", to: "newest/moved")
            try drive.cloud.write("newest/early/other", "x")
            let again = try await drive.again()
            try await eventually("both are known") {
                try await again.has(["newest/moved/file", "newest/early/other"])
            }
            #expect(try await again.status("newest/moved/file").inode == inode)
            #expect(try await again.names("newest/early") == ["other"])
        }
    }
}

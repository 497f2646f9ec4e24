import CloudFSTestSupport
import Testing

/// Files that other tools move in a bucket while programs move what they still see of them.
@Suite(
    .onMounts,
    .printingLogs,
    .notingIssues,
    .enabled(if: !S3TestServers.all.isEmpty, Comment(rawValue: S3TestServers.reason))
)
struct S3MovedTests {
    /// What the drive hears last of the other's move.
    enum Late: CaseIterable {
        /// Something new in the old place, heard before anything is sent.
        case remade
        /// The same, not heard before.
        case remadeUnheard
        /// That nothing is in the old place, heard before anything is sent.
        case gone
        /// The same, not heard before.
        case goneUnheard

        var isRemade: Bool { self == .remade || self == .remadeUnheard }
        var isHeard: Bool { self == .remade || self == .gone }
    }

    /// A drive that sees what tools do when it is told to look, `old/file` and `new/other`.
    private func withDrive(
        _ server: S3TestServer,
        body: (TestDrive, _ rclone: (String...) async throws -> String) async throws -> Void
    ) async throws {
        let folder = try TemporaryDirectory()
        for name in ["one", "two"] { try folder.write(name.utf8, to: name) }
        try await S3TestServers.withBucket(on: server) { bucket in
            func rclone(_ arguments: String...) async throws -> String {
                let arguments = arguments.map { argument in
                    switch argument {
                    case "one", "two": folder.path(argument)
                    case let path where path.contains("/"): "cloud:\(bucket)/\(path)"
                    default: argument
                    }
                }
                return try await S3Programs.rclone(arguments, on: server).output
            }
            _ = try await rclone("copyto", "one", "old/file")
            _ = try await rclone("copyto", "two", "new/other")
            var options = S3DriveTests.options(server, bucket)
            options.arguments += ["--scan-interval", "1h", "--listing-age", "1h"]
            try await TestDrive.with(options: options) { drive in
                #expect(try await drive.run("ls old new") == "new:\nother\n\nold:\nfile")
                try await body(drive, rclone)
            }
        }
    }

    /// Nothing is left of it anywhere else.
    @Test(arguments: S3TestServers.all)
    func `what is here stays when the bucket is emptied and filled with something else`(
        server: S3TestServer
    ) async throws {
        try await withDrive(server) { drive, rclone in
            try await drive.run("cat old/file new/other; echo mine > own")
            try await drive.drain()
            _ = try await rclone("delete", "/")
            _ = try await rclone("copyto", "two", "restored/file")
            let result = try await drive.cloudfs(["refresh", "\(drive.path)"])
            #expect(result.status != 0 && result.errors.contains("container"), "\(result)")
            try await eventually("it says so", within: .seconds(20)) {
                try await drive.cloudfs(["mounts"]).output.contains("offline")
            }
            #expect(try await drive.run("cat old/file new/other own") == "onetwomine")
        }
    }

    @Test(arguments: S3TestServers.all, Late.allCases)
    func `what is moved over itself keeps its bytes`(
        server: S3TestServer,
        late: Late
    ) async throws {
        try await withDrive(server) { drive, rclone in
            _ = try await rclone("moveto", "old/file", "new/file")
            if late.isRemade { _ = try await rclone("copyto", "two", "old/file") }
            try await drive.mustDo(["refresh", "new"])
            try await eventually("the new place is seen") { try await drive.exists("new/file") }
            try await drive.mustDo(["pause"])
            try await drive.run("mv old/file new/file; [ ! -e old/file ]")
            if late.isHeard { try await drive.mustDo(["refresh", "old"]) }
            try await drive.mustDo(["resume"])
            try await drive.drain()
            #expect(try await rclone("cat", "new/file") == "one")
            #expect(try await drive.run("cat new/file") == "one")
            #expect(try await drive.run("ls new") == "file\nother")
            guard late.isRemade else { return }
            #expect(try await rclone("cat", "old/file") == "two")
            try await eventually("what is in the old place is seen") {
                try await drive.exists("old/file")
            }
            #expect(try await drive.run("cat old/file") == "two")
        }
    }

    /// By what a moved file is known again, and which of its places is heard of first.
    enum Known: CaseIterable {
        /// By the document's identity, which the drive has written.
        case identityInNewPlace, identityInOldPlace
        /// By its bytes, which another tool wrote.
        case bytesInNewPlace, bytesInOldPlace

        var isIdentity: Bool { self == .identityInNewPlace || self == .identityInOldPlace }
        var heard: [String] {
            let isNewFirst = self == .identityInNewPlace || self == .bytesInNewPlace
            return isNewFirst ? ["new", "old"] : ["old", "new"]
        }
    }

    @Test(arguments: S3TestServers.all, Known.allCases)
    func `what is written on a file and not sent is on it where another tool has moved it`(
        server: S3TestServer,
        known: Known
    ) async throws {
        try await withDrive(server) { drive, rclone in
            let name = known.isIdentity ? "own" : "file"
            if known.isIdentity {
                try await drive.run("echo -n own > old/own")
                try await drive.drain()
            }
            try await drive.mustDo(["pause"])
            try await drive.run(
                """
                setfattr -n user.note -v kept old/\(name)
                chmod 600 old/\(name)
                perl -e 'utime 1500000000, 1500000000, shift' old/\(name)
                """
            )
            let identity = try await drive.run(
                "getfattr --only-values -n user.cloudfs.item-id old/\(name)"
            )
            _ = try await rclone("moveto", "old/\(name)", "new/moved")
            for folder in known.heard { try await drive.mustDo(["refresh", folder]) }
            try await eventually("the move is seen") {
                let isThere = [
                    try await drive.exists("old/\(name)"), try await drive.exists("new/moved"),
                ]
                return isThere == [false, true]
            }
            let shown = """
                getfattr --only-values -n user.note new/moved; stat -c ' %a %Y' new/moved
                """
            #expect(try await drive.run(shown) == "kept 600 1500000000")
            if known.isIdentity {
                let now = try await drive.run(
                    "getfattr --only-values -n user.cloudfs.item-id new/moved"
                )
                #expect(now == identity)
            }
            try await drive.mustDo(["resume"])
            try await drive.drain()
            let sent = try await rclone("lsjson", "--metadata", "new/moved")
            #expect(sent.contains("xattr") && sent.contains("2017-07-14T02:40:00"))
        }
    }

    /// Sent before it is missed in its old place, a moved file must not become another document.
    @Test(arguments: S3TestServers.all, [true, false])
    func `a moved file that is written stays the document, and a copy becomes its own`(
        server: S3TestServer,
        isCopy: Bool
    ) async throws {
        try await withDrive(server) { drive, rclone in
            try await drive.run("echo -n own > old/own")
            try await drive.drain()
            let identity = try await rclone("lsjson", "--metadata", "old/own")
                .firstMatch(of: /"cloudfs-id":"([0-9a-f]{32})"/)?.1
            let known = try #require(identity)
            _ = try await rclone(isCopy ? "copyto" : "moveto", "old/own", "new/other")
            try await drive.mustDo(["refresh", "new"])
            try await eventually("the new place is seen") {
                try await drive.run("cat new/other") == "own"
            }
            try await drive.run("echo -n more >> new/other")
            try await drive.drain()
            let sent = try await rclone("lsjson", "--metadata", "new/other")
            #expect(sent.contains("\"Size\":7"))
            #expect(sent.contains(known) == !isCopy)
            try await drive.mustDo(["refresh", "old"])
            try await eventually("the old place is seen") {
                try await drive.exists("old/own") == isCopy
            }
            let shown = "getfattr --only-values -n user.cloudfs.item-id"
            let original = try await drive.run("\(shown) \(isCopy ? "old/own" : "new/other")")
            #expect(original.replacing("-", with: "").lowercased() == String(known))
            let other = try await drive.run("\(shown) new/other")
            #expect((other == original) == !isCopy)
        }
    }

    /// A folder without a marker is gone with the last object in it.
    @Test(arguments: S3TestServers.all)
    func `what is removed here and by another tool is removed, and nothing is left to send`(
        server: S3TestServer
    ) async throws {
        try await withDrive(server) { drive, rclone in
            try await drive.mustDo(["pause"])
            try await drive.run("rm -r old new/other; mkdir kept")
            _ = try await rclone("purge", "old/")
            _ = try await rclone("deletefile", "new/other")
            try await drive.mustDo(["resume"])
            try await drive.drain()
            #expect(try await drive.run("ls") == "kept\nnew")
        }
    }

    /// The move finds nothing to move: it is no move any more.
    @Test(arguments: S3TestServers.all, [false, true])
    func `what is moved here and was removed by another tool is removed, or made anew`(
        server: S3TestServer,
        isEdited: Bool
    ) async throws {
        try await withDrive(server) { drive, rclone in
            // The folder is still there when it lacks the file.
            _ = try await rclone("copyto", "two", "old/other")
            try await drive.mustDo(["pause"])
            try await drive.run("mv old/file new/kept")
            if isEdited { try await drive.run("echo -n more >> new/kept") }
            _ = try await rclone("deletefile", "old/file")
            try await drive.mustDo(["resume"])
            try await drive.drain()
            guard isEdited else { return #expect(!(try await drive.exists("new/kept"))) }
            #expect(try await drive.run("cat new/kept") == "onemore")
            #expect(try await rclone("cat", "new/kept") == "onemore")
        }
    }

    /// Two files of the same bytes, which are not one.
    @Test(arguments: S3TestServers.all, [true, false])
    func `a file that is moved over an equal one is moved`(
        server: S3TestServer,
        isOtherGone: Bool
    ) async throws {
        try await withDrive(server) { drive, rclone in
            _ = try await rclone("copyto", "one", "new/file")
            try await drive.mustDo(["refresh", "new"])
            try await eventually("the other is seen") { try await drive.exists("new/file") }
            if isOtherGone { _ = try await rclone("deletefile", "new/file") }
            try await drive.run("mv old/file new/file")
            try await drive.drain()
            try await drive.mustDo(["refresh"])
            #expect(try await rclone("cat", "new/file") == "one")
            #expect(try await drive.run("cat new/file; ls old") == "one")
            #expect(try await rclone("lsf", "old/") == "")
        }
    }
}

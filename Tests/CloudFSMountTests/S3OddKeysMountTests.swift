import CloudFSTestSupport
import Testing

/// Keys of a bucket that are no paths, on a drive.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3OddKeysMountTests {
    private static func bytes(_ text: String) -> [UInt8] { Array("prefix/\(text)".utf8) }

    /// Every one of them is one object.
    private static let keys: [[UInt8]] = {
        let texts = [
            "..", ".", "up/../../escape", "up/..", "./dot", "/top", "in//side", "in///deeper",
            "nul\0in", "ctl\u{1}\u{1f}\u{7f}", "line\nbreak", "tab\tname", " ", "back\\slash",
            "a", "a/b", "a//b", "a/..", "100%", "%2e%2e", "%2F", "‛mark", "‛..", ".cloudfs",
            "deep/.cloudfs/file", "Grüße/😀", "*?[x]", "-rf", "c:/aux",
        ]
        var keys = texts.map(bytes)
        // 1,024 bytes: in parts that are names, and in one that is longer than any name.
        let part = [UInt8](repeating: 0x70, count: 200) + [0x2f]
        let long = bytes("long/") + Array(repeating: part, count: 5).flatMap { $0 }
        keys.append(Array((long + part).prefix(1_024)))
        keys.append(bytes("one/") + [UInt8](repeating: 0x71, count: 1_013))
        return keys
    }()

    private static func content(_ key: [UInt8]) -> String {
        key.map { String($0, radix: 16) }.joined(separator: "-")
    }

    /// Reads everything below the folder it is run in: prints each file's text, and what could not
    /// be read behind a `!`.
    private static let walk = """
        found, names = [], set()
        root = os.fsencode(os.environ["DRIVE"])
        def fail(error): raise error
        for folder, folders, files in os.walk(b".", onerror=fail):
            for name in folders + files:
                path = os.path.join(folder, name)
                assert path not in names, path
                names.add(path)
                assert name not in (b"", b".", b"..") and b"/" not in name, path
                assert os.path.realpath(path).startswith(root + b"/"), path
            for name in files:
                path = os.path.join(folder, name)
                try: found.append(open(path, "rb").read().decode())
                except OSError as error: found.append("!" + path.hex())
        print("\\n".join(sorted(found)))
        """

    @Test(arguments: [3, 1_000])
    func `each object is read by the name that it has on the drive, whatever its key`(
        page: Int
    ) async throws {
        var settings = FakeS3Settings()
        settings.maximumPage = page
        let server = try await FakeS3Server.start(settings: settings)
        #expect(Self.keys.allSatisfy { $0.count <= 1_024 })
        #expect(Self.keys.count { $0.count == 1_024 } == 2)
        for key in Self.keys { _ = server.put(FakeS3Key(key), Self.content(key)) }
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            let outside = try SystemCall.names(in: drive.folder)
            let expected = Self.keys.map(Self.content).sorted()
            // What was known before is found by other ways than what is new.
            for isFirst in [true, false] {
                let drive = isFirst ? drive : try await drive.restart()
                let found = try await drive.python(Self.walk, within: .seconds(60))
                #expect(found.split(separator: "\n").map(String.init) == expected)
            }
            // What is written beside them stays within, too.
            try await drive.run(
                """
                cat 'up/‛..%2F/‛../escape' > /dev/null
                echo new > 'up/‛..%2F/‛../new'; echo new > 'in/‛/new'; echo new > '‛a%2F/new'
                """
            )
            try await drive.drain()
            #expect(try SystemCall.names(in: drive.folder) == outside)
        }
        for key in ["up/../../new", "in//new", "a/new"] {
            #expect(server.object(FakeS3Key("prefix/\(key)"))?.bytes == Array("new\n".utf8))
        }
        #expect(server.object("new") == nil)
        for key in Self.keys {
            #expect(server.object(FakeS3Key(key))?.bytes == Array(Self.content(key).utf8))
        }
    }

    /// No server of objects has such keys; one that says so must not hide others by it.
    @Test func `a key that is no text is an error of its own, and hides no other`() async throws {
        let server = try await FakeS3Server.start()
        let broken: [UInt8] = [0x78, 0xff, 0x79]
        _ = server.put(FakeS3Key(Self.bytes("folder/") + broken), "broken")
        _ = server.put(FakeS3Key(Self.bytes("folder/") + broken + Array("/in".utf8)), "inside")
        _ = server.put("prefix/folder/before", "before")
        _ = server.put("prefix/folder/z", "behind")
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            #expect(try await drive.text("folder/before") == "before")
            #expect(try await drive.text("folder/z") == "behind")
            try await drive.python(
                """
                names = os.listdir(b"folder")
                assert b"before" in names and b"z" in names, names
                assert b"x\\xffy" in names, names
                try: text = open(b"folder/x\\xffy", "rb").read()
                except OSError as error: assert error.errno in (errno.EINVAL, errno.EIO), error
                else: assert text == b"broken", text
                """
            )
            // What happens beside it is seen.
            server.remove("prefix/folder/z")
            _ = server.put("prefix/folder/new", "new")
            try await drive.mustDo(["refresh", "folder"])
            try await eventually("the folder is as in the bucket") {
                try await drive.has(["folder/before", "folder/new"], not: ["folder/z"])
            }
        }
        #expect(server.object(FakeS3Key(Self.bytes("folder/") + broken)) != nil)
    }

    /// A page of listings in which one key is percent-encoded wrongly.
    @Test func `a key that cannot be decoded hides no other, deletes nothing, and is told`()
        async throws
    {
        let server = try await FakeS3Server.start()
        for folder in ["known", "new"] {
            for name in ["first", "broken", "last"] {
                _ = server.put(FakeS3Key("prefix/\(folder)/\(name)"), name)
            }
        }
        func breakKeys(in folder: String) {
            let rewriting = FakeS3Fault.Action.rewriteBody { document in
                Array(
                    String(decoding: document, as: UTF8.self)
                        .replacing("/\(folder)/broken<", with: "/\(folder)/%zz<").utf8
                )
            }
            server.add(
                FakeS3Fault(rewriting, count: nil) { request in
                    request.kind == .list
                        && request.parameter("prefix") == "prefix/\(folder)/"
                }
            )
        }
        breakKeys(in: "new")
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            #expect(try await drive.names("known") == ["broken", "first", "last"])
            // Where nobody has been: all others are there.
            let names = try await drive.names("new")
            #expect(names.contains("first") && names.contains("last"), "\(names)")
            #expect(try await drive.text("new/first") == "first")
            #expect(drive.mount.logText.contains("not encoded"), "it is not told")

            // Where all is known: it stays, and so does another that has gone meanwhile, as nobody
            // knows which of them the broken key is; what is new is seen.
            breakKeys(in: "known")
            server.remove("prefix/known/last")
            _ = server.put("prefix/known/later", "later")
            _ = try await drive.cloudfs(["refresh", "known"])
            try await eventually("what is new is there") {
                try await drive.exists("known/later")
            }
            #expect(try await drive.has(["known/broken", "known/first", "known/last"]))

            server.removeFaults()
            try await eventually("each folder is as in the bucket", within: .seconds(30)) {
                _ = try await drive.cloudfs(["refresh", drive.path])
                _ = try await drive.cloudfs(["refresh", "known"])
                _ = try await drive.cloudfs(["refresh", "new"])
                return try await drive.has(
                    ["known/broken", "known/first", "known/later", "new/broken"],
                    not: ["known/last"]
                )
            }
            #expect(try await drive.text("known/broken") == "broken")
            #expect(try await drive.text("new/broken") == "broken")
        }
    }
}

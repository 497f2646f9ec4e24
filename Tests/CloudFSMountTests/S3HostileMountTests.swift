import CloudFSTestSupport
import Testing

/// Drives on buckets whose server says what is not so, or stops in the middle.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3HostileMountTests {
    enum Fault: CaseIterable, Sendable {
        case bomb, nested, truncated, tooLong, redirect, stall, cut, noHTTP
        /// The whole object, whatever part of it was asked for.
        case whole
        /// The same page of a listing, again and again.
        case samePage

        func action(_ elsewhere: FakeS3Server) -> FakeS3Fault.Action {
            switch self {
            case .bomb: .xmlBomb
            case .nested: .nestedXML(depth: 100)
            case .truncated: .truncatedBody(byteCount: 100)
            case .tooLong: .wrongLength(by: 7)
            case .redirect: .redirect(to: elsewhere.endpoint)
            case .stall: .stallAnswer(afterBytes: 100)
            case .cut: .cutAnswer(afterBytes: 100)
            case .noHTTP: .raw(Array("HTP/9 what\r\n\r\n".utf8))
            case .whole: .disregard(.range)
            case .samePage: .disregard(.progress)
            }
        }

        var spoilsReading: Bool { self != .samePage }
        var spoilsListing: Bool { self != .whole }

        /// What a program is told, as Python calls it.
        var errors: String {
            let codes: [String] =
                switch self {
                case .stall, .cut: []
                case .bomb, .nested, .truncated, .tooLong, .redirect, .noHTTP, .whole, .samePage:
                    ["EIO"]
                }
            // Where all is tried again, time is over first, or the drive goes offline.
            return (["ETIMEDOUT", "ENETUNREACH"] + codes)
                .map { "errno.\($0)" }.joined(separator: ", ")
        }
    }

    private static let size = 3_000_000

    private static func isOfDrive(_ request: FakeS3Request) -> Bool {
        let place = request.parameter("prefix") ?? request.key.text
        return place.hasPrefix("prefix/") && !place.hasPrefix("prefix/.cloudfs")
    }

    /// How a program looks into `later` and reads what is absent in `folder`, both at once.
    private static func looking(_ fault: Fault) -> String {
        """
        import threading
        faults = []
        def expect(is_spoiled, function):
            begin = time.monotonic()
            try:
                function()
                if is_spoiled: faults.append(f"{function.__name__} went well")
            except OSError as error:
                if not is_spoiled or error.errno not in (\(fault.errors),):
                    faults.append(f"{function.__name__}: {error}")
            if time.monotonic() - begin > 20: faults.append(f"{function.__name__} takes long")
        def read():
            file = os.open("folder/absent", os.O_RDONLY)
            try: os.pread(file, 1000, \(size / 2))
            finally: os.close(file)
        def listing():
            os.listdir("later")
        threads = [
            threading.Thread(target=expect, args=(\(fault.spoilsReading ? "True" : "False"), read)),
            threading.Thread(
                target=expect, args=(\(fault.spoilsListing ? "True" : "False"), listing)),
        ]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not faults, faults
        """
    }

    @Test(arguments: Fault.allCases)
    func `whatever a server does, calls end, nothing vanishes, and all is well afterwards`(
        fault: Fault
    ) async throws {
        let server = try await FakeS3Server.start()
        let elsewhere = try await FakeS3Server.start()
        var random = SeededRandom(seed: 4)
        let bytes = random.bytes(Self.size)
        _ = server.put("prefix/here", "here")
        _ = server.put("prefix/folder/absent", bytes)
        for number in 0..<9 { _ = server.put(FakeS3Key("prefix/folder/\(number)"), "\(number)") }
        _ = server.put("prefix/later/file", "later")
        // So that this folder is not listed before all goes wrong.
        server.add(
            FakeS3Fault(fault.action(elsewhere), count: nil) { request in
                request.parameter("prefix") == "prefix/later/"
                    && request.parameter("delimiter") != nil
            }
        )
        var options = S3FaultTests.options(server)
        options.arguments += ["--read-timeout", "3s"]
        try await TestDrive.with(options: options) { drive in
            let names = try await drive.names()
            #expect(names == ["folder", "here", "later"])
            let inFolder = try await drive.names("folder")
            #expect(inFolder.count == 10)
            #expect(try await drive.text("here") == "here")
            let (supervisor, worker) = (drive.mount.pid, drive.mount.worker)
            #expect(worker != nil)

            server.add(
                FakeS3Fault(fault.action(elsewhere), count: nil) { Self.isOfDrive($0) }
            )
            try await drive.python(Self.looking(fault), within: .seconds(40))
            #expect(try await drive.names() == names)
            #expect(try await drive.names("folder") == inFolder)
            #expect(try await drive.text("here") == "here")
            #expect(try await drive.status("folder/absent").size == Int64(Self.size))
            #expect(drive.mount.worker == worker)

            server.removeFaults()
            // What is stalled would be waited for until it counts as broken.
            server.breakConnections()
            try await eventually("all can be read", within: .seconds(60)) {
                let result = try await Shell.script(
                    "cd '\(drive.path)' && cat folder/absent > /dev/null && cat later/file"
                )
                return result.status == 0 && result.output == "later"
            }
            #expect(try await drive.bytes("folder/absent") == bytes)
            for number in 0..<9 {
                #expect(try await drive.text("folder/\(number)") == "\(number)")
            }
            #expect(try await drive.names() == names)
            #expect(try await drive.names("folder") == inFolder)
            #expect(drive.mount.worker == worker)
            #expect(drive.mount.pid == supervisor)
            try await drive.run("echo new > folder/new")
            try await drive.drain()
        }
        #expect(server.object("prefix/folder/new")?.bytes == Array("new\n".utf8))
        #expect(elsewhere.requests.isEmpty, "nothing is said to whom the options do not name")
    }

    // MARK: - Deletions

    /// What becomes of the second page of a listing.
    enum SecondPage: CaseIterable, Sendable {
        case refused, failing, cut, truncated, bomb, same, endless

        var action: FakeS3Fault.Action {
            switch self {
            case .refused: .fail(status: 403, code: "AccessDenied")
            case .failing: .fail(status: 500, code: "InternalError")
            case .cut: .cutAnswer(afterBytes: 300)
            case .truncated: .truncatedBody(byteCount: 300)
            case .bomb: .xmlBomb
            case .same: .disregard(.progress)
            case .endless: .disregard(.end)
            }
        }
    }

    private static func isSecondPage(_ request: FakeS3Request) -> Bool {
        request.kind == .list && request.parameter("prefix") == "prefix/folder/"
            && request.parameter("continuation-token") != nil
    }

    @Test(arguments: SecondPage.allCases)
    func `files are gone when a listing without them was read to its end, and not before`(
        page: SecondPage
    ) async throws {
        var settings = FakeS3Settings()
        settings.maximumPage = 10
        let server = try await FakeS3Server.start(settings: settings)
        let names = (10..<45).map { "file\($0)" }
        for name in names { _ = server.put(FakeS3Key("prefix/folder/\(name)"), name) }
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            #expect(try await drive.names("folder") == names)
            try await eventually("everything is compared", within: .seconds(30)) {
                try await drive.mustDo(["status", "--json"]).contains(/"isComplete"\s*:\s*true/)
            }

            server.add(FakeS3Fault(page.action, count: nil) { Self.isSecondPage($0) })
            // One of the first page, one of a page that is not reached.
            server.remove("prefix/folder/file12")
            server.remove("prefix/folder/file40")
            server.forgetRequests()
            let refusal = try await drive.cloudfs(["refresh", "folder"], within: .seconds(60))
            #expect(refusal.status == 1, "\(refusal)")
            #expect(server.requests.contains(where: Self.isSecondPage))
            #expect(try await drive.names("folder") == names)

            server.removeFaults()
            try await drive.mustDo(["refresh", "folder"])
            let left = names.filter { $0 != "file12" && $0 != "file40" }
            try await eventually("what is gone is gone") {
                try await drive.names("folder") == left
            }
            for name in left { #expect(try await drive.text("folder/\(name)") == name) }
        }
        #expect(server.keys("prefix/folder/file").count == 33)
    }
}

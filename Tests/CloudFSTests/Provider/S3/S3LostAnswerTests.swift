import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What was done although nobody heard of it is not done twice, and is no conflict.
@Suite struct S3LostAnswerTests {
    private typealias Bench = S3ProviderBench

    enum Server: CaseIterable, CustomTestStringConvertible, Sendable {
        case ideal
        case ceph
        case unconditional

        var testDescription: String { "\(self)" }

        var settings: FakeS3Settings {
            var settings =
                switch self {
                case .ideal: FakeS3Settings()
                case .ceph: FakeS3Settings.ceph
                case .unconditional: FakeS3Settings.unconditional
                }
            settings.minimumPartByteCount = 1
            return settings
        }
    }

    // MARK: - Uploads

    @Test(arguments: Server.allCases, [false, true])
    func `an upload whose answer is lost is found to be done`(
        server: Server,
        isNew: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let first = try await bench.provider()
        var base: ItemVersion?
        if !isNew { base = try await Bench.upload([1], to: "a", of: first).version }
        let id = DocumentID.random()
        bench.goSilent(from: .put, of: "a")
        let code = await s3Failure { [base] in
            _ = try await Bench.upload(
                [2, 2],
                to: "a",
                of: first,
                replacing: base,
                documentID: id
            )
        }
        #expect(code == .offline)
        bench.fake.removeFaults()
        // After a restart nothing is remembered of it.
        for provider in [try await bench.provider(), first] {
            let item = try await Bench.upload(
                [2, 2],
                to: "a",
                of: provider,
                replacing: base,
                documentID: id
            )
            #expect(item.documentID == id)
            #expect(try await provider.item(at: try Bench.path("a")).version == item.version)
        }
        #expect(bench.fake.object("a")?.bytes == [2, 2])
    }

    @Test(arguments: Server.allCases, [false, true])
    func `a file that changed after its upload was not answered goes up again`(
        server: Server,
        isNew: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        var base: ItemVersion?
        if !isNew { base = try await Bench.upload([1], to: "a", of: provider).version }
        let id = DocumentID.random()
        for bytes in [[2, 2], [3, 3]] as [[UInt8]] {
            bench.goSilent(from: .put, of: "a")
            let code = await s3Failure { [base] in
                _ = try await Bench.upload(
                    bytes,
                    to: "a",
                    of: provider,
                    replacing: base,
                    documentID: id
                )
            }
            #expect(code == .offline)
            bench.fake.removeFaults()
        }
        _ = try await Bench.upload(
            [4, 4],
            to: "a",
            of: provider,
            replacing: base,
            documentID: id
        )
        #expect(bench.fake.object("a")?.bytes == [4, 4])
    }

    @Test(arguments: Server.allCases, [false, true])
    func `an upload that was made but not looked at is found to be done`(
        server: Server,
        changes: Bool
    ) async throws {
        var settings = server.settings
        settings.tellsEntityTagOfUploads = false
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider()
        let id = DocumentID.random()
        let looks = server == .unconditional ? 1 : 0
        bench.fake.add(
            FakeS3Fault(Bench.lost, skipping: looks, count: nil, on: .head, key: "a")
        )
        let code = await s3Failure {
            _ = try await Bench.upload([1], to: "a", of: provider, documentID: id)
        }
        #expect(code == .offline)
        #expect(bench.fake.object("a")?.bytes == [1])
        bench.fake.removeFaults()
        let bytes: [UInt8] = changes ? [2, 2] : [1]
        _ = try await Bench.upload(bytes, to: "a", of: provider, documentID: id)
        #expect(bench.fake.object("a")?.bytes == bytes)
    }

    /// As a network does that wants to be logged in to, where the endpoint has no certificate.
    @Test(arguments: ["", "\"d41d8cd98f00b204e9800998ecf8427e\""], [false, true])
    func `what somebody else answers in the server's place is not taken for stored`(
        tag: String,
        answersForAll: Bool
    ) async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let page = FakeS3Fault.Action.fail(
            status: 200,
            code: "Welcome",
            headers: tag.isEmpty ? [] : [("ETag", tag)]
        )
        bench.fake.add(FakeS3Fault(page, on: .put, key: "a"))
        if answersForAll { bench.fake.add(FakeS3Fault(page, on: .head, key: "a")) }
        let id = DocumentID.random()
        let code = await s3Failure {
            _ = try await Bench.upload([1, 2], to: "a", of: provider, documentID: id)
        }
        #expect(code == .corrupt)
        #expect(bench.fake.object("a") == nil)
        _ = try await Bench.upload([1, 2], to: "a", of: provider, documentID: id)
        #expect(bench.fake.object("a")?.bytes == [1, 2])
    }

    @Test(arguments: Server.allCases)
    func `another's file is not taken for the one that was sent`(server: Server) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let id = DocumentID.random()
        bench.goSilent(from: .put, of: "a")
        func attempt(_ bytes: [UInt8]) async -> CloudFSError.Code? {
            await s3Failure {
                _ = try await Bench.upload(
                    bytes,
                    to: "a",
                    of: provider,
                    replacing: base,
                    documentID: id
                )
            }
        }
        #expect(await attempt([2, 2]) == .offline)
        bench.fake.removeFaults()
        let sent = try #require(bench.fake.object("a"))
        #expect(sent.bytes == [2, 2])
        // Other bytes, and all that is said of them is the same.
        bench.fake.put("a", [9, 9], metadata: sent.metadata)
        #expect(await attempt([2, 2]) == .remoteChanged)
        // The same bytes, but somebody else's file.
        var metadata = sent.metadata
        metadata["cloudfs-id"] = DocumentID.random().description
        bench.fake.put("a", [2, 2], metadata: metadata)
        #expect(await attempt([2, 2]) == .remoteChanged)
        #expect(await attempt([3, 3]) == .remoteChanged)
        #expect(bench.fake.object("a")?.bytes == [2, 2])
    }

    @Test(arguments: Server.allCases, [false, true])
    func `a completion that nobody heard of is found to be done`(
        server: Server,
        isNew: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let directory = try TemporaryDirectory()
        let first = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path
        )
        var base: ItemVersion?
        if !isNew { base = try await Bench.upload([1], to: "a", of: first).version }
        let (bytes, id) = (Bench.content(1, parts: 3), DocumentID.random())
        bench.fake.add(FakeS3Fault(Bench.lost, count: nil, on: .completeUpload))
        bench.fake.add(FakeS3Fault(Bench.lost, skipping: 2, count: nil, on: .head, key: "a"))
        let code = await s3Failure { [base] in
            _ = try await Bench.upload(
                bytes,
                to: "a",
                of: first,
                replacing: base,
                documentID: id
            )
        }
        #expect(code == .offline)
        #expect(bench.fake.object("a")?.bytes == bytes)
        bench.fake.removeFaults()
        bench.fake.forgetRequests()
        let second = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path
        )
        let item = try await Bench.upload(
            bytes,
            to: "a",
            of: second,
            replacing: base,
            documentID: id
        )
        #expect(item.documentID == id)
        #expect(bench.fake.requestCount(.uploadPart, .createUpload) == 0)
        #expect(try await second.uploads.keys().isEmpty)
        let other = Bench.content(2, parts: 3)
        _ = try await Bench.upload(other, to: "a", of: first, replacing: base, documentID: id)
        #expect(bench.fake.object("a")?.bytes == other)
    }

    @Test func `an upload is done even if its end cannot be noted`() async throws {
        let bench = try await Bench.make(Server.ideal.settings)
        let directory = try TemporaryDirectory()
        let provider = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path("state")
        )
        try await ForeignWork.run { try directory.makeFolder("state") }
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .completeUpload))
        async let uploaded = Bench.upload(Bench.content(1, parts: 3), to: "a", of: provider)
        try await eventually("it is completed", within: .seconds(60)) { gate.waitingCount == 1 }
        try await ForeignWork.run { try directory.remove("state") }
        gate.open()
        #expect(try await uploaded.size == Int64(Bench.content(1, parts: 3).count))
    }

    // MARK: - Everything else

    @Test(arguments: Server.allCases)
    func `a folder or a link whose answer is lost is found to be made`(
        server: Server
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        let id = DocumentID.random()
        let (folder, link) = (try Bench.path("d"), try Bench.path("l"))
        func makeBoth(_ id: DocumentID) async -> [CloudFSError.Code?] {
            let first = await s3Failure {
                _ = try await provider.createFolder(
                    at: folder,
                    documentID: id,
                    metadata: Bench.metadata
                )
            }
            let second = await s3Failure {
                _ = try await provider.createSymlink(
                    at: link,
                    target: [0x61],
                    documentID: id,
                    metadata: Bench.metadata
                )
            }
            return [first, second]
        }
        for key in ["d/", "l"] as [FakeS3Key] { bench.goSilent(from: .put, of: key) }
        #expect(await makeBoth(id) == [.offline, .offline])
        bench.fake.removeFaults()
        #expect(await makeBoth(id) == [nil, nil])
        #expect(await makeBoth(.random()) == [.exists, .exists])
        #expect(try await provider.item(at: folder).documentID == id)
        #expect(try await provider.item(at: link).documentID == id)
    }

    @Test(arguments: Server.allCases, [false, true])
    func `a file's move whose last answer is lost is found to be done`(
        server: Server,
        isLarge: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider(settings: Bench.smallParts)
        let bytes = isLarge ? Bench.content(1, parts: 3) : [1, 2]
        let item = try await Bench.upload(bytes, to: "a", of: provider)
        let (from, target) = (try Bench.path("a"), try Bench.path("b"))
        bench.goSilent(from: .delete, of: "a")
        let code = await s3Failure {
            _ = try await provider.move(from: from, to: target, base: item.version)
        }
        #expect(code == .offline)
        #expect(bench.fake.object("a") == nil)
        bench.fake.removeFaults()
        let moved = try await provider.move(from: from, to: target, base: item.version)
        #expect(moved.documentID == item.documentID)
        #expect(bench.fake.object("b")?.bytes == bytes)
        bench.fake.put("b", "foreign")
        let again = await s3Failure {
            _ = try await provider.move(from: from, to: target, base: item.version)
        }
        #expect(again == .notFound)
    }

    @Test(arguments: Server.allCases)
    func `a file's move whose deletion is repeated unheard succeeds`(
        server: Server
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        let item = try await Bench.upload([1], to: "a", of: provider)
        bench.fake.add(FakeS3Fault(Bench.lost, on: .delete, key: "a"))
        let target = try Bench.path("b")
        _ = try await provider.move(from: try Bench.path("a"), to: target, base: item.version)
        #expect(bench.fake.object("a") == nil)
        #expect(bench.fake.object("b")?.bytes == [1])
    }

    // MARK: - What belongs to an object

    private static let kept = [
        "cache-control": "max-age=60", "content-disposition": "attachment; filename=\"x\"",
        "content-encoding": "gzip", "content-language": "de", "content-type": "text/html",
    ]

    @Test func `what an object says of its bytes stays through every change`() async throws {
        let bench = try await Bench.make(Server.ideal.settings)
        let provider = try await bench.provider(settings: Bench.smallParts)
        try await Self.checkHeaders(provider, bench.client(), prefix: "")
    }

    @Test(.enabled(if: S3TestServers.moto != nil, "needs Moto"))
    func `what an object says of its bytes stays on Moto too`() async throws {
        let server = try #require(S3TestServers.moto)
        let bucket = try await S3Bucket.make(on: .real(server))
        let provider = try bucket.provider(device: "one")
        _ = try await provider.connect(
            expecting: ContainerExpectation(identity: nil, hasItems: false)
        )
        try await Self.checkHeaders(provider, bucket.client, prefix: bucket.prefix + "/")
    }

    private static func checkHeaders(
        _ provider: S3Provider,
        _ client: S3Client,
        prefix: String
    ) async throws {
        let key = Array((prefix + "a").utf8)
        _ = try await client.put(key, body: .bytes([1]), contentHeaders: kept)
        let path = try Bench.path("a")
        func check(_ what: Comment) async throws {
            let found = try await client.head(key).contentHeaders.filter { kept[$0.key] != nil }
            #expect(found == kept, what)
        }
        try await check("as it was put")
        var item = try await provider.item(at: path)
        item = try await provider.setMetadata(
            MetadataUpdate(metadata: Bench.metadata),
            at: path,
            base: item.version
        )
        try await check("after a change of its metadata")
        item = try await Bench.upload([2], to: "a", of: provider, replacing: item.version)
        try await check("after an upload")
        let bytes = [UInt8](repeating: 7, count: 6 << 20)
        item = try await Bench.upload(bytes, to: "a", of: provider, replacing: item.version)
        try await check("after an upload in parts")
        let head = try await client.head(key)
        _ = try await provider.copyInParts(head, to: key, over: head.object, metadata: nil)
        try await check("after a copy in parts")
        item = try await provider.item(at: path)
        _ = try await provider.move(from: path, to: Bench.path("b"), base: item.version)
        let moved = try await client.head(Array((prefix + "b").utf8)).contentHeaders
        #expect(moved.filter { kept[$0.key] != nil } == kept)
    }
}

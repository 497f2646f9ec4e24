import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Changes against versions that somebody else replaced.
@Suite struct S3ProviderTests {
    private typealias Bench = S3ProviderBench

    @Test(arguments: [false, true])
    func `nothing is done to a version that was changed elsewhere`(
        isCeph: Bool
    ) async throws {
        let bench = try await Bench.make(isCeph ? .ceph : FakeS3Settings())
        let provider = try await bench.provider()
        let item = try await Bench.upload([1, 2, 3], to: "a", of: provider)
        let path = try Bench.path("a")
        bench.fake.put("a", [9, 9, 9])
        let base = item.version

        #expect(await s3Failure { try await provider.delete(path, base: base) } == .remoteChanged)
        #expect(
            await s3Failure {
                _ = try await provider.move(from: path, to: Bench.path("b"), base: base)
            } == .remoteChanged
        )
        #expect(
            await s3Failure {
                _ = try await provider.setMetadata(
                    MetadataUpdate(metadata: Bench.metadata),
                    at: path,
                    base: base
                )
            } == .remoteChanged
        )
        #expect(
            await s3Failure {
                _ = try await Bench.upload([4], to: "a", of: provider, replacing: base)
            } == .remoteChanged
        )
        #expect(
            await s3Failure { _ = try await Bench.upload([4], to: "a", of: provider) } == .exists
        )
        #expect(bench.fake.object("a")?.bytes == [9, 9, 9])
        #expect(bench.fake.object("b") == nil)
    }

    @Test func `metadata that was changed elsewhere is another version`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let item = try await Bench.upload([1], to: "a", of: provider)
        bench.fake.put("a", [1], metadata: ["mtime": "5"])
        let code = await s3Failure {
            try await provider.delete(try Bench.path("a"), base: item.version)
        }
        #expect(code == .remoteChanged)
        #expect(bench.fake.object("a") != nil)
    }

    @Test func `what is gone is not found`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let item = try await Bench.upload([1], to: "a", of: provider)
        let path = try Bench.path("a")
        bench.fake.remove("a")
        #expect(
            await s3Failure { try await provider.delete(path, base: item.version) } == .notFound
        )
        #expect(
            await s3Failure {
                _ = try await Bench.upload([2], to: "a", of: provider, replacing: item.version)
            } == .notFound
        )
        #expect(bench.fake.object("a") == nil)
    }

    @Test func `a change of metadata keeps the bytes and the content type`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("page.html", Array("hi".utf8), contentType: "text/html")
        let path = try Bench.path("page.html")
        let item = try await provider.item(at: path)
        var metadata = item.metadata
        metadata.permissions = 0o600
        let changed = try await provider.setMetadata(
            MetadataUpdate(metadata: metadata),
            at: path,
            base: item.version
        )
        #expect(changed.metadata.permissions == 0o600)
        let object = try #require(bench.fake.object("page.html"))
        #expect(object.bytes == Array("hi".utf8))
        #expect(object.contentType == "text/html")
    }

    @Test func `a checksum of the replaced bytes does not stay on the new ones`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put(
            "a",
            [1],
            metadata: ["md5chksum": "VaVACK0bpYmqIQ0mKcHfQQ==", "other": "kept"]
        )
        let item = try await provider.item(at: try Bench.path("a"))
        _ = try await Bench.upload([2], to: "a", of: provider, replacing: item.version)
        let metadata = try #require(bench.fake.object("a")).metadata
        #expect(metadata["other"] == "kept")
        #expect(metadata["md5chksum"] == nil)
    }

    @Test func `a folder is not taken for empty when pages are short`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let path = try Bench.path("d")
        let folder = try await provider.createFolder(
            at: path,
            documentID: .random(),
            metadata: Bench.metadata
        )
        bench.fake.put("d/file", [1])
        bench.fake.change { $0.maximumPage = 1 }
        let code = await s3Failure { try await provider.delete(path, base: folder.version) }
        #expect(code == .notEmpty)
        #expect(bench.fake.object("d/") != nil)
        #expect(bench.fake.object("d/file") != nil)
    }

    @Test func `the last file that goes leaves its folder`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("d/file", [1])
        let path = try Bench.path("d/file")
        let item = try await provider.item(at: path)
        try await provider.delete(path, base: item.version)
        #expect(try await Bench.list(.root, of: provider).map(\.name.description) == ["d"])
        #expect(try await Bench.list(try Bench.path("d"), of: provider).isEmpty)
    }

    @Test func `a deletion whose answer is lost is done`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let item = try await Bench.upload([1], to: "a", of: provider)
        bench.fake.add(FakeS3Fault(.cutAnswer(afterBytes: nil), on: .delete, key: "a"))
        try await provider.delete(try Bench.path("a"), base: item.version)
        #expect(bench.fake.object("a") == nil)
    }

    @Test func `another device's newer version is not taken for the uploaded one`() async throws {
        var settings = FakeS3Settings()
        settings.tellsEntityTagOfUploads = false
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider()
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .head, key: "a"))
        async let uploaded = Bench.upload([1, 2, 3], to: "a", of: provider)
        try await eventually("the upload was made") { gate.waitingCount == 1 }
        bench.fake.put("a", [7, 7, 7])
        let tag = try #require(bench.fake.object("a")?.entityTag)
        gate.open()
        let item = try await uploaded
        #expect(S3Provider.entityTag(item.version) != tag)
        #expect(bench.fake.object("a")?.bytes == [7, 7, 7])
    }

    @Test func `an upload is one request, and its answer tells the version`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let before = bench.fake.requestCount(.head, .list)
        let first = try await Bench.upload([1], to: "a", of: provider)
        let count = bench.fake.requestCount(.head, .list) - before
        #expect(count == 1, "whether there is a folder of that name")
        let looked = try await provider.item(at: try Bench.path("a"))
        #expect(looked.version.content == first.version.content)
        #expect(
            S3Provider.metadataDigest(looked.version) == S3Provider.metadataDigest(first.version)
        )
        #expect(looked.metadata == first.metadata)
        #expect(looked.documentID == first.documentID)
    }

    @Test func `files that come into a folder together are looked for together`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("50/file", [1])
        let before = bench.fake.requestCount(.list)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 {
                group.addTask { _ = try await Bench.upload([1], to: "\(number)", of: provider) }
            }
            try await group.waitForAll()
        }
        #expect(bench.fake.requestCount(.list) - before <= 3)
        let code = await s3Failure { _ = try await Bench.upload([1], to: "50", of: provider) }
        #expect(code == .exists)
    }

    @Test func `a file's move that was interrupted after the copy goes on`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let item = try await Bench.upload([1, 2], to: "a", of: provider)
        bench.fake.add(FakeS3Fault(.fail(status: 403, code: "AccessDenied"), on: .delete))
        let (from, target) = (try Bench.path("a"), try Bench.path("b"))
        let code = await s3Failure {
            _ = try await provider.move(from: from, to: target, base: item.version)
        }
        #expect(code != nil)
        #expect(bench.fake.object("b") != nil)
        let moved = try await provider.move(from: from, to: target, base: item.version)
        #expect(moved.documentID == item.documentID)
        #expect(bench.fake.object("a") == nil)
        #expect(bench.fake.object("b")?.bytes == [1, 2])
    }

    // MARK: - The container's identity

    @Test func `of the container's identity only the beginning is read`() async throws {
        let bench = try await Bench.make()
        let id = DocumentID.random().description
        let rest = String(repeating: "x", count: 1 << 20)
        bench.fake.put(".cloudfs/container", "\(id)\n\(rest)")
        let provider = try await bench.provider()
        #expect(provider.identity == id)
        let asked = bench.fake.requests(.get).filter { $0.key == ".cloudfs/container" }
        #expect(asked.map { $0.header("range") } == ["bytes=0-255"])
    }

    /// A worker that has just begun lists folders while it connects.
    @Test func `who has not connected yet does not take the bucket for another one`() async throws {
        let bench = try await Bench.make()
        _ = try await bench.provider()
        let next = bench.unconnected(try bench.client())
        do throws(CloudFSError) {
            try await next.requireSameContainer()
            Issue.record("it knows nothing of the bucket")
        } catch {
            #expect(error.code == .offline)
            #expect(!error.message.contains("store"), "it has nothing to tell a user to store")
        }
    }

    /// Whoever makes a lost bucket anew begins with something, too.
    @Test(arguments: [[], ["README.txt"], [".cloudfs/journal/x", "README.txt"]] as [[FakeS3Key]])
    func `a bucket that lost the identity is not the one that was known`(
        keys: [FakeS3Key]
    ) async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        _ = try await Bench.upload([1], to: "a", of: provider)
        try await provider.requireSameContainer()
        let known = ContainerExpectation(identity: provider.identity, hasItems: true)
        for key in bench.fake.keys("") { bench.fake.remove(key) }
        for key in keys { bench.fake.put(key, "foreign") }
        #expect(await s3Failure { try await provider.requireSameContainer() } == .offline)
        let next = bench.unconnected(try bench.client())
        #expect(await s3Failure { _ = try await next.connect(expecting: known) } == .offline)
        #expect(bench.fake.object(".cloudfs/container") == nil)
        // As the message says.
        bench.fake.put(".cloudfs/container", "\(provider.identity)\n")
        if !keys.isEmpty { #expect(try await next.connect(expecting: known) == provider.identity) }
    }

    /// A bucket that could not be written has one that says nothing of what is in it.
    @Test func `the identity of an address gives way to one of its own`() async throws {
        let bench = try await Bench.make()
        bench.fake.put("a", "text")
        let denied = FakeS3Fault(Bench.refusal, count: nil, on: .put)
        bench.fake.add(denied)
        let reader = bench.unconnected(try bench.client())
        let address = try await reader.connect(
            expecting: ContainerExpectation(identity: nil, hasItems: false)
        )
        try await reader.requireSameContainer()
        bench.fake.removeFaults()
        let writer = bench.unconnected(try bench.client())
        let known = ContainerExpectation(identity: address, hasItems: true)
        let identity = try await writer.connect(expecting: known)
        #expect(identity != address)
        bench.fake.remove(".cloudfs/container")
        #expect(await s3Failure { try await writer.requireSameContainer() } == .offline)
    }

    @Test(arguments: ["", "rubbish", "\n"])
    func `a damaged identity is said to be damaged`(text: String) async throws {
        let bench = try await Bench.make()
        bench.fake.put(".cloudfs/container", text)
        #expect(await s3Failure { _ = try await bench.provider() } == .corrupt)
        #expect(bench.fake.object(".cloudfs/container")?.bytes == Array(text.utf8))
    }
}

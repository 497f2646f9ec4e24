import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct S3ClientListingTests {
    @Test func `a page is asked for with everything that bounds it`() async throws {
        try await withS3Client { _ in
            .listing(["p/%C3%A9+b%2Bc", "p/z"], next: "t2")
        } _: { fixture in
            let page = try await fixture.client.list(
                prefix: Array("p/".utf8),
                delimiter: true,
                after: "t/1",
                startAfter: Array("p/a".utf8),
                limit: 7
            )
            #expect(page.objects.map(\.key) == [Array("p/é b+c".utf8), Array("p/z".utf8)])
            #expect(page.next == "t2")
            let target = try #require(fixture.server.requests.first?.target)
            for part in [
                "list-type=2", "encoding-type=url", "max-keys=7", "prefix=p%2F", "delimiter=%2F",
                "continuation-token=t%2F1", "start-after=p%2Fa",
            ] {
                #expect(target.contains(part))
            }
        }
    }

    @Test func `keys before the asked ones are left out`() async throws {
        try await withS3Client { _ in
            .listing(["a", "b", "c"])
        } _: { fixture in
            let page = try await fixture.client.list(
                prefix: [],
                delimiter: false,
                startAfter: Array("b".utf8)
            )
            #expect(page.objects.map(\.key) == [Array("c".utf8)])
        }
    }

    @Test func `keys outside the prefix are refused`() async throws {
        try await withS3Client { _ in
            .listing(["p/a", "q/b"])
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.list(prefix: Array("p/".utf8), delimiter: false)
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test func `a page that leads to itself is refused`() async throws {
        try await withS3Client { _ in
            .listing(["a"], next: "again")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.list(prefix: [], delimiter: false, after: "again")
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test(arguments: [1, 2, 3, 7, 40])
    func `a listing that goes in a circle ends with an error`(length: Int) async throws {
        try await withS3Client { request in
            .listing(["k\(request.number % length)"], next: "t\(request.number)")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.listAll(prefix: [], delimiter: false) { _ in true }
            }
            #expect(error?.code == .corrupt)
            #expect(fixture.server.requests.count < 200)
        }
    }

    @Test func `tokens that go in a circle of empty pages end with an error`() async throws {
        try await withS3Client { request in
            .listing([], next: "t\(request.number % 5)")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.listAll(prefix: [], delimiter: false) { _ in true }
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test func `empty pages without end are an error`() throws {
        var check = S3ListingCheck()
        #expect(throws: CloudFSError.self) {
            for number in 0..<10_000 {
                try check.note(S3ListPage(objects: [], prefixes: [], next: "t\(number)"))
            }
        }
    }

    @Test func `a listing is read to its end`() async throws {
        try await withS3Client { request in
            .listing(
                request.number == 3 ? [] : ["k\(request.number)"],
                next: request.number < 6 ? "t\(request.number)" : nil
            )
        } _: { fixture in
            var keys: [[UInt8]] = []
            try await fixture.client.listAll(prefix: [], delimiter: false) { page in
                keys += page.objects.map(\.key)
                return true
            }
            #expect(keys == ["k1", "k2", "k4", "k5", "k6"].map { Array($0.utf8) })
        }
    }

    @Test func `a batch names the keys that stay`() async throws {
        try await withS3Client { _ in
            .document(
                "<DeleteResult><Error><Key>b&amp;c</Key><Code>AccessDenied</Code>"
                    + "<Message>no</Message></Error></DeleteResult>"
            )
        } _: { fixture in
            let errors = try await fixture.client.deleteBatch(
                ["a", "b&c"].map { Array($0.utf8) }
            )
            #expect(
                errors == [
                    S3DeleteError(key: Array("b&c".utf8), failure: .accessDenied, message: "no")
                ]
            )
            let request = try #require(fixture.server.requests.first)
            #expect(request.target == "/bucket?delete")
            #expect(request.header("content-md5") != nil)
            let body = String(decoding: request.body, as: UTF8.self)
            #expect(body.contains("<Key>b&amp;c</Key>"))
        }
    }

    @Test func `keys that no document can carry are deleted one by one`() async throws {
        try await withS3Client { _ in
            .answer(204)
        } _: { fixture in
            let errors = try await fixture.client.deleteBatch([[0x61, 0x00], [0x01]])
            #expect(errors.isEmpty)
            #expect(
                Set(fixture.server.requests.map(\.target)) == ["/bucket/a%00", "/bucket/%01"]
            )
        }
    }

    @Test(arguments: [false, true])
    func `where many may not be deleted at once it is done one by one, if one may`(
        mayDelete: Bool
    ) async throws {
        let bench = try await S3ProviderBench.make()
        let keys = (0..<40).map { Array("key\($0)".utf8) }
        for key in keys { bench.fake.put(FakeS3Key(key), "x") }
        bench.fake.add(FakeS3Fault(S3ProviderBench.refusal, count: nil, on: .deleteBatch))
        if !mayDelete {
            bench.fake.add(FakeS3Fault(S3ProviderBench.refusal, count: nil, on: .delete))
        }
        let client = try bench.client()
        for part in [keys[..<20], keys[20...]] {
            let code = await s3Failure {
                let refused = try await client.deleteBatch(Array(part), isOwn: true)
                #expect(refused.isEmpty)
            }
            #expect(code == (mayDelete ? nil : .denied))
        }
        #expect(bench.fake.keys().count == (mayDelete ? 0 : 40))
        #expect(bench.fake.requestCount(.deleteBatch) == (mayDelete ? 1 : 2))
        #expect(client.lacksBatches == mayDelete)
        // One was tried first, and is gone already when it comes again.
        #expect(bench.fake.requestCount(.delete) == (mayDelete ? 41 : 2))
    }

    @Test func `a key that is no UTF-8 is refused rather than asked for wrongly`() async throws {
        try await withS3Client { _ in
            .answer(204)
        } _: { fixture in
            for key: [UInt8] in [[0xff], [0x61, 0x2f, 0xff, 0xfe], [0x61, 0xc3]] {
                let error = await #expect(throws: CloudFSError.self) {
                    try await fixture.client.delete(key)
                }
                #expect(error?.code == .invalidName)
            }
            #expect(fixture.server.requests.isEmpty)
        }
    }

    @Test func `any other key is asked for as it is`() async throws {
        try await withS3Client { _ in
            .answer(204)
        } _: { fixture in
            var keys = (UInt8(1)..<0x80).map { [$0] }
            keys += ["..", ".", "a//b", "/a", "a/", "../../x", "a/./b", "//", "é", "😀", "%2F"]
                .map { Array($0.utf8) }
            for key in keys { try await fixture.client.delete(key) }
            let asked = fixture.server.requests.map { request in
                URIEncoding.decode(request.target.utf8.dropFirst("/bucket/".utf8.count)) ?? []
            }
            #expect(asked == keys)
        }
    }

    @Test func `an error about another key is refused`() async throws {
        try await withS3Client { _ in
            .document("<DeleteResult><Error><Key>z</Key><Code>X</Code></Error></DeleteResult>")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.deleteBatch([Array("a".utf8)])
            }
            #expect(error?.code == .corrupt)
        }
    }
}

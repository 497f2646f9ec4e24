import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

@Suite struct S3MetadataTests {
    private static let id = DocumentID(high: 1, low: 2)
    private static let written = Timestamp(seconds: 1_700_000_000, nanoseconds: 0)

    private func read(_ headers: [String: String], _ kind: ItemKind = .file) -> ItemMetadata {
        S3Metadata.metadata(headers, kind: kind, lastModified: Self.written)
    }

    @Test func `what s3fs wrote is read`() {
        let headers = [
            "mtime": "1616161616.123456789", "ctime": "1616161616.123456789",
            "atime": "1616161617", "mode": "33188", "uid": "1000", "gid": "1001",
        ]
        #expect(S3Metadata.kind(headers) == .file)
        #expect(
            read(headers)
                == ItemMetadata(
                    permissions: 0o644,
                    userID: 1_000,
                    groupID: 1_001,
                    modified: Timestamp(seconds: 1_616_161_616, nanoseconds: 123_456_789)
                )
        )
        #expect(S3Metadata.kind(["mode": "16877"]) == .folder)
        #expect(S3Metadata.kind(["mode": "41471"]) == .symlink)
    }

    @Test func `the server's time is of whole seconds, in listings too`() {
        let listed = Timestamp(seconds: 1_700_000_000, nanoseconds: 123_000_000)
        let metadata = S3Metadata.metadata([:], kind: .file, lastModified: listed)
        #expect(metadata.modified == Self.written)
    }

    @Test func `what rclone wrote is read`() {
        let headers = ["mtime": "2006-01-02T15:04:05.999999999Z", "mode": "100640"]
        #expect(S3Metadata.kind(headers) == .file)
        #expect(read(headers).permissions == 0o640)
        #expect(read(headers).modified.seconds == 1_136_214_245)
        #expect(S3Metadata.kind(["mode": "0100664"]) == .file)
        #expect(S3Metadata.kind(["mode": "40755"]) == .folder)
        #expect(S3Metadata.kind(["mode": "120777"]) == .symlink)
        #expect(read(["mtime": "2006-01-02T15:04:05+02:00"]).modified.seconds == 1_136_207_045)
        #expect(
            read(["mtime": "1136214245.5"]).modified
                == Timestamp(seconds: 1_136_214_245, nanoseconds: 500_000_000)
        )
    }

    @Test(arguments: [
        "", ".", "-", "-.", "1.", ".5", "1.2.3", "1.-5", "1.+5", "nan", "inf", "1e308", "0x10",
        "9223372036854775807", "-9223372036854775808", "9223372036854775807.999999999",
        "-9223372036854775808.999999999", "99999999999999999999", "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z", "0001-01-01T00:00:00.000000001Z", "2006-13-45T99:99:99Z",
        "2006-01-02T15:04:05.99999999999999999999999999999Z", "\u{0}", "١٢٣", "1\u{301}",
        String(repeating: "9", count: 100_000), "1." + String(repeating: "9", count: 100_000),
        "-99999-01-01T00:00:00Z", "+292277026596-12-04T15:30:07Z",
    ])
    func `no time, mode or owner is too strange`(text: String) {
        for name in ["mtime", "mode", "uid", "gid", "xattr", "cloudfs-id"] {
            let headers = [name: text]
            for kind in [ItemKind.file, .folder, .symlink] {
                #expect(read(headers, kind).permissions <= 0o777)
            }
            _ = S3Metadata.kind(headers)
            #expect(S3Metadata.attributes(headers).isEmpty)
            _ = S3Metadata.documentID(headers, key: [1], container: "c")
        }
    }

    @Test(arguments: [1, 2] as [UInt64])
    func `random values are read without harm`(seed: UInt64) {
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        let alphabet = Array("0123456789.-+:TZe%{}[]\",=/ \u{e4}")
        for _ in 0..<5_000 {
            let count = Int.random(in: 0..<30, using: &random)
            let text = String(
                (0..<count).map { _ in alphabet.randomElement(using: &random) ?? "0" }
            )
            #expect(read(["mtime": text, "mode": text, "uid": text]).permissions <= 0o777)
            _ = S3Metadata.attributes(["xattr": text])
        }
    }

    @Test(
        arguments: [
            (0, 0), (1_234_567_890, 123_456_789), (-1, 500_000_000), (-2, 1), (-1, 999_999_999),
            (-11_644_473_600 / 2, 5), (9_000_000_000, 1),
        ] as [(Int64, Int64)]
    )
    func `times come back as they were`(seconds: Int64, nanoseconds: Int64) throws {
        let metadata = ItemMetadata(
            permissions: 0o640,
            userID: 7,
            groupID: 8,
            modified: Timestamp(seconds: seconds, nanoseconds: nanoseconds)
        )
        for kind in [ItemKind.file, .folder, .symlink] {
            let headers = try S3Metadata.headers(
                metadata,
                kind: kind,
                documentID: Self.id,
                attributes: [:]
            )
            #expect(read(headers, kind) == metadata)
            #expect(S3Metadata.kind(headers) == kind)
            #expect(S3Metadata.documentID(headers, key: [], container: "") == Self.id)
        }
    }

    @Test func `owners that are kept stay, and what is not ours too`() throws {
        let headers = try S3Metadata.headers(
            ItemMetadata(
                permissions: 0o600,
                userID: ItemMetadata.keptID,
                groupID: ItemMetadata.keptID,
                modified: Self.written
            ),
            kind: .file,
            documentID: Self.id,
            attributes: [:],
            kept: ["uid": "5", "gid": "6", "color": "red", "mtime": "1", "xattr": "%7B%7D"]
        )
        #expect(headers["uid"] == "5")
        #expect(headers["gid"] == "6")
        #expect(headers["color"] == "red")
        #expect(headers["mtime"] == "1700000000.000000000")
        #expect(headers["mode"] == "0100600")
        #expect(headers["xattr"] == nil)
    }

    @Test(arguments: [ItemKind.file, .folder, .symlink])
    func `modes come back as they were, of every kind`(kind: ItemKind) throws {
        for bits in UInt16(0)...0o7777 {
            let headers = try S3Metadata.headers(
                ItemMetadata(permissions: bits, userID: 1, groupID: 2, modified: Self.written),
                kind: kind,
                documentID: Self.id,
                attributes: [:]
            )
            #expect(S3Metadata.kind(headers) == kind)
            let read = S3Metadata.metadata(headers, kind: kind, lastModified: Self.written)
            #expect(read.permissions == bits & 0o777)
        }
    }

    @Test func `attributes come back as they were`() throws {
        let attributes: [String: [UInt8]] = [
            "user.a": [], "user.b": [0, 255, 10], "user.ä\"{}%41,:": Array("x".utf8),
            "user.100%": [1], "user.a b": [2], "user.\u{1f4a9}": [3],
        ]
        let headers = try S3Metadata.headers(
            S3ProviderBench.metadata,
            kind: .file,
            documentID: Self.id,
            attributes: attributes
        )
        #expect(S3Metadata.attributes(headers) == attributes)
        let isPlain = headers.values.allSatisfy {
            $0.utf8.allSatisfy { (0x21...0x7e).contains($0) }
        }
        #expect(isPlain)
    }

    @Test func `what a drive computes is taken from no bucket`() {
        let names = ["user.cloudfs", "user.cloudfs.pin", "user.cloudfs-id", "user.", "user.a\0b"]
        let fields = names.map {
            "\"\(URIEncoding.encode($0.utf8, keepingSlash: false))\":\"dGV4dA==\""
        }
        let text = URIEncoding.encode(
            "{\(fields.joined(separator: ","))}".utf8,
            keepingSlash: false
        )
        #expect(S3Metadata.attributes(["xattr": text]).isEmpty)
    }

    @Test func `attributes of s3fs are read, others left out`() {
        // {"user.mime_type":"dGV4dA==","security.x":"AA==","user.bad":"***"}
        let text =
            "%7B%22user.mime_type%22%3A%22dGV4dA%3D%3D%22%2C%22security.x%22%3A%22AA%3D%3D%22%2C"
            + "%22user.bad%22%3A%22***%22%7D"
        #expect(S3Metadata.attributes(["xattr": text]) == ["user.mime_type": Array("text".utf8)])
    }

    @Test func `bombs are no attributes`() {
        for json in [
            String(repeating: "[", count: 100_000), String(repeating: "{\"a\":", count: 50_000),
            "{\"user.a\":1}", "{\"user.a\":null}", "[]", "\"x\"",
            "{\"user.a\":\"" + String(repeating: "*", count: 100_000) + "\"}",
        ] {
            #expect(S3Metadata.attributes(["xattr": json]).isEmpty)
        }
    }

    @Test func `too much for an object is refused, and the most that fits is not`() throws {
        func size(_ count: Int) throws -> Int {
            try S3Metadata.headers(
                S3ProviderBench.metadata,
                kind: .file,
                documentID: Self.id,
                attributes: [:],
                kept: ["x": String(repeating: "x", count: count)]
            ).reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        }
        let least = try size(0)
        #expect(try size(2_048 - least) == 2_048)
        let error = #expect(throws: CloudFSError.self) { try size(2_049 - least) }
        #expect(error?.code == .attributesFull)
    }

    @Test func `every device derives the same identity, and no two objects share one`() {
        let one = S3Metadata.documentID([:], key: [1], container: "c")
        #expect(one == S3Metadata.documentID(["cloudfs-id": "rubbish"], key: [1], container: "c"))
        #expect(one != S3Metadata.documentID([:], key: [2], container: "c"))
        #expect(one != S3Metadata.documentID([:], key: [1], container: "d"))
    }
}

/// Metadata through a provider.
@Suite struct S3ProviderMetadataTests {
    private typealias Bench = S3ProviderBench

    @Test func `hostile objects are listed and described`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("zero-time", "x", metadata: ["mtime": "0001-01-01T00:00:00Z"])
        bench.fake.put("far-time", "x", metadata: ["mtime": "9999-12-31T00:00:00Z"])
        bench.fake.put("is-folder", "x", metadata: ["mode": "16877"])
        bench.fake.put("empty-link", "", metadata: ["mode": "41471"])
        bench.fake.put(
            "long-link",
            String(repeating: "x", count: 4_096),
            metadata: ["mode": "41471"]
        )
        bench.fake.put("nul-link", [0x61, 0, 0x62], metadata: ["mode": "41471"])
        bench.fake.put("link", "target", metadata: ["mode": "41471"])
        bench.fake.put("file/", "content", metadata: ["mode": "33188"])
        let sketches = try await Bench.list(.root, of: provider)
        let items = try await provider.details(of: sketches, in: .root)
        #expect(items.count == 8)
        let kinds = Dictionary(uniqueKeysWithValues: items.map { ($0.name.description, $0.kind) })
        #expect(kinds["is-folder"] == .file)
        #expect(kinds["empty-link"] == .file)
        #expect(kinds["long-link"] == .file)
        #expect(kinds["nul-link"] == .file)
        #expect(kinds["link"] == .symlink)
        #expect(kinds["file"] == .folder)
    }

    @Test func `too many attributes are refused and nothing is written`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let item = try await Bench.upload([1], to: "a", of: provider)
        let tag = bench.fake.object("a")?.metadata
        let code = await s3Failure {
            _ = try await provider.setMetadata(
                MetadataUpdate(attributes: ["user.a": Array(repeating: 1, count: 2_000)]),
                at: Bench.path("a"),
                base: item.version
            )
        }
        #expect(code == .attributesFull)
        #expect(bench.fake.object("a")?.metadata == tag)
    }

    @Test func `metadata of a folder does not cost a foreign marker its content`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("d/", "precious")
        let item = try await provider.item(at: Bench.path("d"))
        _ = try await provider.setMetadata(
            MetadataUpdate(metadata: Bench.metadata),
            at: Bench.path("d"),
            base: item.version
        )
        #expect(bench.fake.object("d/")?.bytes == Array("precious".utf8))
    }

    private static func headers(
        _ attributes: [String: [UInt8]],
        kept: String?
    ) throws -> [String: String] {
        try S3Metadata.headers(
            ItemMetadata(
                permissions: 0o644,
                userID: ItemMetadata.keptID,
                groupID: ItemMetadata.keptID,
                modified: Timestamp(nanoseconds: 0)
            ),
            kind: .file,
            documentID: .random(),
            attributes: attributes,
            kept: kept.map { ["xattr": $0] } ?? [:]
        )
    }

    @Test func `attributes of other tools stay`() throws {
        let stored = #"{"security.x":"AQ==","user.a":"Ag==","user.gone":"Aw=="}"#
        let kept = URIEncoding.encode(stored.utf8, keepingSlash: false)
        let headers = try Self.headers(["user.a": [9]], kept: kept)
        let json = try #require(headers["xattr"].flatMap { URIEncoding.decode($0.utf8) })
        #expect(String(decoding: json, as: UTF8.self) == #"{"security.x":"AQ==","user.a":"CQ=="}"#)
        #expect(try Self.headers([:], kept: "plain-not-json")["xattr"] == "plain-not-json")
        #expect(try Self.headers([:], kept: nil)["xattr"] == nil)
        let replaced = try Self.headers(["user.a": [9]], kept: "plain-not-json")
        #expect(S3Metadata.attributes(replaced) == ["user.a": [9]])
    }
}

import Testing

@testable import CloudFS

/// Signatures against those of botocore, AWS's library for Python, as a second opinion.
///
/// The table was printed by a script around `botocore.auth.S3SigV4Auth` 1.43.11 with its clock at
/// 2026-02-28 23:59:58 UTC, for plain HTTP, so that the body is signed; paths and queries were
/// encoded with `urllib.parse.quote`, keeping `-._~` and in paths `/`.
@Suite struct SigV4BotocoreTests {
    struct Vector: Sendable, CustomTestStringConvertible {
        var method: String
        var key: [UInt8]
        var query: [(String, String?)]
        var headers: [(String, String)]
        var body: String
        var token: String?
        var signature: String

        init(
            _ method: String,
            text: String,
            query: [(String, String?)] = [],
            headers: [(String, String)] = [],
            body: String = "",
            token: String? = nil,
            _ signature: String
        ) {
            self.method = method
            key = Array(text.utf8)
            self.query = query
            self.headers = headers
            self.body = body
            self.token = token
            self.signature = signature
        }

        init(_ method: String, bytes: [UInt8], _ signature: String) {
            self.init(method, text: "", signature)
            key = bytes
        }

        var testDescription: String {
            "\(method) \(URIEncoding.encode(key, keepingSlash: true)) \(signature.prefix(8))"
        }
    }

    @Test(arguments: vectors)
    func `requests are signed as botocore signs them`(vector: Vector) {
        let request = SigV4(region: "eu-central-1").sign(
            method: vector.method,
            host: "bucket.example:7480",
            encodedPath: "/" + URIEncoding.encode(vector.key, keepingSlash: true),
            encodedQuery: SigV4Tests.encoded(vector.query.map { (name: $0.0, value: $0.1) }),
            headers: vector.headers.map { (name: $0.0, value: $0.1) },
            payload: .bytes(Array(vector.body.utf8)),
            credentials: S3Credentials(
                accessKeyID: "AKIDEXAMPLE",
                secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                sessionToken: vector.token
            ),
            date: Timestamp(seconds: 1_772_323_198, nanoseconds: 0)
        )
        let comment = Comment(rawValue: request.canonicalRequest)
        #expect(SigV4Tests.signature(of: request) == vector.signature, comment)
    }

    @Test func `a query of any bytes is signed and sent as it was encoded`() {
        let request = SigV4(region: "r").sign(
            method: "GET",
            host: "h",
            encodedPath: "/",
            encodedQuery: [("prefix", URIEncoding.encode([0xff, 0x2f], keepingSlash: false))],
            headers: [],
            payload: .bytes([]),
            credentials: S3Credentials(accessKeyID: "a", secretAccessKey: "s"),
            date: Timestamp(seconds: 0, nanoseconds: 0)
        )
        #expect(request.pathAndQuery == "/?prefix=%FF%2F")
        #expect(request.canonicalRequest.hasPrefix("GET\n/\nprefix=%FF%2F\nhost:h\n"))
    }

    static let vectors: [Vector] = [
        Vector(
            "GET",
            text: "plain.txt",
            "fe92adb7646b47bef7bc79cb252f528052421d2af3127c14064cfdb1c5579543"
        ),
        Vector(
            "GET",
            text: "with space",
            "85488bd5f0638e4e82cec06c3665469fda784133383f4df0e76cd9c59a7e7c41"
        ),
        Vector(
            "GET",
            text: "a+b",
            "af78b488f6d1b51ac1da46b8acde9e162763bd6a1d10145d3479cefd2f330163"
        ),
        Vector(
            "GET",
            text: "100%",
            "58a73c89ca652bc43fa856a6bb49cb2d1c8cc15eddb7e51b0eb2b56a525b0cf4"
        ),
        Vector(
            "GET",
            text: "%41",
            "ad7738d2783a1392db6b51d44235c59e676066da33da48c1394a5cf62841e7f3"
        ),
        Vector(
            "GET",
            text: "a//b",
            "ba17462a72f079c63059d79f3788587b1241e1e14eac30a0d5485d57dddd33f6"
        ),
        Vector(
            "GET",
            text: "a/../b",
            "3bb4f3701d19b40ad9aed6cb3f9de844fe8a448422ac941f0b1a1969dab95926"
        ),
        Vector(
            "GET",
            text: "./a",
            "32ddaefa471586f4034602e6c1950d132ba41d68c0fc5a110c17fb0c3a00eb81"
        ),
        Vector(
            "GET",
            text: "..",
            "9b6fe2f9a6d47538f59774ea9e5c5142faa9c318ce1d7627b6f6658869da27fd"
        ),
        Vector(
            "GET",
            text: "~tilde",
            "e2cf736b042a944c646d71ac3c8affabaea34a31df9069d0a75ada7900f41b60"
        ),
        Vector(
            "GET",
            text: "star*(paren)!'",
            "6eed2ac42d61f7fe34b2cf7be962d14115f5982b47da8afd87d3faeb2c99b345"
        ),
        Vector(
            "GET",
            text: "tab\there",
            "e0a19c7f599b802016701c16443eddbff1ea2515a77d312858b9551f91669414"
        ),
        Vector(
            "GET",
            text: "naïve/Größe.txt",
            "31ade49030d94f54bdf899ef63777dc8794ce870a58a03578c3ae405fa034e48"
        ),
        Vector(
            "GET",
            text: "日本語",
            "ea65f65f430bed050aa1b6f1e9b7cba003d414429a745d79afe94769d440f086"
        ),
        Vector(
            "GET",
            text: "emoji 🙂.png",
            "85a6b5be8420bd09406612dda1572e3e12088a13de089772a6f5b352377456e7"
        ),
        Vector(
            "GET",
            text: "q?x=1&y#z",
            "1315b9d0d677607f4faee9e922268c1dee2558aa784a5ab7d3b2c2eb3a2a2f27"
        ),
        Vector(
            "GET",
            text: "semi;colon:at@comma,equals=dollar$",
            "b7b0e52adcf765d33d4d155ca4fb2c8e2dd0a0ece3c9e0b4678303526dcab8c6"
        ),
        Vector(
            "GET",
            text: "[br]{ace}|\\^`\"<>",
            "8f0737cf344c2cb960f7c58ea072511427743672f8a6c07b008af61d9d168f5d"
        ),
        Vector(
            "GET",
            text: "\u{7f}\u{1}",
            "e5057a0414ddad9fc4652a46e92ed4d5f8d1078495fa67b3345b7b335478583d"
        ),
        Vector(
            "GET",
            text: "trailing/",
            "d6fdcc4b8f349d292d252ba509bfd960a76727a911e7e616e182359d6cda03ab"
        ),
        Vector(
            "GET",
            text: "/leading",
            "5018d5182a3752fa281ea7cfe4e45a069f40a35b4fd892da7ebff9a632e26c88"
        ),
        Vector(
            "GET",
            bytes: [0x69, 0x6e, 0x76, 0x61, 0x6c, 0x69, 0x64, 0xff, 0xfe, 0x2f, 0xc3],
            "60f2be894348a3bf21323026b33f4f739c999c74f00436b5b8e469b46a093414"
        ),
        Vector(
            "PUT",
            text: "o",
            headers: [
                ("content-type", "text/plain; charset=utf-8"), ("x-amz-meta-mtime", "1700000000.5"),
            ],
            body: "hello",
            "a2e15f5cd31ac84d0acbe810c4b18532d87e89d5741d40c52a3f6678a461af18"
        ),
        Vector(
            "PUT",
            text: "o",
            headers: [("x-amz-meta-name", "  two   spaces\t tab  "), ("x-amz-meta-empty", "")],
            "ad51e87490f774c9eb2f2b35dada025a7da8cbc163b4677133d0579df782b9b1"
        ),
        Vector(
            "GET",
            text: "o",
            headers: [("range", "bytes=0-9"), ("if-match", "\"abc\""), ("user-agent", "any/1")],
            "1b32f1899c6d3ca4166f72245454fd5572e0b3835652313567f04e1954e52f70"
        ),
        Vector(
            "GET",
            text: "o",
            token: "FwoGZXIvYXdzEXAMPLE//token+with/slashes==",
            "dd52e7c0d416499574f67b1b953298ffb62f0252abd7d28b78779cac66f1027a"
        ),
        Vector(
            "GET",
            text: "",
            query: [
                ("list-type", "2"), ("prefix", "fold er/ä+%"), ("delimiter", "/"),
                ("encoding-type", "url"), ("max-keys", "1000"),
            ],
            "869eac508a6b143a9c121160748d650ce7537681782c871d87f5ac4418cdfdbb"
        ),
        Vector(
            "POST",
            text: "",
            query: [("delete", nil)],
            headers: [("content-md5", "1B2M2Y8AsgTpgAmyPhCfg==")],
            body: "<Delete/>",
            "fce0be8eddcfe9845a6d2b2230b2379fcb094ac7292fe95b86ae5c96ad6906ab"
        ),
        Vector(
            "POST",
            text: "k",
            query: [("uploads", nil)],
            token: "TOKEN",
            "ac3e923f15473ceb7e003c8798e49cd47852a66b79b5c6ef045b73c958ad5643"
        ),
        Vector(
            "PUT",
            text: "k",
            query: [("partNumber", "10"), ("uploadId", "a/b+c=d~e.f-g_h")],
            body: "part",
            "2fa428c49cdcc4387d6c7c78496f12b05318352cfb79c8cc3f174c56c9063d5e"
        ),
        Vector(
            "GET",
            text: "",
            query: [("b", "2"), ("a", "2"), ("a", "1"), ("A", "0"), ("a-b", ""), ("a", nil)],
            "6439b2da78805bfd48174f5545eabcca16d9d02c1ceb72f663629de84daa50f6"
        ),
        Vector(
            "GET",
            text: "",
            query: [("continuation-token", "1/Zm9v+bar=="), ("start-after", "🙂/\t x")],
            "ab20b7bfb85617bd83538cb68ad1542358c109c958bcb3e17cd93b16567e83be"
        ),
        Vector(
            "PUT",
            text: "copy",
            headers: [
                ("x-amz-copy-source", "/bucket/a%20b%2Bc%C3%A4"),
                ("x-amz-metadata-directive", "REPLACE"),
            ],
            "80746a804b3f7dc1f33ba140f955209ebf87acf15139b94a363e4390cd86dd7b"
        ),
    ]
}

import Testing

@testable import CloudFS

/// Signatures against the examples and the test suite that AWS publishes.
@Suite struct SigV4Tests {
    /// The signature at the end of an `authorization` header.
    static func signature(of request: SignedRequest) -> String? {
        request.headers.last { $0.name == "authorization" }?.value
            .split(separator: "Signature=").last.map(String.init)
    }

    // MARK: - The examples of the S3 documentation

    private static let example = S3Credentials(
        accessKeyID: "AKIAIOSFODNN7EXAMPLE",
        secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    )
    private static let exampleDate = Timestamp(seconds: 1_369_353_600, nanoseconds: 0)

    /// A query as it is sent, of plain names and values.
    static func encoded(
        _ query: [(name: String, value: String?)]
    ) -> [(name: String, value: String?)] {
        query.map { item in
            (
                name: URIEncoding.encode(item.name.utf8, keepingSlash: false),
                value: item.value.map { URIEncoding.encode($0.utf8, keepingSlash: false) }
            )
        }
    }

    private func signed(
        _ method: String,
        _ path: String,
        query: [(name: String, value: String?)] = [],
        headers: [(name: String, value: String)] = [],
        body: String = ""
    ) -> SignedRequest {
        SigV4(region: "us-east-1").sign(
            method: method,
            host: "examplebucket.s3.amazonaws.com",
            encodedPath: path,
            encodedQuery: Self.encoded(query),
            headers: headers,
            payload: .bytes(Array(body.utf8)),
            credentials: Self.example,
            date: Self.exampleDate
        )
    }

    @Test func `a ranged GET is signed as in the documentation`() {
        let request = signed("GET", "/test.txt", headers: [("Range", "bytes=0-9")])
        #expect(
            request.headers.last?.value
                == "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                + "aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                + "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        )
        #expect(request.pathAndQuery == "/test.txt")
    }

    @Test func `a PUT is signed as in the documentation`() {
        let request = signed(
            "PUT",
            "/test%24file.text",
            headers: [
                ("Date", "Fri, 24 May 2013 00:00:00 GMT"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ],
            body: "Welcome to Amazon S3."
        )
        #expect(
            Self.signature(of: request)
                == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        )
    }

    @Test func `a parameter without a value is signed as in the documentation`() {
        let request = signed("GET", "/", query: [("lifecycle", nil)])
        #expect(
            Self.signature(of: request)
                == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        )
        #expect(request.pathAndQuery == "/?lifecycle")
    }

    @Test func `a listing is signed as in the documentation`() {
        let request = signed("GET", "/", query: [("max-keys", "2"), ("prefix", "J")])
        #expect(
            Self.signature(of: request)
                == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        )
        #expect(request.pathAndQuery == "/?max-keys=2&prefix=J")
    }

    // MARK: - The test suite of Signature Version 4

    /// One case of the suite that AWS publishes with its SDKs: 2015-08-30, service `service`.
    struct SuiteCase: Sendable, CustomTestStringConvertible {
        var name: String
        var method = "GET"
        var path = "/"
        var query: [String] = []
        var headers: [String] = []
        var body = ""
        var token: String?
        var signature: String

        var testDescription: String { name }
    }

    private static let letters =
        "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    static let suite: [SuiteCase] = [
        SuiteCase(
            name: "get-header-key-duplicate",
            headers: ["My-Header1:value2", "My-Header1:value2", "My-Header1:value1"],
            signature: "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"
        ),
        SuiteCase(
            name: "get-header-value-multiline",
            // Folded into three lines in the suite, which it signs like three values; a folded
            // header itself cannot be sent.
            headers: ["My-Header1:value1", "My-Header1:  value2", "My-Header1:     value3"],
            signature: "ba17b383a53190154eb5fa66a1b836cc297cc0a3d70a5d00705980573d8ff790"
        ),
        SuiteCase(
            name: "get-header-value-order",
            headers: [
                "My-Header1:value4", "My-Header1:value1", "My-Header1:value3", "My-Header1:value2",
            ],
            signature: "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"
        ),
        SuiteCase(
            name: "get-header-value-trim",
            headers: ["My-Header1: value1", "My-Header2: \"a   b   c\""],
            signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"
        ),
        SuiteCase(
            name: "get-relative-relative-normalized",
            path: "/example1/example2/../..",
            signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        ),
        SuiteCase(
            name: "get-slash-pointless-dot-normalized",
            path: "/./example",
            signature: "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"
        ),
        SuiteCase(
            name: "get-slashes-normalized",
            path: "//example//",
            signature: "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"
        ),
        SuiteCase(
            name: "get-space-normalized",
            path: "/example space/",
            signature: "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"
        ),
        SuiteCase(
            name: "get-unreserved",
            path: "/" + letters,
            signature: "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"
        ),
        SuiteCase(
            name: "get-utf8",
            path: "/ሴ",
            signature: "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"
        ),
        SuiteCase(
            name: "get-vanilla-empty-query-key",
            query: ["Param1=value1"],
            signature: "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"
        ),
        SuiteCase(
            name: "get-vanilla-query-order-encoded",
            query: ["Param-3=Value3", "Param=Value2", "ሴ=Value1"],
            signature: "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"
        ),
        SuiteCase(
            name: "get-vanilla-query-order-key-case",
            query: ["Param2=value2", "Param1=value1"],
            signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
        ),
        SuiteCase(
            name: "get-vanilla-query-unreserved",
            query: [letters + "=" + letters],
            signature: "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"
        ),
        SuiteCase(
            name: "get-vanilla-utf8-query",
            query: ["ሴ=bar"],
            signature: "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"
        ),
        SuiteCase(
            name: "get-vanilla-with-session-token",
            token: "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267",
            signature: "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"
        ),
        SuiteCase(
            name: "post-header-key-sort",
            method: "POST",
            headers: ["My-Header1:value1"],
            signature: "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"
        ),
        SuiteCase(
            name: "post-x-www-form-urlencoded",
            method: "POST",
            headers: [
                "Content-Type:application/x-www-form-urlencoded", "Content-Length:13",
                "x-amz-content-sha256:"
                    + "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
            ],
            body: "Param1=value1",
            signature: "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"
        ),
    ]

    private static func pair(_ text: String, at mark: Character) -> (name: String, value: String) {
        let index = text.firstIndex(of: mark) ?? text.endIndex
        return (String(text[..<index]), String(text[index...].dropFirst()))
    }

    @Test(arguments: suite)
    func `requests are signed as in the published suite`(example: SuiteCase) {
        let request = SigV4(region: "us-east-1", service: "service").sign(
            method: example.method,
            host: "example.amazonaws.com",
            encodedPath: example.path,
            encodedQuery: Self.encoded(
                example.query.map { Self.pair($0, at: "=") }.map { ($0.name, $0.value) }
            ),
            headers: example.headers.map { Self.pair($0, at: ":") },
            payload: .bytes(Array(example.body.utf8)),
            credentials: S3Credentials(
                accessKeyID: "AKIDEXAMPLE",
                secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                sessionToken: example.token
            ),
            date: Timestamp(seconds: 1_440_938_160, nanoseconds: 999_999_999)
        )
        let comment = Comment(rawValue: request.canonicalRequest)
        #expect(Self.signature(of: request) == example.signature, comment)
    }

    // MARK: - What else is promised

    @Test func `a caller's headers of the signature's own are replaced`() {
        let own = ["Host", "X-Amz-Date", "X-Amz-Content-SHA256", "Authorization"]
        let plain = signed("GET", "/test.txt")
        let forged = signed("GET", "/test.txt", headers: own.map { ($0, "forged") })
        #expect(Self.signature(of: forged) == Self.signature(of: plain))
        #expect(!forged.headers.contains { $0.value == "forged" })
    }

    @Test func `the body's hash can be given or left out`() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        let payloads: [(SigV4.PayloadHash, String)] = [
            (.bytes([]), empty), (.sha256Hex(empty), empty), (.unsigned, "UNSIGNED-PAYLOAD"),
        ]
        for (payload, text) in payloads {
            let request = SigV4(region: "r").sign(
                method: "PUT",
                host: "h",
                encodedPath: "/k",
                encodedQuery: [],
                headers: [],
                payload: payload,
                credentials: Self.example,
                date: Self.exampleDate
            )
            #expect(request.headers.contains { $0 == ("x-amz-content-sha256", text) })
            #expect(request.canonicalRequest.hasSuffix("\n" + text))
        }
    }

    @Test func `values go out as the caller gave them`() {
        let request = signed("PUT", "/k", headers: [("X-Amz-Meta-A", " two  spaces ")])
        #expect(request.headers.first.map { $0 == ("X-Amz-Meta-A", " two  spaces ") } == true)
        #expect(request.canonicalRequest.contains("\nx-amz-meta-a:two spaces\n"))
    }
}

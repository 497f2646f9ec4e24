import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct INIDocumentTests {
    private func parsed(_ text: String) throws -> [String: [String: String]] {
        try INIDocument(parsing: Array(text.utf8), path: "/test/config").sections
    }

    @Test func `sections, names and values are read`() throws {
        let text = """
            # a comment
            [default]
            aws_access_key_id = AKID ; the old one
            AWS_Secret_Access_Key=a#b=c:d;e/+

            [ profile  x ]  # named
            region: eu-1
            [default]
            region = one
            region = two
            """
        #expect(
            try parsed(text) == [
                "default": [
                    "aws_access_key_id": "AKID", "aws_secret_access_key": "a#b=c:d;e/+",
                    "region": "two",
                ],
                "profile  x": ["region": "eu-1"],
            ]
        )
    }

    @Test func `a name's own settings are kept apart`() throws {
        let text = """
            [default]
            s3 =
              max_concurrent_requests = 20
              region = inner
            region = outer
            credential_process = one
              two
            """
        #expect(
            try parsed(text)["default"] == [
                "s3": "", "s3.max_concurrent_requests": "20", "s3.region": "inner",
                "region": "outer", "credential_process": "one\ntwo",
            ]
        )
    }

    @Test(arguments: ["\r\n", "\n", "\r"])
    func `lines end as on any system`(end: String) throws {
        #expect(
            try parsed(["\u{feff}[a]", "b = c", ""].joined(separator: end)) == ["a": ["b": "c"]]
        )
    }

    @Test func `an empty file has no sections`() throws {
        #expect(try parsed("") == [:])
        #expect(try parsed("[a]") == ["a": [:]])
    }

    @Test(
        arguments: [
            ("x = y", 1), ("[a]\n\nSECRET", 3), ("[a\n", 1), ("[]", 1), ("[a] b", 1),
            ("[a]\n= SECRET", 2), ("[a]\ns3 =\n  SECRET", 3),
        ]
    )
    func `what is no setting is refused by its line and not shown`(text: String, line: Int) {
        let error = #expect(throws: CloudFSError.self) { try parsed(text) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.message.hasPrefix("line \(line) of /test/config ") == true)
        #expect(error?.description.contains("SECRET") == false)
    }

    @Test func `what is no text is refused`() {
        for bytes: [UInt8] in [[0x5b, 0xff, 0x5d], Array("[a]\nb = \0".utf8)] {
            #expect(throws: CloudFSError.self) { try INIDocument(parsing: bytes, path: "p") }
        }
        let large = [UInt8](repeating: 0x0a, count: INIDocument.byteLimit + 1)
        let error = #expect(throws: CloudFSError.self) {
            try INIDocument(parsing: large, path: "p")
        }
        #expect(error?.code == .tooLarge)
    }

    @Test func `any bytes are read or refused`() {
        var random = SeededRandom(seed: 0x1_0301)
        let alphabet = Array("[]=:#; \t\n\rab\"'\\%\u{e9}".utf8) + [0x00, 0xff]
        var readCount = 0
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...60, using: &random)).compactMap { _ in
                alphabet.randomElement(using: &random)
            }
            do throws(CloudFSError) {
                _ = try INIDocument(parsing: Array("[a]\n".utf8) + bytes, path: "p")
                readCount += 1
            } catch {
                #expect(error.code == .invalidArgument, "seed \(random.seed): \(bytes)")
            }
        }
        #expect(readCount > 100, "seed \(random.seed)")
    }

    @Test func `a large hostile file takes no time`() throws {
        let lines =
            String(repeating: "[a]\n y = z\n", count: 1_000)
            + String(repeating: " x\n", count: 300_000)
        let time = try ContinuousClock().measure { _ = try parsed(lines) }
        #expect(time < .seconds(10))
    }
}

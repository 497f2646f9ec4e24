import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct URIEncodingTests {
    @Test func `only unreserved characters stay`() {
        let kept = "ABCXYZabcxyz0189-._~"
        #expect(URIEncoding.encode(kept.utf8, keepingSlash: false) == kept)
        for byte in UInt8.min...UInt8.max where !kept.utf8.contains(byte) {
            let isLetterOrDigit =
                byte < 0x80 && (Character(UnicodeScalar(byte)).isLetter || (0x30...0x39) ~= byte)
            if isLetterOrDigit { continue }
            let encoded = URIEncoding.encode([byte], keepingSlash: false)
            let hex = String(byte, radix: 16, uppercase: true)
            #expect(encoded == "%" + (hex.count == 1 ? "0" : "") + hex)
        }
    }

    @Test func `a slash stays only where it is asked to`() {
        #expect(URIEncoding.encode("a/b".utf8, keepingSlash: true) == "a/b")
        #expect(URIEncoding.encode("a/b".utf8, keepingSlash: false) == "a%2Fb")
    }

    @Test(
        arguments: [
            ("", ""), ("%41", "A"), ("a%2fb%2FC", "a/bC".replacing("bC", with: "b/C")),
            ("a+b", "a+b"), ("100%25", "100%"),
        ]
    )
    func `text is decoded`(encoded: String, plain: String) throws {
        #expect(URIEncoding.decode(encoded.utf8) == Array(plain.utf8))
    }

    @Test func `a plus is a space only in forms`() {
        #expect(URIEncoding.decode("a+b%2B".utf8) == Array("a+b+".utf8))
        #expect(URIEncoding.decode("a+b%2B".utf8, plusIsSpace: true) == Array("a b+".utf8))
    }

    @Test(arguments: ["%", "%4", "a%", "%zz", "%4g", "%%41", "% 41", "%+1"])
    func `a broken escape is refused`(encoded: String) {
        #expect(URIEncoding.decode(encoded.utf8) == nil)
    }

    @Test func `any bytes come back as they were`() {
        var random = SeededRandom(seed: 0x5eed_0301)
        for round in 0..<2_000 {
            let bytes = random.bytes(Int.random(in: 0...40, using: &random))
            for keepingSlash in [true, false] {
                let encoded = URIEncoding.encode(bytes, keepingSlash: keepingSlash)
                let comment = Comment("seed \(random.seed), round \(round)")
                #expect(URIEncoding.decode(encoded.utf8) == bytes, comment)
                #expect(encoded.utf8.allSatisfy { (0x21...0x7e).contains($0) }, comment)
            }
        }
    }
}

import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct S3XMLReferencesTests {
    private func without(_ text: String) -> String {
        String(decoding: S3XML.withoutForbiddenReferences(Array(text.utf8)), as: UTF8.self)
    }

    @Test func `references to forbidden characters become question marks`() {
        #expect(without("a&#x1;b&#0;c&#x1F;d&#31;e&#X0b;f&#00000008;") == "a?b?c?d?e?f?")
    }

    @Test(arguments: [
        "", "&", "&&", "&;", "&#;", "&#x;", "&amp;", "&lt;&gt;&quot;&apos;", "&#x9;&#10;&#xD;",
        "&#32;", "&#x20;", "&#xzz;", "&#-1;", "a & b", "&#99999999999;", "&#x", "&#1",
        "&entity;", "&amp;#1;",
    ])
    func `everything else stays`(text: String) {
        #expect(without(text) == text)
    }

    @Test func `a reference that is too long stays for the parser to refuse`() {
        let text = "&#x" + String(repeating: "0", count: 100) + "1;"
        #expect(without(text) == text)
    }

    @Test func `many references take no longer than their number`() {
        let count = 200_000
        #expect(without(String(repeating: "&", count: count)).utf8.count == count)
        #expect(without(String(repeating: "&#1;", count: count)).utf8.count == count)
    }

    @Test(arguments: [1, 2] as [UInt64])
    func `random text is only ever shortened by references`(seed: UInt64) {
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        let alphabet = Array("&#x01;a ")
        for _ in 0..<3_000 {
            let text = String((0..<20).map { _ in alphabet.randomElement(using: &random) ?? "a" })
            let result = without(text)
            #expect(result.utf8.count <= text.utf8.count)
            #expect(without(result) == result || result.contains("&"))
            if !text.contains(";") { #expect(result == text) }
        }
    }

    @Test func `a listing whose prefix holds control characters is read`() throws {
        let document = S3XML.withoutForbiddenReferences(
            Array("<ListBucketResult><Prefix>a&#x1;&amp;</Prefix></ListBucketResult>".utf8)
        )
        #expect(try S3XMLListing.read(document).objects.isEmpty)
    }
}

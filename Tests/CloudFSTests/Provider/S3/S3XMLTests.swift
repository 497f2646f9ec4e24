import Testing

@testable import CloudFS

@Suite struct S3XMLTests {
    private func listing(_ text: String) throws -> S3ListPage {
        try S3XMLListing.read(Array(text.utf8))
    }

    private func refuses(_ text: String) {
        let error = #expect(throws: CloudFSError.self) { try listing(text) }
        #expect(error?.code == .corrupt)
        #expect(error?.cause as? S3Failure == .wrongAnswer)
    }

    private static let entry = """
        <Contents><Key>a%2Fb</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>\
        <ETag>&quot;fba9&quot;</ETag><Size>434234</Size><StorageClass>STANDARD</StorageClass>\
        <Owner><ID>8a69</ID><DisplayName>x</DisplayName></Owner></Contents>
        """

    @Test func `a listing is read`() throws {
        let page = try listing(
            """
            <?xml version="1.0" encoding="UTF-8"?>
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
                <Name>bucket</Name><Prefix>Prefix</Prefix><IsTruncated>true</IsTruncated>
                \(Self.entry)
                <CommonPrefixes><Prefix>a%2F</Prefix></CommonPrefixes>
                <EncodingType>url</EncodingType>
                <NextContinuationToken>1ueG/XYE+hbYLg=</NextContinuationToken>
            </ListBucketResult>
            """
        )
        #expect(
            page.objects == [
                S3Object(
                    key: Array("a/b".utf8),
                    size: 434_234,
                    entityTag: "fba9",
                    lastModified: Timestamp(seconds: 1_255_369_830, nanoseconds: 0)
                )
            ]
        )
        #expect(page.prefixes == [Array("a/".utf8)])
        #expect(page.next == "1ueG/XYE+hbYLg=")
    }

    @Test func `keys are as given when the server does not encode`() throws {
        let page = try listing("<ListBucketResult>\(Self.entry)</ListBucketResult>")
        #expect(page.objects.first?.key == Array("a%2Fb".utf8))
    }

    @Test func `a namespace's prefix does not matter`() throws {
        let page = try listing(
            "<s:ListBucketResult xmlns:s='x'><s:IsTruncated>false</s:IsTruncated>"
                + "<s:CommonPrefixes><s:Prefix>p/</s:Prefix></s:CommonPrefixes>"
                + "</s:ListBucketResult>"
        )
        #expect(page.prefixes == [Array("p/".utf8)])
    }

    @Test(arguments: [
        "", "not XML", "<ListBucketResult>", "<ListBucketResult></Other>", "<html></html>",
        "<ListBucketResult/><ListBucketResult/>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><CommonPrefixes/></ListBucketResult>",
        "<ListBucketResult>&unknown;</ListBucketResult>",
        "<ListBucketResult>&#0;</ListBucketResult>",
    ])
    func `what is no listing is refused`(text: String) {
        refuses(text)
    }

    @Test(arguments: ["-1", "", "1e3", "99999999999999999999", "0x10", " 1"])
    func `a size that is none is refused`(size: String) {
        refuses(
            "<ListBucketResult>"
                + Self.entry.replacing("434234", with: size) + "</ListBucketResult>"
        )
    }

    @Test(arguments: ["%", "%2", "%zz"])
    func `a key encoded wrongly is left out, and told of`(key: String) throws {
        let text =
            "<ListBucketResult><EncodingType>url</EncodingType>"
            + Self.entry.replacing("a%2Fb", with: key) + Self.entry + "</ListBucketResult>"
        let page = try S3XMLListing.read(Array(text.utf8))
        #expect(page.undecoded == [Array(key.utf8)])
        #expect(page.objects.map(\.key) == [Array("a/b".utf8)])
    }

    @Test func `every truncation of a listing is refused`() {
        let whole = Array("<ListBucketResult>\(Self.entry)</ListBucketResult>".utf8)
        for count in 0..<whole.count {
            #expect(throws: CloudFSError.self) {
                try S3XMLListing.read(Array(whole[..<count]))
            }
        }
    }

    @Test func `document types and entities are refused`() {
        refuses(
            """
            <!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
            <ListBucketResult>&b;&b;&b;&b;</ListBucketResult>
            """
        )
        refuses(#"<!DOCTYPE a SYSTEM "file:///etc/passwd"><ListBucketResult/>"#)
    }

    @Test func `deep and long documents are refused`() {
        refuses(
            String(repeating: "<a>", count: 100_000) + String(repeating: "</a>", count: 100_000)
        )
        refuses(
            "<ListBucketResult>" + String(repeating: " ", count: S3XML.maximumByteCount)
                + "</ListBucketResult>"
        )
    }

    @Test func `an encoding that the document names does not count`() {
        var bytes = Array("<?xml version='1.0' encoding='ISO-8859-1'?><ListBucketResult>".utf8)
        bytes += [0xe9]
        bytes += "</ListBucketResult>".utf8
        #expect(throws: CloudFSError.self) { try S3XMLListing.read(bytes) }
    }

    @Test func `random damage never does more than fail`() {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var state = seed | 1
        func next() -> UInt64 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return state
        }
        let whole = Array("<ListBucketResult>\(Self.entry)</ListBucketResult>".utf8)
        for _ in 0..<20_000 {
            var bytes = whole
            for _ in 0...next() % 4 {
                bytes[Int(next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: next())
            }
            do throws(CloudFSError) {
                _ = try S3XMLListing.read(bytes)
            } catch {
                #expect(error.code == .corrupt, "seed \(seed)")
            }
        }
    }

    @Test func `fields and records are kept apart`() throws {
        let document = try S3XMLFields.read(
            Array(
                """
                <ListPartsResult><Key>k</Key><Part><PartNumber>1</PartNumber><Size>5</Size></Part>\
                <Part><PartNumber>2</PartNumber></Part><IsTruncated>false</IsTruncated>\
                </ListPartsResult>
                """.utf8
            ),
            roots: ["ListPartsResult"]
        )
        #expect(document.fields == ["Key": "k", "IsTruncated": "false"])
        #expect(
            document.records.map(\.fields) == [
                ["PartNumber": "1", "Size": "5"], ["PartNumber": "2"],
            ]
        )
    }
}

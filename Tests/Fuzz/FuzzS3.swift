// The parsers of what S3 servers send, under libFuzzer; scripts/fuzz compiles this with them.

/// Gives one input to the parser that its first byte chooses.
///
/// A parser may refuse an input or take it, but whatever it takes must keep its promises.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzS3(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    guard let choice = input.first else { return 0 }
    let bytes = Array(input.dropFirst())
    let text = String(decoding: bytes, as: UTF8.self)
    switch choice % 8 {
    case 0: fuzzListing(bytes)
    case 1: fuzzFields(bytes)
    case 2: fuzzRefusal(bytes, text)
    case 3:
        if let range = S3ContentRange.parse(text) {
            precondition(range.span.lowerBound >= 0 && range.span.upperBound <= range.total)
            precondition(!range.span.isEmpty)
        }
    case 4:
        _ = S3Time.http(text)
        _ = S3Time.iso8601(bytes)
    case 5:
        let tag = S3EntityTag.unquoted(bytes)
        precondition(S3EntityTag.unquoted(S3EntityTag.quoted(tag).utf8) == tag)
        precondition(S3Number.parse(bytes) ?? 0 >= 0)
    case 6:
        if let decoded = URIEncoding.decode(bytes, plusIsSpace: true) {
            let again = URIEncoding.encode(decoded, keepingSlash: false)
            precondition(URIEncoding.decode(again.utf8) == decoded)
        }
    default: fuzzEndpoint(text)
    }
    return 0
}

private func fuzzListing(_ bytes: [UInt8]) {
    do throws(CloudFSError) {
        let page = try S3XMLListing.read(bytes)
        precondition(page.objects.allSatisfy { !$0.key.isEmpty && $0.size >= 0 })
        precondition(page.prefixes.allSatisfy { !$0.isEmpty })
        precondition(page.next != "")
    } catch {
        precondition(error.code == .corrupt)
    }
}

private func fuzzFields(_ bytes: [UInt8]) {
    do throws(CloudFSError) {
        let document = try S3XMLFields.read(bytes, roots: [])
        precondition(!document.root.isEmpty)
    } catch {
        precondition(error.code == .corrupt)
    }
}

private func fuzzRefusal(_ bytes: [UInt8], _ text: String) {
    let endpoint = S3Endpoint(
        scheme: .https,
        host: "host",
        port: 443,
        bucket: "bucket",
        region: "region",
        style: .path
    )
    let refusal = S3Refusal(
        status: Int(bytes.first ?? 0) * 3,
        headers: [(name: "Retry-After", value: text), (name: "Location", value: text)],
        document: bytes
    )
    let question = S3Question(endpoint: endpoint, method: "GET", key: bytes)
    let error = S3ErrorMapping.error(for: refusal, to: question)
    precondition(error.message.unicodeScalars.allSatisfy { $0.value >= 0x20 })
}

private func fuzzEndpoint(_ text: String) {
    do throws(CloudFSError) {
        let endpoint = try S3Endpoint.parse(url: text, bucket: "bucket", region: "region")
        precondition((1...65_535).contains(endpoint.port) && !endpoint.host.isEmpty)
    } catch {
        precondition(error.code == .invalidArgument)
    }
}

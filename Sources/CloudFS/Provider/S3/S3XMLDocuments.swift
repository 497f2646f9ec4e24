/// A small document: the fields below its root, and those of its records one level further down.
final class S3XMLFields: S3XMLVisitor {
    /// An element with fields of its own, such as a `Part`.
    struct Record {
        var name: String
        var fields: [String: String]
    }

    private(set) var root = ""
    private(set) var fields: [String: String] = [:]
    private(set) var records: [Record] = []
    private var recordFields: [String: String] = [:]

    /// Reads a document whose root is one of `roots`; of any name if there are none.
    static func read(_ bytes: [UInt8], roots: [String]) throws(CloudFSError) -> S3XMLFields {
        let document = S3XMLFields()
        try S3XML.read(bytes, into: document)
        guard roots.isEmpty || roots.contains(document.root) else {
            throw S3XML.failure("it is a \(S3ErrorMapping.shown(document.root))")
        }
        return document
    }

    /// More than any answer has.
    private static let mostRecords = 10_000
    private static let mostFields = 100

    override func open(_ name: S3XMLName, depth: Int) {
        switch depth {
        case 1: root = name.text
        case 2: recordFields.removeAll(keepingCapacity: true)
        default: break
        }
    }

    override func close(_ name: S3XMLName, depth: Int, text: [UInt8]) -> String? {
        switch depth {
        case 3:
            recordFields[name.text] = String(decoding: text, as: UTF8.self)
            if recordFields.count > Self.mostFields { return "it has too many fields" }
        case 2 where recordFields.isEmpty:
            fields[name.text] = String(decoding: text, as: UTF8.self)
            if fields.count > Self.mostFields { return "it has too many fields" }
        case 2:
            records.append(Record(name: name.text, fields: recordFields))
            if records.count > Self.mostRecords { return "it has too many records" }
        default: break
        }
        return nil
    }
}

/// A page of `ListObjectsV2`.
final class S3XMLListing: S3XMLVisitor {
    private var objects: [S3Object] = []
    private var prefixes: [[UInt8]] = []
    private var next: String?
    private var isTruncated = false
    private var isEncoded = false
    private var isListing = false

    private var key: [UInt8]?
    private var size: Int64?
    private var tag = ""
    private var modified: Timestamp?
    private var isObject = false

    /// Reads a page.
    ///
    /// - Throws: `corrupt` for anything but a listing whose entries are whole.
    static func read(_ bytes: [UInt8]) throws(CloudFSError) -> S3ListPage {
        let listing = S3XMLListing()
        listing.objects.reserveCapacity(1_000)
        try S3XML.read(bytes, into: listing)
        return try listing.page()
    }

    override func open(_ name: S3XMLName, depth: Int) {
        if depth == 1 { isListing = name == "ListBucketResult" }
        guard depth == 2 else { return }
        isObject = name == "Contents"
        key = nil
        size = nil
        tag = ""
        modified = nil
    }

    override func close(_ name: S3XMLName, depth: Int, text: [UInt8]) -> String? {
        switch depth {
        case 3 where isObject:
            return closeField(name, text)
        case 3:
            if name == "Prefix" { key = text }
            return nil
        case 2:
            return closeEntry(name, text)
        default:
            return nil
        }
    }

    private func closeField(_ name: S3XMLName, _ text: [UInt8]) -> String? {
        if name == "Key" {
            key = text
        } else if name == "ETag" {
            tag = S3EntityTag.unquoted(text)
        } else if name == "Size" {
            size = S3Number.parse(text)
            if size == nil { return "an object's size is no number" }
        } else if name == "LastModified" {
            modified = S3Time.iso8601(text)
            if modified == nil { return "an object's date is none" }
        }
        return nil
    }

    private func closeEntry(_ name: S3XMLName, _ text: [UInt8]) -> String? {
        if name == "Contents" {
            guard let key, let size, let modified, !key.isEmpty else {
                return "an object has no key, size or date"
            }
            objects.append(S3Object(key: key, size: size, entityTag: tag, lastModified: modified))
        } else if name == "CommonPrefixes" {
            guard let key, !key.isEmpty else { return "a folder has no name" }
            prefixes.append(key)
        } else if name == "IsTruncated" {
            isTruncated = text.elementsEqual("true".utf8)
        } else if name == "NextContinuationToken" {
            next = String(decoding: text, as: UTF8.self)
        } else if name == "EncodingType" {
            isEncoded = text.elementsEqual("url".utf8)
        }
        return nil
    }

    private func page() throws(CloudFSError) -> S3ListPage {
        guard isListing else { throw S3XML.failure("it is no listing") }
        if isTruncated, next?.isEmpty ?? true {
            throw S3XML.failure("it is a part of a listing that cannot be continued")
        }
        // Whether names are encoded may be said only after them.
        var undecoded: [[UInt8]] = []
        if isEncoded {
            objects = objects.compactMap { object in
                var object = object
                guard let key = Self.rightlyDecoded(object.key) else {
                    undecoded.append(object.key)
                    return nil
                }
                object.key = key
                return object
            }
            prefixes = prefixes.compactMap { prefix in
                guard let key = Self.rightlyDecoded(prefix) else {
                    undecoded.append(prefix)
                    return nil
                }
                return key
            }
        }
        return S3ListPage(
            objects: objects,
            prefixes: prefixes,
            undecoded: undecoded,
            next: isTruncated ? next : nil
        )
    }

    static func decoded(_ name: [UInt8]) throws(CloudFSError) -> [UInt8] {
        guard let decoded = rightlyDecoded(name) else {
            throw S3XML.failure("a key is not encoded rightly")
        }
        return decoded
    }

    private static func rightlyDecoded(_ name: [UInt8]) -> [UInt8]? {
        // Most names hold nothing that had to be encoded.
        guard name.contains(where: { $0 == UInt8(ascii: "%") || $0 == UInt8(ascii: "+") }) else {
            return name
        }
        return URIEncoding.decode(name, plusIsSpace: true)
    }
}

/// Entity tags as they are compared: without quotes and without the mark of weak ones.
enum S3EntityTag {
    static func unquoted(_ text: some Collection<UInt8>) -> String {
        var rest = text[...]
        if rest.starts(with: "W/\"".utf8) { rest = rest.dropFirst(2) }
        let quote = UInt8(ascii: "\"")
        if rest.first == quote { rest = rest.dropFirst() }
        var bytes = Array(rest)
        if bytes.last == quote { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func quoted(_ tag: String) -> String { "\"\(tag)\"" }
}

/// Numbers in documents and headers: digits only, no sign, no overflow.
enum S3Number {
    static func parse(_ text: some Sequence<UInt8>) -> Int64? {
        var number: Int64?
        for byte in text {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            let (product, isTooLarge) = (number ?? 0).multipliedReportingOverflow(by: 10)
            let (sum, isTooLargeToo) = product.addingReportingOverflow(
                Int64(byte - UInt8(ascii: "0"))
            )
            guard !isTooLarge, !isTooLargeToo else { return nil }
            number = sum
        }
        return number
    }
}

import CloudFS

/// What a listing is asked for.
private struct FakeS3ListQuery {
    /// Where a listing goes on.
    enum Place {
        case start
        case after(FakeS3Key)
        case afterPrefix(FakeS3Key)
    }

    let isVersion2: Bool
    let prefix: FakeS3Key
    let delimiter: [UInt8]
    let place: Place
    let limit: Int
    let encodesKeys: Bool

    init(_ request: FakeS3Request, maximum: Int) throws(FakeS3Failure) {
        isVersion2 = request.parameter("list-type") == "2"
        prefix = FakeS3Key(request.parameterBytes("prefix") ?? [])
        delimiter = request.parameterBytes("delimiter") ?? []
        encodesKeys = request.parameter("encoding-type") == "url"
        let asked = request.parameter("max-keys").map { Int($0) ?? -1 } ?? maximum
        guard asked >= 0 else { throw .invalidArgument("max-keys is no number") }
        limit = min(asked, maximum)
        if isVersion2, let token = request.parameter("continuation-token") {
            guard let place = Self.place(token) else {
                throw .invalidArgument("The continuation token provided is incorrect")
            }
            self.place = place
        } else if let after = request.parameterBytes(isVersion2 ? "start-after" : "marker"),
            !after.isEmpty
        {
            let key = FakeS3Key(after)
            let isPrefix =
                !isVersion2 && key.hasPrefix(prefix)
                && key.commonPrefix(after: prefix.bytes.count, delimiter: delimiter) == key
            place = isPrefix ? .afterPrefix(key) : .after(key)
        } else {
            place = .start
        }
    }

    static func token(_ place: Place) -> String {
        switch place {
        case .start: "s"
        case .after(let key): "k" + FakeS3Encoding.hex(key.bytes)
        case .afterPrefix(let key): "p" + FakeS3Encoding.hex(key.bytes)
        }
    }

    private static func place(_ token: String) -> Place? {
        guard let bytes = FakeS3Encoding.unhex(token.dropFirst()) else { return nil }
        switch token.first {
        case "s": return .start
        case "k": return .after(FakeS3Key(bytes))
        case "p": return .afterPrefix(FakeS3Key(bytes))
        default: return nil
        }
    }

    /// The least key that may be listed; `nil` if there can be none.
    var firstKey: FakeS3Key? {
        switch place {
        case .start: prefix
        case .after(let key): max(prefix, FakeS3Key(key.bytes + [0]))
        case .afterPrefix(let key): key.successorOfPrefix.map { max(prefix, $0) }
        }
    }
}

/// What one page of a listing holds.
private struct FakeS3ListPage {
    var entries: [FakeS3Bucket.Entry] = []
    var prefixes: [FakeS3Key] = []
    /// The end of what was listed, and whether there is more behind it.
    var last = FakeS3ListQuery.Place.start
    var isTruncated = false

    init(_ query: FakeS3ListQuery, of bucket: FakeS3Bucket) {
        guard query.limit > 0, let first = query.firstKey else { return }
        var cursor = FakeS3Bucket.Cursor(at: first, in: bucket)
        while let entry = bucket.next(&cursor), entry.key.hasPrefix(query.prefix) {
            if entries.count + prefixes.count == query.limit {
                isTruncated = true
                return
            }
            let prefix = entry.key.commonPrefix(
                after: query.prefix.bytes.count,
                delimiter: query.delimiter
            )
            guard let prefix else {
                entries.append(entry)
                last = .after(entry.key)
                continue
            }
            prefixes.append(prefix)
            last = .afterPrefix(prefix)
            guard let next = prefix.successorOfPrefix else { return }
            cursor = FakeS3Bucket.Cursor(at: next, in: bucket)
        }
    }
}

extension FakeS3Store {
    func list(
        _ request: FakeS3Request,
        in bucket: FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let query = try FakeS3ListQuery(request, maximum: settings.maximumPage)
        var page = FakeS3ListPage(query, of: bucket)
        var token = FakeS3ListQuery.token(page.last)
        if isIgnoring.contains(.progress) {
            // The same page again, behind the same token.
            page = FakeS3ListPage(query, of: bucket)
            page.isTruncated = true
            token = request.parameter("continuation-token") ?? "s"
        }
        if isIgnoring.contains(.end) {
            page.entries = []
            page.prefixes = []
            page.isTruncated = true
            token = "k" + FakeS3Encoding.hex(Array("\(request.number)".utf8))
        }
        var document = FakeS3XML()
        document.open("ListBucketResult")
        describe(query, request, page, token, in: &document)
        append(page.entries, query, to: &document)
        for prefix in page.prefixes {
            document.raw("<CommonPrefixes><Prefix>")
            document.raw(encoded(prefix.bytes, query))
            document.raw("</Prefix></CommonPrefixes>")
        }
        document.close("ListBucketResult")
        return FakeS3Answer(document: document)
    }

    private func describe(
        _ query: FakeS3ListQuery,
        _ request: FakeS3Request,
        _ page: FakeS3ListPage,
        _ token: String,
        in document: inout FakeS3XML
    ) {
        func element(_ name: String, _ bytes: [UInt8]) {
            document.raw("<\(name)>\(encoded(bytes, query))</\(name)>")
        }
        document.element("Name", request.bucket)
        element("Prefix", query.prefix.bytes)
        if !query.delimiter.isEmpty { element("Delimiter", query.delimiter) }
        document.element("MaxKeys", "\(query.limit)")
        if query.encodesKeys { document.element("EncodingType", "url") }
        document.element("IsTruncated", page.isTruncated ? "true" : "false")
        guard query.isVersion2 else {
            element("Marker", request.parameterBytes("marker") ?? [])
            switch page.last {
            case .after(let key), .afterPrefix(let key):
                if page.isTruncated { element("NextMarker", key.bytes) }
            case .start: break
            }
            return
        }
        document.element("KeyCount", "\(page.entries.count + page.prefixes.count)")
        if let after = request.parameterBytes("start-after") { element("StartAfter", after) }
        if let token = request.parameter("continuation-token") {
            document.element("ContinuationToken", token)
        }
        if page.isTruncated { document.element("NextContinuationToken", token) }
    }

    /// Appends the objects; a million times in some tests, hence so bare.
    private func append(
        _ entries: [FakeS3Bucket.Entry],
        _ query: FakeS3ListQuery,
        to document: inout FakeS3XML
    ) {
        var moment: Timestamp?
        var date = ""
        var xml = ""
        for entry in entries {
            if entry.lastModified != moment {
                moment = entry.lastModified
                date = FakeS3Time.iso(entry.lastModified)
            }
            xml += "<Contents><Key>"
            xml += encoded(entry.key.bytes, query)
            xml += "</Key><LastModified>"
            xml += date
            xml += "</LastModified><ETag>&quot;"
            xml += entry.entityTag
            xml += "&quot;</ETag><Size>"
            xml += String(entry.byteCount)
            xml += "</Size><StorageClass>STANDARD</StorageClass></Contents>"
        }
        document.raw(xml)
    }

    private func encoded(_ bytes: [UInt8], _ query: FakeS3ListQuery) -> String {
        if query.encodesKeys {
            return FakeS3Encoding.encoded(bytes, spaceAsPlus: settings.encodesSpaceAsPlus)
        }
        return FakeS3XML.escaped(String(decoding: bytes, as: UTF8.self))
    }
}

import CloudFS
import NIOCore

extension FakeS3Store {
    func get(
        _ request: FakeS3Request,
        in bucket: FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        guard let object = bucket[request.key] else { throw FakeS3Failure.noSuchKey }
        if !isIgnoring.contains(.conditions) { try checkRead(request, of: object) }
        var answer = FakeS3Answer()
        answer.headers = object.headers
        answer.set("ETag", "\"\(object.entityTag)\"")
        answer.set("Last-Modified", FakeS3Time.http(object.lastModified))
        answer.set("Accept-Ranges", "bytes")
        answer.content = object.content
        let byteCount = object.content.byteCount
        guard !isIgnoring.contains(.range), let header = request.header("range"),
            let asked = Self.range(header, of: byteCount)
        else { return answer }
        guard !asked.isEmpty else {
            var failure = FakeS3Failure(
                416,
                "InvalidRange",
                "The requested range is not satisfiable"
            )
            failure.headers = [("Content-Range", "bytes */\(byteCount)")]
            throw failure
        }
        answer.status = 206
        answer.range = asked
        answer.set(
            "Content-Range",
            "bytes \(asked.lowerBound)-\(asked.upperBound - 1)/\(byteCount)"
        )
        return answer
    }

    mutating func put(
        _ request: FakeS3Request,
        _ body: ByteBuffer,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        try checkWrite(
            request,
            of: bucket[request.key],
            ifMatch: settings.ifMatchOnPut,
            ifNoneMatch: settings.ifNoneMatchOnPut
        )
        let object = FakeS3StoredObject(
            content: .bytes(body),
            entityTag: FakeS3Encoding.hex(FakeS3Digest.md5(body)),
            lastModified: now,
            headers: try kept(request)
        )
        bucket[request.key] = object
        guard settings.tellsEntityTagOfUploads else { return FakeS3Answer() }
        return FakeS3Answer(headers: [("ETag", "\"\(object.entityTag)\"")])
    }

    mutating func delete(
        _ request: FakeS3Request,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        try checkWrite(
            request,
            of: bucket[request.key],
            ifMatch: settings.conditionsOnDelete,
            ifNoneMatch: .ignored
        )
        bucket[request.key] = nil
        return FakeS3Answer(status: 204)
    }

    mutating func deleteBatch(
        _ request: FakeS3Request,
        _ body: ByteBuffer,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let hasDigest = request.headers.contains { header in
            let name = header.name.lowercased()
            return name == "content-md5" || name.hasPrefix("x-amz-checksum-")
        }
        guard hasDigest else {
            throw FakeS3Failure(400, "InvalidRequest", "Missing required header: Content-MD5")
        }
        let text = String(buffer: body)
        let keys = FakeS3XML.elements("Object", in: text[...]).map { object in
            FakeS3XML.unescaped(FakeS3XML.elements("Key", in: object).first ?? "")
        }
        guard !keys.isEmpty, keys.count <= 1_000 else {
            throw FakeS3Failure(400, "MalformedXML", "Between 1 and 1,000 keys are allowed.")
        }
        let isQuiet = FakeS3XML.elements("Quiet", in: text[...]).first == "true"
        var document = FakeS3XML()
        document.open("DeleteResult")
        for key in keys {
            bucket[FakeS3Key(key)] = nil
            if isQuiet { continue }
            document.open("Deleted")
            document.element("Key", key)
            document.close("Deleted")
        }
        document.close("DeleteResult")
        return FakeS3Answer(document: document)
    }

    mutating func copy(
        _ request: FakeS3Request,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let source = try copySource(request, in: bucket)
        try checkWrite(
            request,
            of: bucket[request.key],
            ifMatch: settings.conditionsOnCopy,
            ifNoneMatch: settings.conditionsOnCopy
        )
        var object = source.object
        let replaces = request.header("x-amz-metadata-directive")?.uppercased() == "REPLACE"
        if replaces {
            object.headers = try kept(request)
        } else if source.bucket == request.bucket, source.key == request.key {
            throw FakeS3Failure(
                400,
                "InvalidRequest",
                "This copy request is illegal because it is trying to copy an object to itself."
            )
        }
        object.lastModified = now
        if object.entityTag.contains("-"), case .bytes(let buffer) = object.content {
            object.entityTag = FakeS3Encoding.hex(FakeS3Digest.md5(buffer))
        }
        bucket[request.key] = object
        return copyAnswer("CopyObjectResult", object.entityTag, object.lastModified)
    }

    func copyAnswer(_ name: String, _ tag: String, _ modified: Timestamp) -> FakeS3Answer {
        var document = FakeS3XML()
        document.open(name)
        document.element("ETag", settings.quotesEntityTagOfCopies ? "\"\(tag)\"" : tag)
        document.element("LastModified", FakeS3Time.iso(modified))
        document.close(name)
        return FakeS3Answer(document: document)
    }

    /// The object that `x-amz-copy-source` names, if it is as the conditions on it want it.
    func copySource(
        _ request: FakeS3Request,
        in own: FakeS3Bucket
    ) throws(FakeS3Failure) -> (bucket: String, key: FakeS3Key, object: FakeS3StoredObject) {
        let header = (request.header("x-amz-copy-source") ?? "").prefix { $0 != "?" }
        guard let path = FakeS3Encoding.decoded(header) else {
            throw .invalidArgument("Invalid copy source encoding.")
        }
        let slash = UInt8(ascii: "/")
        let relative = path.first == slash ? path.dropFirst() : path[...]
        let name = String(decoding: relative.prefix { $0 != slash }, as: UTF8.self)
        let key = FakeS3Key(Array(relative.drop { $0 != slash }.dropFirst()))
        guard let bucket = self.bucket(name, besides: own, of: request) else {
            throw FakeS3Failure(404, "NoSuchBucket", "The specified bucket does not exist")
        }
        guard let object = bucket[key] else { throw FakeS3Failure.noSuchKey }
        if settings.conditionsOnCopySource == .honoured {
            let matches = { (value: String) in Self.matches(value, object, in: .all) }
            if let tag = request.header("x-amz-copy-source-if-match"), !matches(tag) {
                throw FakeS3Failure.preconditionFailed
            }
            if let tag = request.header("x-amz-copy-source-if-none-match"), matches(tag) {
                throw FakeS3Failure.preconditionFailed
            }
        }
        return (name, key, object)
    }

    /// The headers of a request that its object keeps.
    func kept(
        _ request: FakeS3Request
    ) throws(FakeS3Failure) -> [(name: String, value: String)] {
        let names: Set = [
            "cache-control", "content-disposition", "content-encoding", "content-language",
            "content-type", "expires",
        ]
        var kept: [(name: String, value: String)] = []
        var metadataByteCount = 0
        for (name, value) in request.headers {
            let name = name.lowercased()
            if name.hasPrefix("x-amz-meta-") {
                metadataByteCount += name.utf8.count - 11 + value.utf8.count
                kept.append((name, value))
            } else if name == "content-encoding" {
                let rest = value.split(separator: ",").filter { !$0.contains("aws-chunked") }
                if !rest.isEmpty { kept.append((name, rest.joined(separator: ","))) }
            } else if names.contains(name) {
                kept.append((name, value))
            }
        }
        if metadataByteCount > settings.maximumMetadataByteCount {
            throw FakeS3Failure(400, "MetadataTooLarge", "Your metadata headers are too large.")
        }
        if !kept.contains(where: { $0.name == "content-type" }) {
            kept.append(("content-type", "binary/octet-stream"))
        }
        return kept
    }
}

// MARK: - Conditions

extension FakeS3Store {
    private func checkRead(
        _ request: FakeS3Request,
        of object: FakeS3StoredObject
    ) throws(FakeS3Failure) {
        let modified = object.lastModified.seconds
        if let value = request.header("if-match") {
            guard Self.matches(value, object, in: .all) else {
                throw FakeS3Failure.preconditionFailed
            }
        } else if let moment = request.header("if-unmodified-since")
            .flatMap({ FakeS3Time.parsedHTTP($0) }), modified > moment
        {
            throw FakeS3Failure.preconditionFailed
        }
        let notModified = FakeS3Failure(304, "NotModified")
        if let value = request.header("if-none-match") {
            if Self.matches(value, object, in: .all) { throw notModified }
        } else if let moment = request.header("if-modified-since")
            .flatMap({ FakeS3Time.parsedHTTP($0) }), modified <= moment
        {
            throw notModified
        }
    }

    func checkWrite(
        _ request: FakeS3Request,
        of object: FakeS3StoredObject?,
        ifMatch: FakeS3Settings.Conditions,
        ifNoneMatch: FakeS3Settings.Conditions
    ) throws(FakeS3Failure) {
        if isIgnoring.contains(.conditions) { return }
        if let value = request.header("if-match"), ifMatch != .ignored {
            if ifMatch == .refused { throw FakeS3Failure.notImplemented }
            guard let object else { throw FakeS3Failure.noSuchKey }
            guard Self.matches(value, object, in: settings.ifMatchForms) else {
                throw FakeS3Failure.preconditionFailed
            }
        }
        if let value = request.header("if-none-match"), ifNoneMatch != .ignored {
            if ifNoneMatch == .refused { throw FakeS3Failure.notImplemented }
            if value == "*" {
                if object != nil { throw FakeS3Failure.preconditionFailed }
                return
            }
            switch settings.ifNoneMatchTagsOnPut {
            case .refused: throw FakeS3Failure.notImplemented
            case .ignored: return
            case .honoured:
                if let object, Self.matches(value, object, in: .all) {
                    throw FakeS3Failure.preconditionFailed
                }
            }
        }
    }

    static func matches(
        _ value: String,
        _ object: FakeS3StoredObject,
        in forms: FakeS3Settings.EntityTagForms
    ) -> Bool {
        value.split(separator: ",").contains { item in
            let item = String(item.drop { $0 == " " })
            if item == "*" { return true }
            return forms.contains(.quoted) && item == "\"\(object.entityTag)\""
                || forms.contains(.unquoted) && item == object.entityTag
        }
    }

    /// `nil` for a header that is to be ignored; empty if the range is not in the object.
    static func range(_ header: String, of byteCount: Int64) -> Range<Int64>? {
        guard header.hasPrefix("bytes="), !header.contains(",") else { return nil }
        let ends = header.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2 else { return nil }
        if ends[0].isEmpty {
            guard let count = Int64(ends[1]) else { return nil }
            return max(byteCount - count, 0)..<byteCount
        }
        guard let first = Int64(ends[0]) else { return nil }
        guard first < byteCount else { return byteCount..<byteCount }
        if ends[1].isEmpty { return first..<byteCount }
        guard let last = Int64(ends[1]), last >= first else { return nil }
        return first..<min(last + 1, byteCount)
    }
}

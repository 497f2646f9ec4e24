import CloudFS
import NIOCore

extension FakeS3Store {
    mutating func createUpload(
        _ request: FakeS3Request,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let headers = try kept(request)
        lastUpload += 1
        // Not plain letters: an upload's name has to be encoded in an address.
        let id = "upload+\(lastUpload)/\(request.number)=="
        bucket.uploads[id] = FakeS3Upload(key: request.key, headers: headers, initiated: now)
        var document = FakeS3XML()
        document.open("InitiateMultipartUploadResult")
        document.element("Bucket", request.bucket)
        document.element("Key", request.key.text)
        document.element("UploadId", id)
        document.close("InitiateMultipartUploadResult")
        return FakeS3Answer(document: document)
    }

    mutating func uploadPart(
        _ request: FakeS3Request,
        _ body: ByteBuffer,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let part = FakeS3Upload.Part(
            content: .bytes(body),
            entityTag: FakeS3Encoding.hex(FakeS3Digest.md5(body)),
            lastModified: now
        )
        try keep(part, request, in: &bucket)
        return FakeS3Answer(headers: [("ETag", "\"\(part.entityTag)\"")])
    }

    mutating func copyPart(
        _ request: FakeS3Request,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let source = try copySource(request, in: bucket).object.content
        var range = 0..<source.byteCount
        if let header = request.header("x-amz-copy-source-range") {
            guard let asked = Self.range(header, of: source.byteCount), !asked.isEmpty,
                header.hasSuffix("-\(asked.upperBound - 1)")
            else { throw .invalidArgument("The copy source range is not within the object.") }
            range = asked
        }
        let bytes = source.piece(range)
        let part = FakeS3Upload.Part(
            content: .bytes(bytes),
            entityTag: FakeS3Encoding.hex(FakeS3Digest.md5(bytes)),
            lastModified: now
        )
        try keep(part, request, in: &bucket)
        return copyAnswer("CopyPartResult", part.entityTag, part.lastModified)
    }

    private func keep(
        _ part: FakeS3Upload.Part,
        _ request: FakeS3Request,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) {
        let (id, _) = try upload(request, in: bucket)
        guard let number = request.parameter("partNumber").flatMap({ Int($0) }),
            (1...10_000).contains(number)
        else { throw .invalidArgument("Part number must be an integer between 1 and 10000") }
        bucket.uploads[id]?.parts[number] = part
    }

    private func upload(
        _ request: FakeS3Request,
        in bucket: FakeS3Bucket
    ) throws(FakeS3Failure) -> (id: String, upload: FakeS3Upload) {
        let id = request.parameter("uploadId") ?? ""
        guard let upload = bucket.uploads[id], upload.key == request.key else {
            throw FakeS3Failure.noSuchUpload
        }
        return (id, upload)
    }

    mutating func abortUpload(
        _ request: FakeS3Request,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        bucket.uploads[try upload(request, in: bucket).id] = nil
        return FakeS3Answer(status: 204)
    }

    mutating func completeUpload(
        _ request: FakeS3Request,
        _ body: ByteBuffer,
        in bucket: inout FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let (id, upload) = try upload(request, in: bucket)
        let parts = try namedParts(String(buffer: body), of: upload)
        try checkWrite(
            request,
            of: bucket[request.key],
            ifMatch: settings.conditionsOnCompletion,
            ifNoneMatch: settings.conditionsOnCompletion
        )
        var joined = ByteBuffer()
        var digests: [UInt8] = []
        for part in parts {
            var piece = part.content.piece(0..<part.content.byteCount)
            joined.writeBuffer(&piece)
            digests += FakeS3Encoding.unhex(part.entityTag) ?? []
        }
        let tag = "\(FakeS3Encoding.hex(FakeS3Digest.md5(digests)))-\(parts.count)"
        bucket[request.key] = FakeS3StoredObject(
            content: .bytes(joined),
            entityTag: tag,
            lastModified: now,
            headers: upload.headers
        )
        bucket.uploads[id] = nil
        var document = FakeS3XML()
        document.open("CompleteMultipartUploadResult")
        document.element("Location", "/\(request.bucket)/\(request.key)")
        document.element("Bucket", request.bucket)
        document.element("Key", request.key.text)
        if settings.tellsEntityTagOfCompletions { document.element("ETag", "\"\(tag)\"") }
        document.close("CompleteMultipartUploadResult")
        return FakeS3Answer(document: document)
    }

    /// The parts that a completion names, if they are as it says and large enough.
    private func namedParts(
        _ body: String,
        of upload: FakeS3Upload
    ) throws(FakeS3Failure) -> [FakeS3Upload.Part] {
        var parts: [FakeS3Upload.Part] = []
        var lastNumber = 0
        for element in FakeS3XML.elements("Part", in: body[...]) {
            let number = FakeS3XML.elements("PartNumber", in: element).first.flatMap { Int($0) }
            let tag = FakeS3XML.elements("ETag", in: element).first.map(FakeS3XML.unescaped) ?? ""
            guard let number, let part = upload.parts[number],
                part.entityTag == tag.filter({ $0 != "\"" })
            else {
                throw FakeS3Failure(400, "InvalidPart", "A specified part could not be found.")
            }
            guard number > lastNumber else {
                throw FakeS3Failure(400, "InvalidPartOrder", "The parts were not in order.")
            }
            lastNumber = number
            parts.append(part)
        }
        guard !parts.isEmpty else {
            throw FakeS3Failure(400, "MalformedXML", "There are no parts.")
        }
        let minimum = settings.minimumPartByteCount
        guard parts.dropLast().allSatisfy({ $0.content.byteCount >= minimum }) else {
            throw FakeS3Failure(400, "EntityTooSmall", "A part is smaller than allowed.")
        }
        return parts
    }

    func listParts(
        _ request: FakeS3Request,
        in bucket: FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let (id, upload) = try upload(request, in: bucket)
        let marker = request.parameter("part-number-marker").flatMap { Int($0) } ?? 0
        let limit = min(
            request.parameter("max-parts").flatMap { Int($0) } ?? settings.maximumPage,
            settings.maximumPage
        )
        let behind = upload.parts.sorted { $0.key < $1.key }.filter { $0.key > marker }
        let page = behind.prefix(max(limit, 0))
        var document = FakeS3XML()
        document.open("ListPartsResult")
        document.element("Bucket", request.bucket)
        document.element("Key", request.key.text)
        document.element("UploadId", id)
        document.element("PartNumberMarker", "\(marker)")
        if let last = page.last { document.element("NextPartNumberMarker", "\(last.key)") }
        document.element("MaxParts", "\(limit)")
        document.element("IsTruncated", page.count < behind.count ? "true" : "false")
        for (number, part) in page {
            document.open("Part")
            document.element("PartNumber", "\(number)")
            document.element("LastModified", FakeS3Time.iso(part.lastModified))
            document.element("ETag", "\"\(part.entityTag)\"")
            document.element("Size", "\(part.content.byteCount)")
            document.close("Part")
        }
        document.close("ListPartsResult")
        return FakeS3Answer(document: document)
    }

    func listUploads(
        _ request: FakeS3Request,
        in bucket: FakeS3Bucket
    ) throws(FakeS3Failure) -> FakeS3Answer {
        let prefix = FakeS3Key(request.parameterBytes("prefix") ?? [])
        let afterKey = FakeS3Key(request.parameterBytes("key-marker") ?? [])
        let afterID = request.parameter("upload-id-marker") ?? ""
        let limit = min(
            request.parameter("max-uploads").flatMap { Int($0) } ?? settings.maximumPage,
            settings.maximumPage
        )
        let isEncoded = request.parameter("encoding-type") == "url"
        func text(_ key: FakeS3Key) -> String {
            isEncoded
                ? FakeS3Encoding.encoded(
                    key.bytes,
                    spaceAsPlus: settings.encodesSpaceAsPlus
                ) : key.text
        }
        let behind = bucket.uploads
            .filter { $0.value.key.hasPrefix(prefix) }
            .sorted { ($0.value.key, $0.key) < ($1.value.key, $1.key) }
            .filter { upload in
                upload.value.key > afterKey
                    || (upload.value.key == afterKey && !afterID.isEmpty && upload.key > afterID)
            }
        let page = behind.prefix(max(limit, 0))
        var document = FakeS3XML()
        document.open("ListMultipartUploadsResult")
        document.element("Bucket", request.bucket)
        document.element("KeyMarker", text(afterKey))
        document.element("UploadIdMarker", afterID)
        if page.count < behind.count, let last = page.last {
            document.element("NextKeyMarker", text(last.value.key))
            document.element("NextUploadIdMarker", last.key)
        }
        document.element("MaxUploads", "\(limit)")
        if isEncoded { document.element("EncodingType", "url") }
        document.element("IsTruncated", page.count < behind.count ? "true" : "false")
        for (id, upload) in page {
            document.open("Upload")
            document.element("Key", text(upload.key))
            document.element("UploadId", id)
            document.element("Initiated", FakeS3Time.iso(upload.initiated))
            document.close("Upload")
        }
        document.close("ListMultipartUploadsResult")
        return FakeS3Answer(document: document)
    }
}

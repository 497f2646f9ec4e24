extension S3Client {
    /// Begins an upload in parts.
    ///
    /// - Returns: Its id.
    func createUpload(
        _ key: [UInt8],
        metadata: [String: String] = [:],
        contentHeaders: [String: String] = [:]
    ) async throws(CloudFSError) -> String {
        try await perform { () throws(CloudFSError) in
            var call = S3Call(method: "POST", key: key)
            call.isOwn = true
            call.query.append((name: "uploads", value: nil))
            try call.describe(metadata, contentHeaders: contentHeaders)
            return call
        } consume: { answer throws(CloudFSError) in
            let document = try await self.fields(
                of: answer,
                to: S3Question(endpoint: self.endpoint, method: "POST", key: key),
                root: "InitiateMultipartUploadResult"
            )
            guard let id = document.fields["UploadId"], !id.isEmpty, id.utf8.count <= 2_048 else {
                throw S3XML.failure("it names no upload")
            }
            return id
        }
    }

    /// Uploads a part; the same number again replaces it.
    func uploadPart(
        _ key: [UInt8],
        upload: String,
        number: Int,
        body: HTTPBody
    ) async throws(CloudFSError) -> S3Part {
        try await perform {
            var call = S3Call(method: "PUT", key: key, body: body)
            call.isOwn = true
            call.ask("partNumber", String(number))
            call.ask("uploadId", upload)
            call.weight = .data(byteCount: body.byteCount)
            return call
        } consume: { answer throws(CloudFSError) in
            let written = try await S3AnswerCheck.written(answer)
            guard !written.entityTag.isEmpty else { throw S3XML.failure("the part has no tag") }
            return S3Part(number: number, size: body.byteCount, entityTag: written.entityTag)
        }
    }

    /// Makes a part of a range of another object.
    func copyPart(
        from source: [UInt8],
        sourceIfMatch: String?,
        range: Range<Int64>,
        to key: [UInt8],
        upload: String,
        number: Int
    ) async throws(CloudFSError) -> S3Part {
        let copySource = copySource(source)
        return try await perform {
            var call = S3Call(method: "PUT", key: key, weight: .serverWork)
            call.isOwn = true
            call.ask("partNumber", String(number))
            call.ask("uploadId", upload)
            call.headers.append((name: "x-amz-copy-source", value: copySource))
            call.headers.append(
                (
                    name: "x-amz-copy-source-range",
                    value: "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
                )
            )
            if let sourceIfMatch {
                call.headers.append(
                    (
                        name: "x-amz-copy-source-if-match",
                        value: S3EntityTag.quoted(sourceIfMatch)
                    )
                )
            }
            return call
        } consume: { answer throws(CloudFSError) in
            let fields = try await self.fields(
                of: answer,
                to: S3Question(endpoint: self.endpoint, method: "PUT", key: source),
                root: "CopyPartResult"
            ).fields
            let tag = S3EntityTag.unquoted((fields["ETag"] ?? "").utf8)
            guard !tag.isEmpty else { throw S3XML.failure("the part has no tag") }
            return S3Part(number: number, size: Int64(range.count), entityTag: tag)
        }
    }

    /// The parts that an upload has so far, by number.
    func listParts(
        _ key: [UInt8],
        upload: String
    ) async throws(CloudFSError) -> [S3Part] {
        var parts: [S3Part] = []
        var marker: String?
        repeat {
            let after = marker
            let document = try await perform {
                var call = S3Call(method: "GET", key: key)
                call.ask("uploadId", upload)
                if let after { call.ask("part-number-marker", after) }
                return call
            } consume: { answer throws(CloudFSError) in
                let document = try await answer.wholeBody(atMost: S3XML.maximumByteCount)
                return S3PagedFields(
                    try S3XMLFields.read(
                        document,
                        roots: ["ListPartsResult", "ListPartsResponse"]
                    ),
                    markers: ["NextPartNumberMarker"]
                )
            }
            for fields in document.records["Part"] ?? [] {
                let part = try Self.part(fields)
                // Numbers only grow, so that a listing without an end is seen.
                guard part.number > parts.last?.number ?? 0 else {
                    throw S3XML.failure("its parts are not in order")
                }
                parts.append(part)
            }
            marker = try document.next(after: after.map { [$0] })?.first
        } while marker != nil
        return parts
    }

    private static func part(_ fields: [String: String]) throws(CloudFSError) -> S3Part {
        guard let number = S3Number.parse((fields["PartNumber"] ?? "").utf8),
            let size = S3Number.parse((fields["Size"] ?? "").utf8), number <= 10_000
        else { throw S3XML.failure("a part has no number or size") }
        return S3Part(
            number: Int(number),
            size: size,
            entityTag: S3EntityTag.unquoted((fields["ETag"] ?? "").utf8)
        )
    }

    /// Makes the object of the parts.
    ///
    /// Not every server honours the condition, or permits one.
    ///
    /// When the answer is lost nobody knows whether it happened: the error then has an
    /// `HTTPFailure` as cause, or says that the upload is gone, and `head` tells.
    /// - Returns: Its tag is empty when the server does not tell.
    func completeUpload(
        _ key: [UInt8],
        upload: String,
        parts: [S3Part],
        condition: S3Condition = .none
    ) async throws(CloudFSError) -> S3Written {
        let document = Self.completionDocument(parts)
        return try await perform {
            var call = S3Call(method: "POST", key: key, body: .bytes(document))
            call.ask("uploadId", upload)
            call.headers.append((name: "content-type", value: "application/xml"))
            call.weight = .serverWork
            call.prefer(condition)
            return call
        } consume: { answer throws(CloudFSError) in
            var question = S3Question(endpoint: self.endpoint, method: "POST", key: key)
            question.isUpload = true
            question.condition = condition
            let root = "CompleteMultipartUploadResult"
            let fields = try await self.fields(of: answer, to: question, root: root).fields
            return S3Written(
                entityTag: S3EntityTag.unquoted((fields["ETag"] ?? "").utf8),
                serverDate: answer.header("date").flatMap(S3Time.http),
                versionID: S3AnswerCheck.versionID(answer)
            )
        }
    }

    private static func completionDocument(_ parts: [S3Part]) -> [UInt8] {
        var document = Array(
            #"<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">"#.utf8
        )
        for part in parts {
            document += "<Part><PartNumber>\(part.number)</PartNumber><ETag>".utf8
            document += S3XMLText.escaped(S3EntityTag.quoted(part.entityTag).utf8)
            document += "</ETag></Part>".utf8
        }
        document += "</CompleteMultipartUpload>".utf8
        return document
    }

    /// Gives an upload up; it is no error when it is gone.
    func abortUpload(_ key: [UInt8], upload: String) async throws(CloudFSError) {
        do throws(CloudFSError) {
            try await perform {
                var call = S3Call(method: "DELETE", key: key)
                call.isOwn = true
                call.ask("uploadId", upload)
                return call
            } consume: { _ in
            }
        } catch {
            guard error.cause as? S3Failure == .noSuchUpload else { throw error }
        }
    }

    /// The uploads below a prefix that were begun and not ended.
    func listUploads(prefix: [UInt8]) async throws(CloudFSError) -> [S3Upload] {
        var uploads: [S3Upload] = []
        var markers: [String]?
        repeat {
            let after = markers
            let document = try await perform { () throws(CloudFSError) in
                var call = S3Call(method: "GET")
                call.query.append((name: "uploads", value: nil))
                call.ask("encoding-type", "url")
                if !prefix.isEmpty { call.ask("prefix", prefix) }
                if let after {
                    call.ask("key-marker", try S3XMLListing.decoded(Array(after[0].utf8)))
                    call.ask("upload-id-marker", after[1])
                }
                return call
            } consume: { answer throws(CloudFSError) in
                let document = try await answer.wholeBody(atMost: S3XML.maximumByteCount)
                return S3PagedFields(
                    try S3XMLFields.read(document, roots: ["ListMultipartUploadsResult"]),
                    markers: ["NextKeyMarker", "NextUploadIdMarker"]
                )
            }
            for fields in document.records["Upload"] ?? [] {
                let upload = try Self.upload(fields, isEncoded: document.isEncoded)
                if upload.key.starts(with: prefix) { uploads.append(upload) }
            }
            markers = try document.next(after: after)
            guard uploads.count <= 100_000 else { throw S3XML.failure("the listing has no end") }
        } while markers != nil
        return uploads
    }

    private static func upload(
        _ fields: [String: String],
        isEncoded: Bool
    ) throws(CloudFSError) -> S3Upload {
        guard let key = fields["Key"], let id = fields["UploadId"], !key.isEmpty, !id.isEmpty,
            let initiated = fields["Initiated"].flatMap({ S3Time.iso8601($0.utf8) })
        else { throw S3XML.failure("an upload has no key, id or date") }
        let bytes = Array(key.utf8)
        return S3Upload(
            key: isEncoded ? try S3XMLListing.decoded(bytes) : bytes,
            id: id,
            initiated: initiated
        )
    }
}

/// One page of a listing of parts or uploads.
private struct S3PagedFields: Sendable {
    let records: [String: [[String: String]]]
    let isEncoded: Bool
    private let markers: [String]?

    init(_ document: S3XMLFields, markers names: [String]) {
        records = Dictionary(grouping: document.records, by: \.name)
            .mapValues { $0.map(\.fields) }
        isEncoded = document.fields["EncodingType"] == "url"
        let isTruncated = document.fields["IsTruncated"] == "true"
        markers = isTruncated ? names.map { document.fields[$0] ?? "" } : nil
    }

    /// Where the next page begins, which must not be where this one did.
    func next(after last: [String]?) throws(CloudFSError) -> [String]? {
        guard let markers else { return nil }
        guard markers != last, markers.contains(where: { !$0.isEmpty }), !records.isEmpty else {
            throw S3XML.failure("the listing has no end")
        }
        return markers
    }
}

/// How far a download has come, so that it can go on after a broken connection.
struct S3Download: Sendable {
    let range: Range<Int64>?
    /// The tag that all parts must have: the caller's, then the first answer's.
    var entityTag: String?
    /// Where the next byte belongs.
    var offset: Int64
    private let firstOffset: Int64

    init(range: Range<Int64>?, entityTag: String?) {
        self.range = range
        self.entityTag = entityTag
        firstOffset = range?.lowerBound ?? 0
        offset = firstOffset
    }

    /// Whether only a part of the object is asked for now.
    var isPart: Bool { range != nil || offset > 0 }

    func call(for key: [UInt8]) -> S3Call {
        var call = S3Call(method: "GET", key: key)
        if isPart {
            let last = range.map { String($0.upperBound - 1) } ?? ""
            call.headers.append((name: "range", value: "bytes=\(offset)-\(last)"))
        }
        if let entityTag, !entityTag.isEmpty {
            call.demand(.ifMatch(entityTag, quoted: true))
        }
        // Without a range nobody knows how much will come; a slow terabyte has its time too.
        let left = range.map { $0.upperBound - offset } ?? 1 << 40
        call.weight = .data(byteCount: left)
        return call
    }
}

/// Compares answers with what was asked.
enum S3AnswerCheck {
    static func head(
        of answer: HTTPAnswer,
        key: [UInt8],
        size: Int64
    ) throws(CloudFSError) -> S3ObjectHead {
        guard let modified = answer.header("last-modified").flatMap(S3Time.http) else {
            throw S3XML.failure("it has no date")
        }
        var metadata: [String: String] = [:]
        var contentHeaders: [String: String] = [:]
        for (name, value) in answer.headers {
            if S3ObjectHead.keptHeaders.contains(name) { contentHeaders[name] = value }
            // How it was sent once, which some servers take for a part of the object.
            if name == "content-encoding", value.contains("aws-chunked") {
                let rest = value.split(separator: ",").filter { !$0.contains("aws-chunked") }
                contentHeaders[name] = rest.isEmpty ? nil : rest.joined(separator: ",")
            }
            guard name.hasPrefix("x-amz-meta-") else { continue }
            metadata[String(name.dropFirst("x-amz-meta-".count))] = value
        }
        return S3ObjectHead(
            object: S3Object(
                key: key,
                size: size,
                entityTag: S3EntityTag.unquoted((answer.header("etag") ?? "").utf8),
                lastModified: modified
            ),
            userMetadata: metadata,
            contentHeaders: contentHeaders,
            versionID: versionID(answer)
        )
    }

    /// Checks the head of a download's answer.
    ///
    /// - Returns: The object, and where in it the answer must end.
    /// - Throws: `remoteChanged` for another version or a shorter object; `corrupt` for other bytes
    ///   than those asked for.
    static func part(
        of answer: HTTPAnswer,
        key: [UInt8],
        download: S3Download
    ) throws(CloudFSError) -> (head: S3ObjectHead, end: Int64) {
        let length = try contentLength(answer)
        let span: Range<Int64>
        let total: Int64
        if answer.status == 206 {
            guard download.isPart, let text = answer.header("content-range"),
                let range = S3ContentRange.parse(text)
            else { throw wrong("a part of it was not asked for, or it is not said which") }
            (span, total) = (range.span, range.total)
        } else {
            guard answer.status == 200, let length else { throw wrong("it names no length") }
            (span, total) = (0..<length, length)
        }
        let end = min(download.range?.upperBound ?? total, total)
        guard download.offset < total || !download.isPart else {
            throw changed(key, "it is shorter than expected")
        }
        guard span == download.offset..<end else {
            throw wrong("it holds other bytes than were asked for")
        }
        if let length, length != Int64(span.count) {
            throw wrong("its length is not that of its range")
        }
        let head = try head(of: answer, key: key, size: total)
        if let expected = download.entityTag, expected != head.object.entityTag {
            // Servers that ignore the condition answer with whatever is there now.
            throw changed(key)
        }
        return (head, end)
    }

    static func written(_ answer: HTTPAnswer) async throws(CloudFSError) -> S3Written {
        // Nothing is expected, but the connection is only free when all has been read.
        _ = try await answer.wholeBody(atMost: S3XML.maximumByteCount)
        return S3Written(
            entityTag: S3EntityTag.unquoted((answer.header("etag") ?? "").utf8),
            serverDate: answer.header("date").flatMap(S3Time.http),
            versionID: versionID(answer)
        )
    }

    static func versionID(_ answer: HTTPAnswer) -> String? {
        answer.header("x-amz-version-id").flatMap { $0 == "null" ? nil : $0 }
    }

    private static func contentLength(_ answer: HTTPAnswer) throws(CloudFSError) -> Int64? {
        guard let text = answer.header("content-length") else { return nil }
        guard let length = S3Number.parse(text.utf8) else { throw wrong("its length is no number") }
        return length
    }

    private static func wrong(_ reason: String) -> CloudFSError { S3XML.failure(reason) }

    static func changed(
        _ key: [UInt8],
        _ reason: String = "it has another version",
        cause: S3Failure = .conditionFailed
    ) -> CloudFSError {
        let name = S3ErrorMapping.shown(String(decoding: key, as: UTF8.self))
        return CloudFSError(
            .remoteChanged,
            "\(name) was changed in the cloud: \(reason)",
            cause: cause
        )
    }
}

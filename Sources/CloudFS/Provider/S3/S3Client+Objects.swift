import Synchronization

extension S3Client {
    /// Whether the bucket exists and may be used.
    func headBucket() async throws(CloudFSError) {
        try await perform {
            S3Call(method: "HEAD")
        } consume: { _ in
        }
    }

    func head(_ key: [UInt8]) async throws(CloudFSError) -> S3ObjectHead {
        try await perform {
            S3Call(method: "HEAD", key: key)
        } consume: { answer throws(CloudFSError) in
            guard let length = answer.header("content-length"),
                let size = S3Number.parse(length.utf8)
            else { throw S3XML.failure("it names no length") }
            return try S3AnswerCheck.head(of: answer, key: key, size: size)
        }
    }

    func headIfPresent(_ key: [UInt8]) async throws(CloudFSError) -> S3ObjectHead? {
        do throws(CloudFSError) {
            return try await head(key)
        } catch  where error.code == .notFound {
            return nil
        }
    }

    /// Downloads an object or a part of it.
    ///
    /// A download that breaks goes on where it was, of the same version only. Each byte is
    /// delivered once and in order, and `deliver` is awaited before more is read.
    ///
    /// - Parameters:
    ///   - key: The object.
    ///   - range: Which bytes, cut at the object's end; `nil`: all.
    ///   - ifMatch: The tag, without quotes, that the object must have; compared here too.
    ///   - deliver: Takes the bytes with their offset in the object.
    /// - Throws: `remoteChanged` when the object has another tag or is too short.
    func get(
        _ key: [UInt8],
        range: Range<Int64>?,
        ifMatch: String?,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece)
            async throws(CloudFSError) -> Void
    ) async throws(CloudFSError) -> S3ObjectHead {
        if let range { precondition(!range.isEmpty, "a part of an object has bytes") }
        let download = Mutex(S3Download(range: range, entityTag: ifMatch))
        return try await perform { () throws(CloudFSError) in
            download.withLock { $0.call(for: key) }
        } consume: { answer throws(CloudFSError) in
            let (head, end) = try S3AnswerCheck.part(
                of: answer,
                key: key,
                download: download.withLock { $0 }
            )
            download.withLock { $0.entityTag = head.object.entityTag }
            let isWhole = { download.withLock { $0.offset } == end }
            while let bytes = try await Self.next(of: answer, unless: isWhole) {
                let offset = download.withLock { $0.offset }
                guard offset + Int64(bytes.count) <= end else {
                    throw S3XML.failure("it is longer than announced")
                }
                try await answer.paused { () throws(CloudFSError) in
                    try await deliver(offset, bytes)
                }
                download.withLock { $0.offset += Int64(bytes.count) }
            }
            guard isWhole() else {
                throw CloudFSError(
                    .offline,
                    "an answer ended before its time",
                    cause: HTTPFailure.broken("its body is too short")
                )
            }
            return head
        }
    }

    /// The next bytes of an answer; none once all are here, whatever becomes of its connection
    /// after the last: asked for what comes then, a server says that there is nothing.
    private static func next(
        of answer: HTTPAnswer,
        unless isWhole: () -> Bool
    ) async throws(CloudFSError) -> ContentPiece? {
        do throws(CloudFSError) {
            return try await answer.next()
        } catch {
            guard isWhole() else { throw error }
            return nil
        }
    }

    /// Stores an object.
    ///
    /// - Parameters:
    ///   - condition: What must be so of what is there.
    ///   - known: What is there; it is looked at once more before an unheard request is repeated.
    ///     The tag does not tell what is written beside the bytes, nor bytes that have come back.
    ///   - isOwn: Whether nobody else writes it.
    ///   - isUrgent: Whether it must not wait for files that are sent.
    /// - Throws: `exists` or `remoteChanged` when the condition does not hold.
    func put(
        _ key: [UInt8],
        body: HTTPBody,
        metadata: [String: String] = [:],
        contentType: String? = nil,
        contentHeaders: [String: String] = [:],
        condition: S3Condition = .none,
        over known: S3ObjectHead? = nil,
        headers: [(name: String, value: String)] = [],
        isOwn: Bool = false,
        isUrgent: Bool = false
    ) async throws(CloudFSError) -> S3Written {
        try await perform { () throws(CloudFSError) in
            var call = S3Call(method: "PUT", key: key, headers: headers, body: body)
            call.weight = .data(byteCount: body.byteCount)
            call.isOwn = isOwn
            call.isUrgent = isUrgent
            call.mayKeepTag = known != nil
            call.demand(condition)
            try call.describe(metadata, contentType: contentType, contentHeaders: contentHeaders)
            return call
        } settle: { error throws(CloudFSError) in
            try await self.settle(key, body, metadata, over: known, error)
        } consume: { answer throws(CloudFSError) in
            try await S3AnswerCheck.written(answer)
        }
    }

    /// Finds out whether what is there is our own upload, which was not answered.
    ///
    /// An object of the same size with the same metadata is ours; a document's identity and time
    /// are among the metadata, and bytes that are at hand are compared by their digest. With more
    /// metadata than that it is what another device made of ours.
    private func settle(
        _ key: [UInt8],
        _ body: HTTPBody,
        _ metadata: [String: String],
        over known: S3ObjectHead?,
        _ error: CloudFSError
    ) async throws(CloudFSError) -> S3Written? {
        guard let head = try await headIfPresent(key) else { return nil }
        if let known, head.object == known.object, head.userMetadata == known.userMetadata {
            return nil
        }
        let isOurs = head.object.size == body.byteCount && head.userMetadata == metadata
        guard isOurs, try await transport.md5(of: body) == head.object.entityTag else {
            // Of what was looked at before more can be said: it is another version by now.
            throw known == nil ? error : S3AnswerCheck.changed(key, cause: .noAnswer)
        }
        return S3Written(
            entityTag: head.object.entityTag,
            serverDate: head.object.lastModified,
            versionID: head.versionID
        )
    }

    /// Deletes whatever is there; it is no error when there is nothing.
    ///
    /// - Parameter isOwn: Whether nobody else writes it.
    func delete(_ key: [UInt8], isOwn: Bool = false) async throws(CloudFSError) {
        do throws(CloudFSError) {
            try await perform {
                var call = S3Call(method: "DELETE", key: key)
                call.isOwn = isOwn
                return call
            } consume: { _ in
            }
        } catch  where error.cause as? S3Failure == .noSuchKey {
            return
        }
    }

    /// Deletes an object that was looked at just now; it is no error when there is none any more.
    ///
    /// - Parameter condition: Servers that know none here delete whatever is there.
    /// - Throws: `remoteChanged` when it is another one by now: with `noAnswer` as cause where an
    ///   earlier try was not answered, and may have deleted what was meant before the other came.
    func delete(
        _ object: S3Object,
        condition: S3Condition
    ) async throws(CloudFSError) {
        do throws(CloudFSError) {
            try await perform {
                var call = S3Call(method: "DELETE", key: object.key)
                call.prefer(condition)
                return call
            } settle: { _ throws(CloudFSError) in
                guard let head = try await self.headIfPresent(object.key) else {
                    // An answer without a document says the same of a bucket that is gone.
                    _ = try await self.list(prefix: object.key, delimiter: false, limit: 1)
                    return ()
                }
                guard head.object == object else {
                    throw S3AnswerCheck.changed(object.key, cause: .noAnswer)
                }
                return nil
            } consume: { _ in
            }
        } catch  where error.cause as? S3Failure == .noSuchKey {
            return
        }
    }

    /// Deletes an object of one's own, if a condition holds that the server may not know.
    ///
    /// - Throws: `remoteChanged` if it does not hold, as far as the server knows it.
    func delete(own key: [UInt8], condition: S3Condition) async throws(CloudFSError) {
        try await perform {
            var call = S3Call(method: "DELETE", key: key)
            call.isOwn = true
            call.demand(condition)
            return call
        } consume: { _ in
        }
    }

    /// Copies an object on the server.
    ///
    /// - Parameters:
    ///   - source: The key of the object to copy.
    ///   - sourceIfMatch: The tag, without quotes, that it must have; some servers do not ask.
    ///   - key: The copy.
    ///   - metadata: What to replace all metadata by; `nil`: the copy keeps the source's.
    ///   - contentHeaders: Only with `metadata`.
    ///   - condition: What must be so of the copy's key; one that the server honours.
    ///   - weight: How long it may take.
    ///   - settle: Looks what became of it when it was not answered.
    func copy(
        from source: [UInt8],
        sourceIfMatch: String?,
        to key: [UInt8],
        metadata: [String: String]? = nil,
        contentHeaders: [String: String] = [:],
        condition: S3Condition = .none,
        weight: S3Call.Weight = .serverWork,
        settle: Settling<S3Copied>? = nil
    ) async throws(CloudFSError) -> S3Copied {
        let copySource = copySource(source)
        return try await perform { () throws(CloudFSError) in
            var call = S3Call(method: "PUT", key: key, weight: weight)
            call.mayKeepTag = true
            call.headers.append((name: "x-amz-copy-source", value: copySource))
            if let sourceIfMatch {
                call.headers.append(
                    (
                        name: "x-amz-copy-source-if-match",
                        value: S3EntityTag.quoted(sourceIfMatch)
                    )
                )
            }
            call.demand(condition)
            if let metadata {
                call.headers.append((name: "x-amz-metadata-directive", value: "REPLACE"))
                try call.describe(metadata, contentHeaders: contentHeaders)
            }
            return call
        } settle: { error throws(CloudFSError) in
            guard let settle else { throw error }
            return try await settle(error)
        } consume: { answer throws(CloudFSError) in
            var question = S3Question(endpoint: self.endpoint, method: "PUT", key: source)
            question.condition = condition
            let root = "CopyObjectResult"
            let fields = try await self.fields(of: answer, to: question, root: root).fields
            return S3Copied(
                entityTag: S3EntityTag.unquoted((fields["ETag"] ?? "").utf8),
                lastModified: fields["LastModified"].flatMap { S3Time.iso8601($0.utf8) }
            )
        }
    }

    func copySource(_ source: [UInt8]) -> String {
        "/\(endpoint.bucket)/\(URIEncoding.encode(source, keepingSlash: true))"
    }

    /// The fields of a document that may turn out to be an error after all.
    ///
    /// A server that works long begins its answer with 200 before it knows how the work ends.
    func fields(
        of answer: HTTPAnswer,
        to question: S3Question,
        root: String
    ) async throws(CloudFSError) -> S3XMLFields {
        let document = try await answer.wholeBody(atMost: S3XML.maximumByteCount)
        // Moto names the element after the request.
        let other = root.replacing("Result", with: "Response")
        let fields = try S3XMLFields.read(document, roots: [root, other, "Error"])
        guard fields.root == "Error" else { return fields }
        let refusal = S3Refusal(status: 500, headers: [], document: document)
        throw S3ErrorMapping.error(for: refusal, to: question)
    }
}

import Crypto

/// Sending files.
///
/// An answer that is lost says nothing of what was done: whoever finds another version than the
/// one that is to be replaced looks whether it is its own work.
extension S3Provider {
    func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        let place = try await placeToChange(path)
        try Self.requireFileName(path, place)
        try await requireFolder(path.parent)
        var upload = S3FileUpload(key: place.key, path: path, source: source, base: base)
        do throws(CloudFSError) {
            upload.replaces(try await checkBeforeWriting(upload, place))
        } catch  where Self.isConflict(error) {
            guard let head = try await client.headIfPresent(place.key) else { throw error }
            if try await isOutcome(head, of: upload) {
                await letGoUpload(of: place.key)
                return try await finish(upload, head)
            }
            // What an earlier try sent before the file was changed once more.
            guard isOwnEarlierWork(head) else { throw error }
            upload.base = Self.version(of: head)
            upload.replaces(head)
        }
        upload.metadata = try Self.headers(of: source, kept: upload.metadata)
        uploads.setActive(true, place.key)
        defer { uploads.setActive(false, place.key) }
        do throws(CloudFSError) {
            let written =
                source.byteCount <= settings.partByteCount
                ? try await sendWhole(&upload) : try await sendInParts(upload)
            return try await finish(upload, written)
        } catch  where Self.isConflict(error) {
            await letGoUpload(of: place.key)
            guard let head = try await client.headIfPresent(place.key) else {
                throw error.code == .remoteChanged ? Self.notFound(path) : error
            }
            guard try await isOutcome(head, of: upload) else { throw error }
            return try await finish(upload, head)
        }
    }

    static func isConflict(_ error: CloudFSError) -> Bool {
        error.code == .remoteChanged || error.code == .exists
    }

    private static func headers(
        of source: UploadSource,
        kept: [String: String]
    ) throws(CloudFSError) -> [String: String] {
        try S3Metadata.headers(
            source.metadata,
            kind: .file,
            documentID: source.documentID,
            attributes: source.attributes,
            kept: kept
        )
    }

    /// The item that was made of an upload, whatever another device did since.
    private func finish(
        _ upload: S3FileUpload,
        _ written: S3Written
    ) async throws(CloudFSError) -> RemoteItem {
        if let told = told(by: written, of: upload) { return try await finish(upload, told) }
        let tag = written.entityTag.lowercased()
        var head: S3ObjectHead?
        do throws(CloudFSError) {
            head = try await client.headIfPresent(upload.key)
        } catch {
            noteUnheard(upload, tag: tag.isEmpty ? nil : tag)
            throw error
        }
        if let head, head.userMetadata == upload.metadata,
            head.object.size == upload.source.byteCount,
            written.entityTag.isEmpty || written.entityTag == head.object.entityTag
        {
            return try await finish(upload, head)
        }
        guard isOf(upload, written) else {
            noteUnheard(upload, tag: upload.digest)
            throw S3XML.failure("it does not tell that \"\(upload.path)\" was stored")
        }
        guard var head else { throw Self.notFound(upload.path) }
        // Replaced already: the version we made is told, so that the other one is seen as new.
        head.object.entityTag = written.entityTag.isEmpty ? "replaced" : written.entityTag
        head.object.size = upload.source.byteCount
        head.userMetadata = upload.metadata
        return try await finish(upload, head)
    }

    /// Whether an answer can be the server's, as far as its tag tells.
    ///
    /// A network that wants to be logged in to answers for every server that has no certificate.
    private func isOf(_ upload: S3FileUpload, _ written: S3Written) -> Bool {
        guard rules.tagsAreDigests, let digest = upload.digest else { return true }
        return written.entityTag.lowercased() == digest
    }

    /// What the answer to an upload tells of the object; `nil` if it must be looked at.
    ///
    /// A server's date may be a second after that of the object: a listing then shows a version
    /// that has to be looked at, and is the same.
    private func told(by written: S3Written, of upload: S3FileUpload) -> S3ObjectHead? {
        guard !written.entityTag.isEmpty, isOf(upload, written), let date = written.serverDate
        else { return nil }
        let object = S3Object(
            key: upload.key,
            size: upload.source.byteCount,
            entityTag: written.entityTag,
            lastModified: date
        )
        return S3ObjectHead(object: object, userMetadata: upload.metadata)
    }

    private func finish(
        _ upload: S3FileUpload,
        _ head: S3ObjectHead
    ) async throws(CloudFSError) -> RemoteItem {
        guard let name = upload.path.name else { throw Self.notFound(upload.path) }
        let item = try await describe(head, as: name)
        forgetUnheard(upload.key)
        // What came in the place of the same bytes within a second, no listing tells.
        let isNew = upload.base == nil
        await journal.announce([isNew ? .children(of: upload.path.parent) : .item(upload.path)])
        return item
    }

    /// Looks at what is there, as far as the server does not do it in the request itself.
    ///
    /// - Returns: The object that will be replaced.
    private func checkBeforeWriting(
        _ upload: S3FileUpload,
        _ place: Place
    ) async throws(CloudFSError) -> S3ObjectHead? {
        if let base = upload.base { return try await meantFile(place, base, upload.path) }
        let parent = try await self.place(upload.path.parent).folderKey
        var mayBeTaken = knowsFolder(place.folderKey)
        if !mayBeTaken {
            mayBeTaken = try await !folderLooks.isFree(place.folderKey, in: parent)
        }
        if mayBeTaken, try await folder(place, as: ItemName("folder")) != nil {
            throw CloudFSError(.exists, "\"\(upload.path)\" is a folder in the bucket")
        }
        // A large file is not sent to be refused, or to find that it was there already.
        let isLarge = upload.source.byteCount > settings.partByteCount
        let looks = !rules.create || isLarge || hasUnheard(place.key)
        if looks, try await exists(place.key) {
            throw CloudFSError(.exists, "\"\(upload.path)\" is in the bucket already")
        }
        return nil
    }

    /// Sends a file in one request.
    ///
    /// It is read while it is sent: of many that wait for their turn nothing is in memory.
    private func sendWhole(_ upload: inout S3FileUpload) async throws(CloudFSError) -> S3Written {
        let (source, path) = (upload.source, upload.path)
        try Self.requireUnchanged(source, path)
        let witness = HTTPWitness(byteCount: source.byteCount) { () throws(CloudFSError) in
            try Self.requireUnchanged(source, path)
        }
        let body = HTTPBody.file(
            descriptor: source.descriptor,
            offset: 0,
            byteCount: source.byteCount,
            willSend: source.willSend,
            didSend: source.didSend,
            witness: witness
        )
        let written: S3Written
        do throws(CloudFSError) {
            written = try await client.put(
                upload.key,
                body: body,
                metadata: upload.metadata,
                contentHeaders: upload.contentHeaders,
                condition: rules.condition(replacing: upload.base.map(Self.entityTag)),
                over: upload.replaced
            )
        } catch {
            // What was never sent to its end made nothing.
            if !Self.isConflict(error), let md5 = witness.md5 { noteUnheard(upload, tag: md5) }
            throw error
        }
        source.didSend(source.byteCount)
        upload.digest = witness.md5
        return written
    }

    private static func requireUnchanged(
        _ source: UploadSource,
        _ path: RemotePath
    ) throws(CloudFSError) {
        guard source.isUnchanged() else { throw changedWhileSent(path) }
    }

    static func changedWhileSent(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.cancelled, "\"\(path)\" was changed while it was sent")
    }

    // MARK: - Lost answers

    /// Whether an object is what this upload makes: an earlier try made it, and was not answered.
    ///
    /// Size and metadata must agree, the document's identity and time among them; so must the
    /// bytes, as far as the server's tags tell. Where they do not, another tag than that of the
    /// replaced version says at least that something was written.
    func isOutcome(
        _ head: S3ObjectHead,
        of upload: S3FileUpload
    ) async throws(CloudFSError) -> Bool {
        let tag = head.object.entityTag.lowercased()
        guard head.object.size == upload.source.byteCount,
            try Self.headers(of: upload.source, kept: head.userMetadata) == head.userMetadata
        else { return false }
        if rules.tagsAreDigests, let own = try await self.tag(of: upload, like: tag) {
            guard upload.source.isUnchanged() else { throw Self.changedWhileSent(upload.path) }
            return own == tag
        }
        return head.object.entityTag != upload.base.map(Self.entityTag)
    }

    /// The tag that the file gets by being sent; `nil` if one of this form says nothing of bytes.
    private func tag(
        of upload: S3FileUpload,
        like tag: String
    ) async throws(CloudFSError) -> String? {
        let source = upload.source
        let parts = tag.split(separator: "-", omittingEmptySubsequences: false)
        guard source.byteCount > settings.partByteCount else {
            guard parts.count == 1 else { return nil }
            return try await md5(of: 0..<source.byteCount, in: source)
        }
        let ranges = ranges(of: source.byteCount)
        guard parts.count == 2, parts[1] == String(ranges.count) else { return nil }
        var digests: [String] = []
        for range in ranges { digests.append(try await md5(of: range, in: source)) }
        return Self.tag(ofParts: digests)
    }

    /// Tags of what was uploaded in parts depend on the parts, which another tool chose.
    func isContent(
        of version: ItemVersion,
        _ descriptor: Int32,
        byteCount: Int64
    ) async throws(CloudFSError) -> Bool? {
        let tag = Self.entityTag(version).lowercased()
        guard rules.tagsAreDigests, !tag.contains("-") else { return nil }
        let body = HTTPBody.file(descriptor: descriptor, offset: 0, byteCount: byteCount)
        return try await client.transport.md5(of: body) == tag
    }

    /// The digest of a part of the file, in small hexadecimal digits.
    func md5(
        of range: Range<Int64>,
        in source: UploadSource
    ) async throws(CloudFSError) -> String {
        try await client.transport.md5(
            of: .file(
                descriptor: source.descriptor,
                offset: range.lowerBound,
                byteCount: Int64(range.count)
            )
        )
    }

    /// The tag of an object that was uploaded in parts: the digest of the digests, and their count.
    ///
    /// - Parameter tags: Of the parts; `nil` is returned where they are no digests.
    static func tag(ofParts tags: [String]) -> String? {
        var hash = Insecure.MD5()
        for tag in tags {
            guard let digest = Hexadecimal.bytes(tag.utf8) else { return nil }
            hash.update(data: digest)
        }
        return Hexadecimal.text(hash.finalize()) + "-\(tags.count)"
    }

    /// Whether an object is what an earlier try sent, whose answer was lost.
    private func isOwnEarlierWork(_ head: S3ObjectHead) -> Bool {
        unheard(head.object.key).contains { sent in
            sent.byteCount == head.object.size && sent.metadata == head.userMetadata
                && (sent.entityTag ?? head.object.entityTag.lowercased())
                    == head.object.entityTag.lowercased()
        }
    }

    /// Remembers what may have been stored although it seems to have failed.
    ///
    /// - Parameter tag: That of the stored object, where tags are digests.
    func noteUnheard(_ upload: S3FileUpload, tag: String?) {
        let sent = S3SentVersion(
            byteCount: upload.source.byteCount,
            metadata: upload.metadata,
            entityTag: rules.tagsAreDigests ? tag : nil
        )
        noteUnheard(sent, at: upload.key)
    }
}

/// A file on its way to the bucket.
struct S3FileUpload: Sendable {
    var key: [UInt8]
    var path: RemotePath
    var source: UploadSource
    var base: ItemVersion?
    var metadata: [String: String] = [:]
    var contentHeaders: [String: String] = [:]
    /// The MD5 of the bytes, once they were sent in one request.
    var digest: String?
    private(set) var replaced: S3ObjectHead?

    /// What is not ours of the object that is replaced stays.
    mutating func replaces(_ head: S3ObjectHead?) {
        metadata = head?.userMetadata ?? [:]
        contentHeaders = head?.contentHeaders ?? [:]
        replaced = head
    }
}

/// What was sent to a key without an answer.
struct S3SentVersion: Sendable, Equatable {
    var byteCount: Int64
    var metadata: [String: String]
    /// As it is where tags are digests; `nil` if that is not known.
    var entityTag: String?
}

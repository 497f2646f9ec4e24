/// Copies that the server makes of single objects.
extension S3Provider {
    /// Copies one object, with its metadata or with another.
    ///
    /// - Parameters:
    ///   - source: In the version that is meant.
    ///   - key: Where the copy is made.
    ///   - present: What was there a moment ago; not every server looks once more.
    /// - Returns: What was made; its tag is empty where the server does not tell.
    /// - Throws: `exists` or `remoteChanged` if one of both places has something else by now;
    ///   servers do not say which.
    @discardableResult
    func copy(
        _ source: S3ObjectHead,
        to key: [UInt8],
        over present: S3Object?,
        metadata: [String: String]? = nil
    ) async throws(CloudFSError) -> S3Copied {
        guard source.object.size > settings.longestCopy else {
            return try await copyAtOnce(
                source.object,
                to: key,
                over: present,
                with: source.object == present ? source.userMetadata : nil,
                metadata: metadata,
                contentHeaders: metadata == nil ? [:] : source.contentHeaders
            )
        }
        return try await copyInParts(source, to: key, over: present, metadata: metadata)
    }

    func copyAtOnce(
        _ source: S3Object,
        to key: [UInt8],
        over present: S3Object?,
        with replaced: [String: String]? = nil,
        metadata: [String: String]? = nil,
        contentHeaders: [String: String] = [:]
    ) async throws(CloudFSError) -> S3Copied {
        try await client.copy(
            from: source.key,
            sourceIfMatch: source.entityTag,
            to: key,
            metadata: metadata,
            contentHeaders: contentHeaders,
            condition: rules.conditionOfCopy(replacing: present?.entityTag)
        ) { _ throws(CloudFSError) in
            try await self.copyMade(
                of: source,
                at: key,
                over: present,
                with: replaced,
                metadata: metadata
            )
        }
    }

    /// Looks what became of a copy that was not answered.
    ///
    /// - Parameters:
    ///   - replaced: The metadata of what was there, if known: of two writes in one second, with
    ///     the same bytes, they alone tell.
    ///   - metadata: What it was to get; `nil`: that of the source.
    /// - Returns: The copy; `nil` if all is as it was before.
    /// - Throws: `exists` or `remoteChanged` unless what is there is certainly the copy.
    func copyMade(
        of source: S3Object,
        at key: [UInt8],
        over present: S3Object?,
        with replaced: [String: String]?,
        metadata: [String: String]?
    ) async throws(CloudFSError) -> S3Copied? {
        guard let head = try await client.headIfPresent(key),
            head.object != present || head.userMetadata != replaced ?? head.userMetadata
        else { return nil }
        var expected = metadata
        if expected == nil {
            expected = try await client.headIfPresent(source.key)?.userMetadata
        }
        let copied = S3Copied(
            entityTag: head.object.entityTag,
            lastModified: head.object.lastModified
        )
        // Without an identity only the bytes' digest tells it from another file.
        let isKnown = expected?["cloudfs-id"] != nil || tellsBytes(copied, source)
        guard isKnown, head.userMetadata == expected, head.object.size == source.size,
            mayBe(copied, source)
        else { throw Self.overtaken(key, present) }
        return copied
    }

    /// Looks once more at what is to be overwritten, for servers that do not.
    func requireUnchanged(_ present: S3Object?, at key: [UInt8]) async throws(CloudFSError) {
        guard let head = try await client.headIfPresent(key), head.object != present else { return }
        throw Self.overtaken(key, present)
    }

    private static func overtaken(_ key: [UInt8], _ present: S3Object?) -> CloudFSError {
        CloudFSError(
            present == nil ? .exists : .remoteChanged,
            "\(S3ErrorMapping.shown(String(decoding: key, as: UTF8.self))) was just written",
            cause: S3Failure.conditionFailed
        )
    }

    /// Whether a copy has the bytes that were meant, as far as tags tell: some servers copy what is
    /// there by then.
    func mayBe(_ copied: S3Copied, _ source: S3Object) -> Bool {
        !tellsBytes(copied, source) || copied.entityTag == source.entityTag
    }

    private func tellsBytes(_ copied: S3Copied, _ source: S3Object) -> Bool {
        rules.tagsAreDigests
            && [copied.entityTag, source.entityTag].allSatisfy {
                !$0.isEmpty && !$0.contains("-")
            }
    }

    /// The item that a copy made, whatever another device did since.
    ///
    /// - Parameters:
    ///   - source: What was copied.
    ///   - metadata: What the copy got.
    func describe(
        _ copied: S3Copied,
        of source: S3ObjectHead,
        at key: [UInt8],
        _ metadata: [String: String],
        as name: ItemName
    ) async throws(CloudFSError) -> RemoteItem {
        var head = try await client.head(key)
        let isOurs =
            head.userMetadata == metadata && head.object.size == source.object.size
            && (copied.entityTag.isEmpty || copied.entityTag == head.object.entityTag)
        if !isOurs {
            // Replaced already: the version we made is told, so that the other one is seen as new.
            head.object = S3Object(
                key: key,
                size: source.object.size,
                entityTag: copied.entityTag.isEmpty ? "replaced" : copied.entityTag,
                lastModified: copied.lastModified ?? head.object.lastModified
            )
            head.userMetadata = metadata
        }
        return try await describe(head, as: name)
    }
}

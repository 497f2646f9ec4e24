/// Copies that the server makes of single objects.
extension S3Provider {
    /// Copies one object, with its metadata or with another.
    ///
    /// - Parameter source: In the version that is meant.
    /// - Returns: What was made; its tag is empty where the server does not tell.
    @discardableResult
    func copy(
        _ source: S3ObjectHead,
        to key: [UInt8],
        metadata: [String: String]? = nil
    ) async throws(CloudFSError) -> S3Copied {
        guard source.object.size > settings.longestCopy else {
            return try await client.copy(
                from: source.object.key,
                sourceIfMatch: source.object.entityTag,
                to: key,
                metadata: metadata,
                contentHeaders: metadata == nil ? [:] : source.contentHeaders
            )
        }
        return try await copyInParts(source, to: key, metadata: metadata)
    }

    /// Whether a copy has the bytes that were meant, as far as tags tell: some servers copy what is
    /// there by then.
    func mayBe(_ copied: S3Copied, _ source: S3Object) -> Bool {
        let tags = [copied.entityTag, source.entityTag]
        guard rules.tagsAreDigests, tags.allSatisfy({ !$0.isEmpty && !$0.contains("-") }) else {
            return true
        }
        return tags[0] == tags[1]
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

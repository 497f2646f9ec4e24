import CloudFSControlAPI

extension DriveControl {
    func bookmark(_ order: BookmarkOrder) async throws(CloudFSError) -> BookmarkStatus {
        await reach([order.path])
        let id = try await pool.engine {
            try self.catalog.read { try self.find(order.path, $0).id }
        }
        try await filesystem.feed.identify(id)
        return try await pool.engine {
            let known = try self.catalog.read { reader in
                (try reader.existing(id).item.documentID, try self.path(of: id, reader))
            }
            return BookmarkStatus(
                path: known.1 ?? order.path,
                documentID: known.0.description,
                isStale: false,
                token: try self.token(for: known.0, at: known.1 ?? order.path)
            )
        }
    }

    func resolveBookmark(_ query: BookmarkQuery) async throws(CloudFSError) -> BookmarkStatus {
        guard let token = BookmarkToken(text: query.token),
            let document = DocumentID(blob: token.document)
        else { throw CloudFSError(.invalidArgument, "this is no bookmark") }
        if let path = token.path { await reach([path]) }
        return try await pool.engine {
            guard try self.bookmarkKey.isSealed(token.payload, by: token.seal) else {
                throw CloudFSError(.denied, "this bookmark was not made by this user here")
            }
            guard try self.containerFingerprint() == token.container else {
                throw CloudFSError(.crossContainer, "the bookmark is one of another container")
            }
            return try self.resolve(document, token, query.token)
        }
    }

    /// By identity first: the path is only where it was.
    private func resolve(
        _ document: DocumentID,
        _ token: BookmarkToken,
        _ text: String
    ) throws -> BookmarkStatus {
        let (path, identity, way) = try catalog.read { reader in
            if let id = try reader.namedItem(withDocument: document),
                let path = try self.path(of: id, reader)
            {
                return (path, document, BookmarkStatus.Way.identity)
            }
            if let path = token.path, let other = try reader.item(at: path.names) {
                return (path, other.item.documentID, .path)
            }
            throw try self.loss(reader)
        }
        let isStale = way == .path || path != (token.path ?? path)
        return BookmarkStatus(
            path: path,
            documentID: identity.description,
            foundBy: way,
            isStale: isStale,
            token: isStale ? try self.token(for: identity, at: path) : text
        )
    }

    /// Why a document is not found: what was not listed yet may hold it.
    private func loss(_ reader: CatalogReader) throws -> CloudFSError {
        guard try reader.unlistedFolderCount() == 0, filesystem.feed.hasCompared else {
            return CloudFSError(.offline, "the document is not known yet: not all is listed")
        }
        return CloudFSError(.notFound, "the document of the bookmark is gone")
    }

    private func token(for document: DocumentID, at path: DrivePath) throws -> String {
        guard
            var token = BookmarkToken(
                container: try containerFingerprint(),
                document: document.blob,
                containerURL: record.containerURL,
                path: path
            )
        else { throw CloudFSError(.internalFailure, "not a bookmark") }
        token.seal = try bookmarkKey.seal(token.payload)
        return token.text
    }

    private func containerFingerprint() throws -> [UInt8] {
        guard let identity = try catalog.read({ try $0.containers().first?.identity }) else {
            throw CloudFSError(.offline, "the drive has never reached its container")
        }
        return BookmarkKey.fingerprint(of: identity)
    }
}

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
        try await pool.engine {
            guard try self.bookmarkKey.isSealed(token.payload, by: token.seal) else {
                throw CloudFSError(.denied, "this bookmark was not made by this user here")
            }
            guard try self.containerFingerprint() == token.container else {
                throw CloudFSError(.crossContainer, "the bookmark is one of another container")
            }
        }
        if let path = try await place(of: document) {
            return try await status(path, document, .identity, token, query.token)
        }
        if let path = token.path { await reach([path]) }
        await look(for: document)
        if let path = try await place(of: document) {
            return try await status(path, document, .identity, token, query.token)
        }
        let (path, other) = try await pool.engine {
            try self.catalog.read { reader in
                guard let path = token.path, let other = try reader.item(at: path.names) else {
                    throw try self.loss(reader)
                }
                return (path, other.item.documentID)
            }
        }
        return try await status(path, other, .path, token, query.token)
    }

    private func place(of document: DocumentID) async throws(CloudFSError) -> DrivePath? {
        try await pool.engine {
            try self.catalog.read { reader in
                try reader.namedItem(withDocument: document).flatMap {
                    try self.path(of: $0, reader)
                }
            }
        }
    }

    /// Looks for a document in the cloud; what is not told in time stays unknown.
    private func look(for document: DocumentID) async {
        let timeout = CloudFSError(.timedOut, "the items were not described in time")
        do {
            try await withDeadline(filesystem.options.listingDeadline, or: timeout) {
                try await self.filesystem.feed.look(for: document)
            }
        } catch {
            filesystem.logger.debug(
                "a document could not be looked for",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private func status(
        _ path: DrivePath,
        _ document: DocumentID,
        _ way: BookmarkStatus.Way,
        _ token: BookmarkToken,
        _ text: String
    ) async throws(CloudFSError) -> BookmarkStatus {
        let isStale = way == .path || path != (token.path ?? path)
        return BookmarkStatus(
            path: path,
            documentID: document.description,
            foundBy: way,
            isStale: isStale,
            token: isStale
                ? try await pool.engine { try self.token(for: document, at: path) } : text
        )
    }

    /// Why a document is not found: what was not listed yet may hold it.
    private func loss(_ reader: CatalogReader) throws -> CloudFSError {
        guard try reader.unlistedFolderCount() == 0, filesystem.feed.isCurrent else {
            return CloudFSError(.offline, "the document is not known now: not all is listed")
        }
        guard try !reader.hasSketches() else {
            return CloudFSError(
                .offline,
                "the document is not among the items that more than a listing is known of"
            )
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

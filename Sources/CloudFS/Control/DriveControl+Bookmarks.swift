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
        await look(for: document, at: token.path)
        // Asked first: what was listed by then is in the state of the catalog that is looked at.
        let isCurrent = filesystem.feed.isCurrent
        let found = try await pool.engine {
            try self.catalog.read { try self.whereabouts(of: document, token, isCurrent, $0) }
        }
        return try await status(found.path, found.document, found.way, token, query.token)
    }

    private func place(of document: DocumentID) async throws(CloudFSError) -> DrivePath? {
        try await pool.engine {
            try self.catalog.read { try self.place(of: document, $0) }
        }
    }

    private func place(of document: DocumentID, _ reader: CatalogReader) throws -> DrivePath? {
        try reader.namedItem(withDocument: document).flatMap { try self.path(of: $0, reader) }
    }

    /// What a bookmark leads to: its document or, where that is gone, what has its path now.
    ///
    /// - Throws: `offline` while the document may still be somewhere: what has its path is another
    ///   one then, and nobody would look for the right one any more.
    private func whereabouts(
        of document: DocumentID,
        _ token: BookmarkToken,
        _ isCurrent: Bool,
        _ reader: CatalogReader
    ) throws -> (path: DrivePath, document: DocumentID, way: BookmarkStatus.Way) {
        if let path = try place(of: document, reader) { return (path, document, .identity) }
        let loss = try loss(isCurrent, reader)
        guard loss.code == .notFound, let path = token.path,
            let other = try reader.item(at: path.names)
        else { throw loss }
        return (path, other.item.documentID, .path)
    }

    /// Looks for a document in the cloud, also where it was last; what is not told in time stays
    /// unknown.
    private func look(for document: DocumentID, at path: DrivePath?) async {
        if let path { await reach([path]) }
        let timeout = CloudFSError(.timedOut, "the items were not described in time")
        do {
            try await withDeadline(filesystem.options.listingDeadline, or: timeout) {
                // What is not told leaves a sketch, with which nothing counts as gone.
                if let path { try? await self.identify(path) }
                try await self.filesystem.feed.look(for: document)
            }
        } catch {
            filesystem.logger.debug(
                "a document could not be looked for",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private func identify(_ path: DrivePath) async throws(CloudFSError) {
        let id = try await pool.engine {
            try self.catalog.read { try $0.item(at: path.names)?.id }
        }
        if let id { try await filesystem.feed.identify(id) }
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
    private func loss(_ isCurrent: Bool, _ reader: CatalogReader) throws -> CloudFSError {
        guard try reader.unlistedFolderCount() == 0, isCurrent else {
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

public import CloudFSControlAPI

extension DriveClient {
    /// Makes a bookmark, which leads to an item wherever it is moved.
    public func bookmark(_ path: DrivePath) async throws(DriveClientError) -> BookmarkStatus {
        try await post(.bookmarks, BookmarkOrder(path: path))
    }

    /// Where the item of a bookmark is now.
    ///
    /// - Throws: `failure` with `crossContainer` for a bookmark of another drive's container.
    public func resolveBookmark(
        _ token: String
    ) async throws(DriveClientError) -> BookmarkStatus {
        try await post(.resolveBookmark, BookmarkQuery(token: token))
    }

    /// Which programs had content brought here since the daemon began.
    public func activity() async throws(DriveClientError) -> ActivityReport {
        try await get(.activity)
    }
}

import CloudFSControlAPI

@testable import CloudFS

extension FakeDrive {
    func bookmark(_ order: BookmarkOrder) async throws(CloudFSError) -> BookmarkStatus {
        try await note("bookmark \(order.path)")
        return BookmarkStatus(path: order.path, documentID: "d", isStale: false, token: "t")
    }

    func resolveBookmark(_ query: BookmarkQuery) async throws(CloudFSError) -> BookmarkStatus {
        try await note("resolve-bookmark \(query.token)")
        return BookmarkStatus(
            path: .root,
            documentID: "d",
            foundBy: .path,
            isStale: true,
            token: "u"
        )
    }

    func activity() async throws(CloudFSError) -> ActivityReport {
        try await note("activity")
        return ActivityReport(programs: [
            ActivityReport.Program(
                program: "tumblerd",
                purpose: .thumbnailer,
                files: 1,
                bytes: 2,
                refusedReads: 3,
                last: WireTime(nanoseconds: 4)
            )
        ])
    }
}

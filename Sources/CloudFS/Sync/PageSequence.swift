/// Keeps a listing from going on for ever, whatever its cloud says the next page is.
struct PageSequence {
    private var token: PageToken?
    private var count = 0
    private var markAt = 1
    private var emptyCount = 0

    /// Pages without anything are legal, after many deletions for one; so many are not.
    private static let mostEmpty = 1_000

    /// Checks a page against those before.
    ///
    /// One earlier page is remembered, after ever longer pauses: any circle leads past it again.
    /// - Throws: `corrupt` if the pages have no end.
    mutating func note(_ page: ListingPage) throws(CloudFSError) {
        let isEmpty = page.items.isEmpty && page.hidden.isEmpty && page.unreadable.isEmpty
        emptyCount = isEmpty ? emptyCount + 1 : 0
        guard let next = page.next else { return }
        guard next != token, emptyCount <= Self.mostEmpty else {
            throw CloudFSError(.corrupt, "the cloud's listing of a folder has no end")
        }
        count += 1
        guard count == markAt else { return }
        markAt *= 2
        token = next
    }
}

/// The pages of a listing.
extension RemoteApplier {
    /// Applies page after page; the next one is asked for while one is applied.
    func takePages(_ listing: inout Listing) async throws(CloudFSError) {
        var coming = page(of: listing.path, after: listing.first)
        defer { coming.cancel() }
        var sequence = PageSequence()
        while true {
            let arriving = coming
            let page = try await withTaskCancellationHandler {
                await arriving.value
            } onCancel: {
                arriving.cancel()
            }.get()
            guard !Task.isCancelled else {
                throw CloudFSError(.cancelled, "a listing was ended", item: listing.folder)
            }
            try sequence.note(page)
            if let next = page.next { coming = self.page(of: listing.path, after: next) }
            if listing.depth == .names { await precedence.giveWay(with: .comparison) }
            try await apply(page, to: &listing)
            if page.next == nil { return }
        }
    }

    private func page(
        of path: RemotePath,
        after token: PageToken?
    ) -> Task<Result<ListingPage, CloudFSError>, Never> {
        Task {
            do throws(CloudFSError) {
                return .success(try await self.provider.children(of: path, after: token))
            } catch {
                return .failure(error)
            }
        }
    }
}

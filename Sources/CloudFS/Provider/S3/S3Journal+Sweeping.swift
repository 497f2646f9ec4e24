/// Records that everybody has read are deleted, by whoever comes first.
extension S3Journal {
    /// Deletes the oldest records, as far as they are older than anybody should need.
    ///
    /// The floor is raised before: who was away for so long that records it needs may be gone sees
    /// so, and compares everything. Several devices may sweep at once.
    ///
    /// - Returns: How many records were deleted; at most `sweptAtOnce`.
    @discardableResult
    func sweep() async throws(CloudFSError) -> Int {
        let (seconds, _) = settings.recordAge.components
        let limit = try await serverMilliseconds() - seconds * 1_000
        guard limit > 0 else { return 0 }
        var old: [[UInt8]] = []
        try await client.listAll(prefix: folder, delimiter: false) { page throws(CloudFSError) in
            for key in page.objects.map(\.key) {
                // Others may put there what is no record.
                guard let record = S3JournalKey(key) else { continue }
                // They come sorted by time.
                guard record.milliseconds < limit else { return false }
                old.append(key)
            }
            return old.count < Self.sweptAtOnce
        }
        old = Array(old.prefix(Self.sweptAtOnce))
        guard !old.isEmpty else { return 0 }
        let floor = folder + S3JournalFloor.bytes(limit)
        _ = try await client.put(floor, body: .bytes([]), isOwn: true)
        try await delete(old)
        try await delete(try await floors(below: floor))
        return old.count
    }

    private static let sweptAtOnce = 20_000

    private func floors(below floor: [UInt8]) async throws(CloudFSError) -> [[UInt8]] {
        var floors: [[UInt8]] = []
        try await client.listAll(prefix: folder + S3JournalFloor.stem, delimiter: false) {
            page throws(CloudFSError) in
            let older = page.objects.map(\.key).filter { $0.lexicographicallyPrecedes(floor) }
            floors += older
            return older.count == page.objects.count && floors.count < Self.sweptAtOnce
        }
        return floors
    }

    private func delete(_ keys: [[UInt8]]) async throws(CloudFSError) {
        for start in stride(from: 0, to: keys.count, by: 1_000) {
            let batch = Array(keys[start..<min(start + 1_000, keys.count)])
            guard let refusal = try await client.deleteBatch(batch, isOwn: true).first else {
                continue
            }
            throw CloudFSError(
                refusal.failure == .accessDenied ? .denied : .offline,
                "a record was not deleted: \(refusal.message)"
            )
        }
    }
}

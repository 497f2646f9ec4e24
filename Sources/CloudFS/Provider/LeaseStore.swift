/// Where devices that use the same container take turns: the chains of leases, one per document.
///
/// The written contract, which `LeaseStoreContractTests` holds every store to:
///
/// - `append` is atomic: of all that append a record with the same number, whenever and in
///   whatever order, at most one is told `true`. A request that was given up may still be carried
///   out later.
/// - `true` also means that no record with a higher number was there when the record was
///   already stored: one that comes so late that its number has been removed is told `false`.
/// - The record with the highest number of a document is never removed.
/// - `latest` is the record with the highest number that was stored when it was asked, or a later
///   one.
/// - What lies there and cannot be read is a record all the same (`LeaseRecord.unreadable`).
///
/// A store knows nothing of time: `LeasePlan` does.
public protocol LeaseStore: Sendable {
    /// The latest record of a document; `nil` when nobody ever took a lease of it.
    func latest(of document: DocumentID) async throws(CloudFSError) -> LeaseRecord?

    /// Stores a record behind all others of its document, and removes the older ones.
    ///
    /// - Returns: Whether it is the latest now; `false` also when a repetition meets itself, which
    ///   `latest` then tells.
    /// - Throws: `offline`, `timedOut` and their like when it is not known what became of it;
    ///   `denied`, `readOnly`.
    func append(_ record: LeaseRecord) async throws(CloudFSError) -> Bool

    /// The latest records of all documents, for people; no more than `limit`, in no order.
    func all(atMost limit: Int) async throws(CloudFSError) -> [LeaseRecord]
}

/// Leases as small objects in `.cloudfs/leases`, each stored with `If-None-Match: *`.
///
/// Whether the server honours that was tried when the bucket was reached. A record that was stored
/// is looked for once more: it counts only if the listing has no later one, and has it with the
/// tag that it was stored with. That costs a request, and tells of a record that came too late
/// and of a server that let two through.
struct S3Leases: LeaseStore {
    let provider: S3Provider

    /// How often a look begins again because records were superseded under it.
    private static let looks = 8
    /// More of one document's are not what devices leave behind.
    private static let mostRecords = 10_000

    private struct Found {
        var number: Int64
        var object: S3Object
    }

    private var client: S3Client { provider.client }

    private var folder: [UInt8] { provider.keys.room + Array("leases/".utf8) }

    func latest(of document: DocumentID) async throws(CloudFSError) -> LeaseRecord? {
        try requireProbe()
        for _ in 0..<Self.looks {
            guard let entry = try await entries(of: document).last else { return nil }
            if let record = try await read(entry, of: document) { return record }
        }
        throw CloudFSError(.timedOut, "the records of a lease changed faster than they were read")
    }

    func append(_ record: LeaseRecord) async throws(CloudFSError) -> Bool {
        try requireProbe()
        let written: S3Written
        do throws(CloudFSError) {
            written = try await client.put(
                folder + LeaseText.name(record.document, record.number),
                body: .bytes(LeaseText.bytes(of: record)),
                contentType: "text/plain",
                condition: .ifNoneMatchAny,
                isUrgent: true
            )
        } catch  where error.code == .exists || error.code == .remoteChanged {
            return false
        }
        let entries = try await entries(of: record.document)
        guard let latest = entries.last, latest.number == record.number else { return false }
        if latest.object.entityTag != written.entityTag {
            guard try await read(latest, of: record.document) == record else { return false }
        }
        await remove(entries.dropLast().map(\.object.key))
        return true
    }

    func all(atMost limit: Int) async throws(CloudFSError) -> [LeaseRecord] {
        try requireProbe()
        var latest: [DocumentID: Found] = [:]
        let start = folder.count
        try await client.listAll(prefix: folder, delimiter: false) { page throws(CloudFSError) in
            for object in page.objects {
                guard let name = LeaseText.parse(object.key.dropFirst(start)) else { continue }
                let known = latest[name.document]?.number ?? 0
                guard known > 0 || latest.count < limit else { return false }
                guard name.number > known else { continue }
                latest[name.document] = Found(number: name.number, object: object)
            }
            return true
        }
        var records: [LeaseRecord] = []
        for (document, entry) in latest {
            if let record = try await read(entry, of: document) { records.append(record) }
        }
        return records
    }

    // MARK: - Objects

    /// Nothing is stored on a server that may take conditions for nothing.
    private func requireProbe() throws(CloudFSError) {
        guard provider.rules.isProbed else {
            throw CloudFSError(.offline, "the bucket was not reached yet")
        }
    }

    /// A document's records, the latest last.
    private func entries(of document: DocumentID) async throws(CloudFSError) -> [Found] {
        var entries: [Found] = []
        let prefix = folder + LeaseText.stem(document)
        let start = folder.count
        try await client.listAll(prefix: prefix, delimiter: false) { page throws(CloudFSError) in
            for object in page.objects {
                guard let name = LeaseText.parse(object.key.dropFirst(start)) else { continue }
                entries.append(Found(number: name.number, object: object))
            }
            guard entries.count <= Self.mostRecords else {
                throw CloudFSError(
                    .corrupt,
                    "there are too many leases of \(document); delete .cloudfs/leases"
                )
            }
            return true
        }
        return entries.sorted { $0.number < $1.number }
    }

    /// The record; `nil` if it is gone, superseded by another.
    private func read(
        _ entry: Found,
        of document: DocumentID
    ) async throws(CloudFSError) -> LeaseRecord? {
        guard (1...Int64(LeaseText.maximumByteCount)).contains(entry.object.size) else {
            return .unreadable(document, number: entry.number)
        }
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            let range = 0..<Int64(LeaseText.maximumByteCount) + 1
            _ = try await client.get(entry.object.key, range: range, ifMatch: nil) { _, piece in
                bytes.append(piece)
            }
        } catch  where error.code == .notFound {
            return nil
        }
        return LeaseText.record(bytes.all, of: document, number: entry.number)
    }

    /// Older records do nothing but take space: what is not removed now is by the next one.
    private func remove(_ keys: [[UInt8]]) async {
        guard !keys.isEmpty else { return }
        do throws(CloudFSError) {
            _ = try await client.deleteBatch(Array(keys.prefix(1_000)), isOwn: true)
        } catch {
            provider.logger.debug("old leases were not removed", metadata: ["error": "\(error)"])
        }
    }
}

extension S3Provider {
    /// `nil` on a server that lets two devices create the same object.
    var leases: (any LeaseStore)? {
        let rules = rules
        guard !rules.isProbed || rules.create, !rules.isReadOnly else { return nil }
        return S3Leases(provider: self)
    }

    /// For people, in `cloudfs status`.
    static func leaseNote(_ rules: S3WriteRules) -> String {
        if rules.isReadOnly { return "none: nothing is written" }
        return rules.create
            ? "by If-None-Match" : "none: the server lets two devices create the same object"
    }
}

import CloudFSControlAPI

/// A coordinated writer takes turns with those of other devices, where the cloud can tell whose
/// turn it is.
extension DriveControl {
    /// How long a newer version of another device is waited for before a program may begin to
    /// write.
    private static let refreshLimit = Duration.seconds(5)
    /// How long a turn is kept after a program is done, for what it wrote to be sent.
    private static let sendingLimit = Duration.seconds(60)

    /// Takes the turns at all documents that are to be written, and brings their newest versions.
    ///
    /// Without the cloud there are no turns: what both devices write is kept as two versions.
    ///
    /// - Throws: `timedOut` or `claimed`, with the name of the device that has one of them.
    func takeTurns(
        at intents: [AccessIntent],
        for claimant: Claimant,
        within timeout: Duration
    ) async throws(CloudFSError) -> [Lease] {
        let wanted = intents.filter { $0.weight == .write && !$0.isFolder }.map(\.item)
        guard leases.isAvailable, filesystem.connection.isOnline, !wanted.isEmpty else { return [] }
        let documents = try await pool.engine { try self.documents(of: wanted) }
        let end = ContinuousClock.now + timeout
        let name = ProcessTree.name(of: claimant.process) ?? "a program"
        var taken: [Lease] = []
        for document in documents {
            do throws(CloudFSError) {
                let lease = try await leases.take(
                    document.id,
                    for: "\(name) (\(claimant.process))",
                    within: max(.zero, end - .now)
                )
                taken.append(lease)
            } catch {
                guard error.isAbsenceOfTurns else {
                    for lease in taken { lease.end() }
                    throw error
                }
            }
        }
        if !taken.isEmpty { await refresh(documents) }
        return taken
    }

    /// Gives turns back when the cloud has what was written.
    func giveTurnsBack(_ taken: [Lease], after intents: [AccessIntent]) {
        guard !taken.isEmpty else { return }
        Task {
            let items = intents.filter { $0.weight == .write }.map(\.unit)
            defer { for lease in taken { lease.end() } }
            do throws(CloudFSError) {
                try await filesystem.uploader.waitUntilSent(items, within: Self.sendingLimit)
            } catch {
                filesystem.logger.warning(
                    "a turn is given back before it is known what was sent",
                    metadata: ["error": "\(error)"]
                )
            }
        }
    }

    private struct SharedDocument: Sendable {
        var id: DocumentID
        var item: ItemID
    }

    /// Documents that other devices know; in an order that is the same for all of them.
    private func documents(of items: [ItemID]) throws(CloudFSError) -> [SharedDocument] {
        let found = try catalog.read { reader in
            try items.compactMap { id -> SharedDocument? in
                let unit = try reader.package(of: id) ?? id
                guard let item = try reader.item(unit)?.item, item.kind == .file,
                    try reader.base(of: unit)?.parent != nil
                else { return nil }
                return SharedDocument(id: item.documentID, item: unit)
            }
        }
        return found.sorted { $0.id.description < $1.id.description }
    }

    /// Looks for what other devices wrote before it was this one's turn.
    private func refresh(_ documents: [SharedDocument]) async {
        let late = CloudFSError(.timedOut, "the cloud did not tell of the document in time")
        for document in documents {
            do {
                try await withDeadline(Self.refreshLimit, or: late) {
                    try await self.filesystem.feed.bringUpToDate(document.item)
                }
            } catch {
                filesystem.logger.info(
                    "a document is written without a look for newer versions",
                    metadata: ["item.id": "\(document.item)", "error": "\(error)"]
                )
            }
        }
    }

    /// The turns that this device has, and those of others that it knows of.
    func leaseStatus(_ reader: CatalogReader) throws -> [LeaseStatus] {
        let own = leases.held.map { ($0, true) }
        let others = leases.foreign.map { ($0, false) }
        return try (own + others).compactMap { record, isOwn in
            guard let holder = record.holder else { return nil }
            let item = try reader.item(withDocument: record.document)?.id
            return LeaseStatus(
                path: try item.flatMap { try path(of: $0, reader) },
                device: holder.device,
                process: holder.process,
                isOwn: isOwn
            )
        }
    }
}

extension CloudFSError {
    /// Whether it says that the cloud keeps no turns, or cannot be asked.
    fileprivate var isAbsenceOfTurns: Bool {
        switch code {
        case .offline, .unsupported, .denied, .readOnly, .unauthenticated: true
        default: false
        }
    }
}

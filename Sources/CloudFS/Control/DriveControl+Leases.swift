import CloudFSControlAPI

/// A coordinated writer takes turns with those of other devices, where the cloud can tell whose
/// turn it is.
extension DriveControl {
    /// How long a newer version of another device is waited for before a program may begin to
    /// write.
    private static let refreshLimit = Duration.seconds(5)
    /// How long a turn is kept after a program is done, until what it wrote is being sent.
    private static let sendingLimit = Duration.seconds(60)
    /// How long a drive that has just begun may take to reach the cloud, for a program that wants a
    /// turn.
    private static let connectingLimit = Duration.seconds(20)
    /// How often a look may bring other documents to the paths that are to be written.
    private static let mostRounds = 4

    /// The turns that a program has for as long as it writes.
    struct Turns: Sendable {
        var leases: [Lease] = []
        /// Why one that there should be is missing: a sentence for who writes.
        var lack: String?

        func end() { for lease in leases { lease.end() } }
    }

    /// Takes the turns at all documents that are to be written, and brings their newest versions.
    ///
    /// Without the cloud there are no turns: what both devices write is kept as two versions.
    ///
    /// - Parameter find: What is to be written, as far as it is known: a look may bring something
    ///   else to a path, or something at all.
    /// - Throws: `timedOut` or `claimed`, with the name of the device that has one of them.
    func takeTurns(
        at find: @escaping @Sendable () throws(CloudFSError) -> [AccessIntent],
        for claimant: Claimant,
        until end: ContinuousClock.Instant
    ) async throws(CloudFSError) -> Turns {
        let isWriting = try await pool.engine { !self.written(try find()).isEmpty }
        guard isWriting else { return Turns() }
        let connection = filesystem.connection
        await connection.untilKnown(atMost: min(Self.connectingLimit, max(.zero, end - .now)))
        if let lack = lackOfTurns {
            filesystem.logger.info(
                "a document is written without a turn",
                metadata: ["connection": "\(connection.current)"]
            )
            return Turns(lack: lack)
        }
        var (turns, asked): (Turns, Set<DocumentID>) = (Turns(), [])
        do throws(CloudFSError) {
            try await lookForPromised(find, until: end)
            for _ in 0..<Self.mostRounds {
                let new = try await documents(of: find, until: end).filter {
                    asked.insert($0.id).inserted
                }
                guard !new.isEmpty else { break }
                for document in new {
                    try await takeTurn(at: document, for: claimant, until: end, adding: &turns)
                }
                if !turns.leases.isEmpty { await bringUpToDate(new.map(\.item), until: end) }
            }
            return turns
        } catch {
            turns.end()
            throw error
        }
    }

    private func takeTurn(
        at document: SharedDocument,
        for claimant: Claimant,
        until end: ContinuousClock.Instant,
        adding turns: inout Turns
    ) async throws(CloudFSError) {
        let name = ProcessTree.name(of: claimant.process) ?? "a program"
        do throws(CloudFSError) {
            turns.leases.append(
                try await leases.take(
                    document.id,
                    for: "\(name) (\(claimant.process))",
                    within: max(.zero, end - .now)
                )
            )
        } catch  where ![.claimed, .timedOut, .cancelled].contains(error.code) {
            filesystem.logger.info(
                "a document is written without a turn",
                metadata: ["item.id": "\(document.item)", "error": "\(error)"]
            )
            turns.lack = error.message
        }
    }

    /// Why there are no turns at all now.
    private var lackOfTurns: String? {
        switch filesystem.connection.current {
        case .online: leases.isAvailable ? nil : "the cloud cannot tell whose turn it is"
        case .connecting: "the cloud was not reached yet"
        case .offline(let reason, _): reason
        }
    }

    /// Makes sure that a program which was granted what it writes begins with the newest version:
    /// while it waited for others here, one that came was put off.
    ///
    /// Who has an older version open is waited for, a little: it may be the program itself.
    func bringNewest(
        _ granted: Claim,
        for claimant: Claimant,
        until end: ContinuousClock.Instant
    ) async throws(CloudFSError) {
        let items = written(filesystem.coordinator.intents(of: granted))
        let outdated = try await pool.engine {
            try self.catalog.read { reader in try items.filter { try reader.newer(of: $0) != nil } }
        }
        await filesystem.feed.applier.lettingReplace(outdated, claimedBy: claimant.purpose) {
            await bringUpToDate(outdated, until: end, isPatient: true)
        }
    }

    /// Gives turns back when the cloud has what was written.
    func giveTurnsBack(_ taken: [Lease], after intents: [AccessIntent]) {
        guard !taken.isEmpty else { return }
        let items = intents.filter { $0.weight == .write }.map(\.unit)
        Task {
            defer { for lease in taken { lease.end() } }
            var trouble: CloudFSError?
            do throws(CloudFSError) {
                if try await filesystem.uploader.sendFirst(items, within: Self.sendingLimit) {
                    return
                }
            } catch {
                trouble = error
            }
            filesystem.logger.warning(
                "a turn is given back before the cloud has what was written",
                metadata: ["error": "\(trouble.map { "\($0)" } ?? "it was not sent in time")"]
            )
        }
    }

    private struct SharedDocument: Sendable {
        var id: DocumentID
        var item: ItemID
    }

    private func written(_ intents: [AccessIntent]) -> [ItemID] {
        intents.filter { $0.weight == .write && !$0.isFolder }.map(\.unit)
    }

    /// Documents that other devices know, by the identities that they know them by; in an order
    /// that is the same for all of them.
    private func documents(
        of find: @escaping @Sendable () throws(CloudFSError) -> [AccessIntent],
        until end: ContinuousClock.Instant
    ) async throws(CloudFSError) -> [SharedDocument] {
        let known = try await pool.engine { try self.documents(try find()) }
        await looking(at: known.map(\.item), until: end) { item in
            try await self.filesystem.feed.identify(item)
        }
        return try await pool.engine { try self.documents(try find()) }
    }

    private func documents(_ intents: [AccessIntent]) throws(CloudFSError) -> [SharedDocument] {
        let items = intents.filter { $0.weight == .write && !$0.isFolder }.map(\.item)
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

    /// Looks whether another device has made what is to be made here.
    private func lookForPromised(
        _ find: @escaping @Sendable () throws(CloudFSError) -> [AccessIntent],
        until end: ContinuousClock.Instant
    ) async throws(CloudFSError) {
        let names = filesystem.promisedNames
        let places = try await pool.engine {
            try find().compactMap { $0.weight == .write ? names.place($0.item) : nil }
        }
        await looking(at: places, until: end) { place in
            try await self.filesystem.feed.look(
                for: try ItemName(place.name),
                in: place.parent
            )
        }
    }

    /// Looks for what other devices wrote before it was this one's turn.
    private func bringUpToDate(
        _ items: [ItemID],
        until end: ContinuousClock.Instant,
        isPatient: Bool = false
    ) async {
        await looking(at: items, until: end) { item in
            try await self.filesystem.feed.bringUpToDate(item, isPatient: isPatient)
        }
    }

    /// Looks at all of `subjects` at once, for as long as a program may be kept waiting for that.
    private func looking<Subject: Sendable>(
        at subjects: [Subject],
        until end: ContinuousClock.Instant,
        _ look: @escaping @Sendable (Subject) async throws -> Void
    ) async {
        guard !subjects.isEmpty else { return }
        let late = CloudFSError(.timedOut, "the cloud did not tell of the document in time")
        do {
            let limit = min(Self.refreshLimit, max(.seconds(1), end - .now))
            try await withDeadline(limit, or: late) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for subject in subjects { group.addTask { try await look(subject) } }
                    try await group.waitForAll()
                }
            }
        } catch {
            filesystem.logger.info(
                "a document is written without all that the cloud knows of it",
                metadata: ["documents": "\(subjects)", "error": "\(error)"]
            )
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

/// Claims that plain programs take without knowing of them.
///
/// Opens may wait for others. What holds locks of the kernel, as renaming does, never waits: it
/// fails at once with `claimed`.
extension Filesystem {
    /// How programs that ask for claims get them.
    var access: CoordinatedAccess {
        CoordinatedAccess(coordinator: coordinator, board: board) {
            [self] id throws(CloudFSError) in
            try catalog.readFew { try $0.folders(around: id) }
        }
    }

    /// Claims a name that is about to be given to something new, if a program has claimed it.
    func claimName(
        _ name: ItemName,
        in parent: ItemID,
        for caller: Caller
    ) throws(CloudFSError) -> Claim? {
        let place = NamePlace(parent: parent, name: name.bytes)
        guard let number = promisedNames.number(place) else { return nil }
        return try claimNow([.writing(number)], for: caller)
    }

    /// Hands the claims of a name on to the item that has it now.
    func fulfil(_ name: ItemName, in parent: ItemID, with item: ItemID) {
        let place = NamePlace(parent: parent, name: name.bytes)
        if let number = promisedNames.number(place) { coordinator.pass(number, to: item) }
    }

    /// What opening a file claims, for as long as it is open; `nil` for nothing.
    func intent(toOpen id: ItemID, flags: Int32) -> AccessIntent? {
        if OpenFlags.changes(flags) { return .writing(id) }
        return options.isCoordinationEnforced ? .reading(id) : nil
    }

    /// Claims what a plain program is about to touch.
    ///
    /// - Throws: `claimed` where a coordinated program is in the way.
    func claimNow(
        _ intents: [AccessIntent],
        for caller: Caller
    ) throws(CloudFSError) -> Claim {
        do throws(CloudFSError) {
            return try coordinator.tryClaim(intents, by: .plain(caller.processID))
        } catch  where error.code == .claimed {
            let claimant = try claimant(for: caller, touching: intents)
            guard !claimant.sponsors.isEmpty else { throw error }
            return try coordinator.tryClaim(intents, by: claimant)
        }
    }

    /// Claims what a plain program is about to open, and waits for coordinated programs.
    ///
    /// - Throws: `timedOut`, `deadlock`, `cancelled`.
    func claim(
        _ intents: [AccessIntent],
        for caller: Caller
    ) async throws(CloudFSError) -> Claim {
        try await coordinator.claim(
            intents,
            by: try claimant(for: caller, touching: intents),
            timeout: options.claimTimeout
        )
    }

    /// Runs `body` with items claimed that the catalog names.
    ///
    /// - Parameters:
    ///   - find: Names the items, before the transaction in which `body` changes them.
    ///   - body: Gets what was claimed, to see that it is still what is there.
    func withClaims<Value>(
        for caller: Caller,
        _ find: (CatalogReader) throws -> [AccessIntent],
        _ body: ([ItemID]) throws(CloudFSError) -> Value
    ) throws(CloudFSError) -> Value {
        let intents = try catalog.readFew(find)
        let claim = try claimNow(intents, for: caller)
        defer { claim.end() }
        return try body(intents.map(\.item))
    }

    /// Sees that what is about to be changed is what was claimed.
    ///
    /// Only news of the cloud come in between, as the kernel holds its lock of the folder.
    static func require(_ record: ItemRecord, among claimed: [ItemID]) throws(CloudFSError) {
        guard claimed.contains(record.id) else {
            throw CloudFSError(
                .claimed,
                "the item was replaced by the cloud just now; try again",
                item: record.id
            )
        }
    }

    /// Tells what a program changed, after it is committed.
    func publish(_ changes: [ItemChange], by caller: Caller) {
        let process = caller.processID
        hub.publish(
            changes,
            by: caller.isRepresented ? .daemon(askedBy: process) : .program(process)
        )
    }

    /// Tells that a program changed the content of a file, once for each change.
    func publishContent(of file: OpenFile, changedBy process: Int32) {
        let isNew = file.state.withLock { state in
            defer { state.publishedCount = state.changeCount }
            return state.publishedCount != state.changeCount
        }
        if isNew { hub.publish([.content(file.id)], by: .program(process)) }
    }

    private func claimant(
        for caller: Caller,
        touching intents: [AccessIntent]
    ) throws(CloudFSError) -> Claimant {
        let items = intents.map(\.item)
        let sponsors = try coordinator.sponsors(of: caller.processID, touching: items)
        return Claimant(.mount, process: caller.processID, sponsors: sponsors)
    }
}

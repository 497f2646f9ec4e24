import CloudFSControlAPI
import Synchronization

extension DriveControl {
    /// How long a claim is waited for where nothing else is asked.
    private static let usualTimeout = Duration.seconds(30)

    // MARK: - Claims

    func hold(
        _ order: ClaimOrder,
        for peer: ControlPeer,
        tell: @escaping @Sendable (ClaimEvent) -> Bool
    ) async throws(CloudFSError) {
        await reach(order.intents.map(\.path), isFetching: true)
        let purpose = Purpose.program(order.purpose ?? "\(peer.process).\(nextPurpose())")
        let claimant = Claimant(purpose, process: peer.process)
        let names = NamesInUse(filesystem.promisedNames)
        defer { names.giveBack() }
        let find: @Sendable () throws(CloudFSError) -> [AccessIntent] = {
            () throws(CloudFSError) in try self.intents(of: order, names)
        }
        let behind = try await pool.engine {
            try self.filesystem.coordinator.holders(inTheWayOf: try find(), for: claimant)
        }
        guard tell(ClaimEvent(.waiting, behind: Self.unique(behind))) else { return }
        let timeout = order.timeoutSeconds.map { Duration.seconds($0) } ?? Self.usualTimeout
        let end = ContinuousClock.now + timeout
        var written = try await pool.engine { try find() }
        let request = CoordinatedAccess.Request(
            intents: find,
            claimant: claimant,
            presenter: order.presenter.map { .init(rawValue: $0) },
            end: end
        )
        let (granted, turns) = try await beginInTurn(request, order)
        defer { giveTurnsBack(turns.leases, after: written) }
        let access = filesystem.access
        defer {
            written = filesystem.coordinator.intents(of: granted.claim)
            access.end(granted)
        }
        let items = filesystem.coordinator.intents(of: granted.claim)
        try await whileHeld(granted.claim) { () async throws(CloudFSError) in
            if !turns.leases.isEmpty {
                try await self.bringNewest(granted.claim, for: claimant, until: end)
            }
            try await self.bringHere(items, tell)
        }
        let paths = try await pool.engine { try self.paths(of: items, order) }
        guard tell(ClaimEvent(.granted, paths: paths, withoutTurn: turns.lack)) else { return }
        try await waitUntilTakenAway(granted.claim)
    }

    /// How long other devices wait for one whose turn it is, and that waits for others itself.
    private static let longestIdleTurn = Duration.seconds(30)

    /// Waits for the turns among devices first, and then for programs of this one: the other way
    /// round, they would wait for the network.
    private func beginInTurn(
        _ request: CoordinatedAccess.Request,
        _ order: ClaimOrder
    ) async throws(CloudFSError) -> (CoordinatedAccess.Granted, Turns) {
        while true {
            let turns = try await takeTurns(
                at: request.intents,
                for: request.claimant,
                until: request.end
            )
            var limited = request
            if !turns.leases.isEmpty {
                // A look may have brought a package anew.
                await reach(order.intents.map(\.path), isFetching: true)
                limited.end = min(request.end, .now + Self.longestIdleTurn)
            }
            do throws(CloudFSError) {
                let granted = try await filesystem.access.begin(limited)
                guard turns.leases.contains(where: \.isLost), .now < request.end else {
                    return (granted, turns)
                }
                filesystem.access.end(granted)
            } catch {
                let isPutOff = limited.end < request.end && .now >= limited.end
                guard error.code == .timedOut, isPutOff else {
                    turns.end()
                    throw error
                }
            }
            turns.end()
        }
    }

    /// Names that a claim is for, and that nothing has yet.
    private final class NamesInUse: Sendable {
        private let names: PromisedNames
        private let numbers = Mutex<[NamePlace: ItemID]>([:])

        init(_ names: PromisedNames) {
            self.names = names
        }

        func number(_ place: NamePlace) -> ItemID {
            numbers.withLock { numbers in
                let number = numbers[place] ?? names.claim(place)
                numbers[place] = number
                return number
            }
        }

        func giveBack() {
            for number in numbers.withLock({ Array($0.values) }) { names.giveBack(number) }
        }
    }

    private func intents(
        of order: ClaimOrder,
        _ names: NamesInUse
    ) throws(CloudFSError) -> [AccessIntent] {
        var intents: [AccessIntent] = []
        for wish in order.intents { intents.append(try intent(wish, names)) }
        return intents
    }

    private func intent(
        _ wish: ClaimIntent,
        _ names: NamesInUse
    ) throws(CloudFSError) -> AccessIntent {
        let access = try AccessIntent.Access(wish)
        if let known = try catalog.read({ try $0.item(at: wish.path.names) }) {
            return AccessIntent(
                item: known.id,
                access: access,
                isFolder: known.item.kind == .folder
            )
        }
        guard wish.access == .write, let name = wish.path.names.last,
            let folder = DrivePath(names: wish.path.names.dropLast())
        else {
            throw try catalog.read { try absence(of: wish.path, $0) }
        }
        let parent = try catalog.read { try find(folder, $0) }
        try Filesystem.requireFolder(parent)
        guard parent.isListed else {
            throw try catalog.read { try absence(of: wish.path, $0) }
        }
        let place = NamePlace(parent: parent.id, name: name)
        return AccessIntent(item: names.number(place), access: access)
    }

    /// Whoever reads by claims does not wait for bytes afterwards.
    private func bringHere(
        _ intents: [AccessIntent],
        _ tell: @Sendable (ClaimEvent) -> Bool
    ) async throws(CloudFSError) {
        for intent in intents where intent.weight == .read && !intent.isFolder {
            let file = try await pool.engine { () throws(CloudFSError) -> OpenFile? in
                let kind = try self.catalog.read { try $0.existing(intent.item).item.kind }
                return kind == .file ? try self.filesystem.files.acquire(intent.item) : nil
            }
            guard let file else { continue }
            let outcome = await complete(file, tell)
            try await filesystem.files.release(file, on: pool)
            if let outcome { throw outcome }
        }
    }

    /// - Returns: Why the file cannot be brought here.
    private func complete(
        _ file: OpenFile,
        _ tell: @Sendable (ClaimEvent) -> Bool
    ) async -> CloudFSError? {
        guard file.state.withLock({ $0.plan != nil }) else { return nil }
        guard tell(ClaimEvent(.downloading)) else {
            return CloudFSError(.cancelled, "nobody waits for the claim any more")
        }
        do throws(CloudFSError) {
            try await filesystem.hydrator.complete(file)
            return nil
        } catch {
            return error
        }
    }

    private func paths(
        of intents: [AccessIntent],
        _ order: ClaimOrder
    ) throws(CloudFSError) -> [DrivePath] {
        try catalog.read { reader in
            try zip(intents, order.intents).map { intent, wish in
                try path(of: intent.item, reader) ?? wish.path
            }
        }
    }

    /// Runs `body` and ends it when the claim is taken away.
    ///
    /// - Throws: `claimed` if it was.
    private func whileHeld(
        _ claim: Claim,
        _ body: @escaping @Sendable () async throws(CloudFSError) -> Void
    ) async throws(CloudFSError) {
        let task = Task { () -> CloudFSError? in
            do throws(CloudFSError) {
                try await body()
                return nil
            } catch {
                return error
            }
        }
        claim.onRevoke { task.cancel() }
        let failure = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        if claim.isRevoked { throw Self.takenAway }
        if let failure { throw failure }
    }

    private static var takenAway: CloudFSError {
        CloudFSError(.claimed, "the claim was taken away")
    }

    private func waitUntilTakenAway(_ claim: Claim) async throws(CloudFSError) {
        let end = PendingResult<Void>()
        claim.onRevoke {
            end.resolve(.failure(Self.takenAway))
        }
        let outcome = await withTaskCancellationHandler {
            await end.value()
        } onCancel: {
            end.resolve(.success(()))
        }
        try outcome.get()
    }

    func endClaim(_ id: UInt64) async throws(CloudFSError) {
        try filesystem.coordinator.takeAway(id)
    }

    // MARK: - Showing

    func claims() async throws(CloudFSError) -> ClaimList {
        let (shown, presenters) = (filesystem.coordinator.shown, filesystem.board.presenters)
        return try await pool.engine {
            try self.catalog.read { reader in
                ClaimList(
                    claims: try shown.map { try self.status(of: $0, reader) },
                    presenters: try presenters.map { presenter in
                        PresenterStatus(
                            id: presenter.id.rawValue,
                            path: try self.path(of: presenter.item, reader),
                            holder: .init(presenter.claimant),
                            isSilent: presenter.isSilent
                        )
                    },
                    leases: try self.leaseStatus(reader)
                )
            }
        }
    }

    private func status(of claim: Coordinator.Shown, _ reader: CatalogReader) throws -> ClaimStatus
    {
        let isProgram = claim.request.claimant.purpose.isForeign
        return ClaimStatus(
            id: claim.request.id.rawValue,
            isHeld: claim.isHeld,
            holder: .init(claim.request.claimant),
            intents: try claim.request.intents.compactMap { try intent($0, reader) },
            ageSeconds: isProgram ? claim.age / .seconds(1) : nil,
            behind: Self.unique(claim.behind)
        )
    }

    private func intent(_ intent: AccessIntent, _ reader: CatalogReader) throws -> ClaimIntent? {
        let place = filesystem.promisedNames.place(intent.item)
        let folder = try place.flatMap { try path(of: $0.parent, reader) }
        let promised = place.flatMap { DrivePath(names: (folder?.names ?? []) + [$0.name]) }
        guard let path = try promised ?? path(of: intent.item, reader) else { return nil }
        return ClaimIntent(
            path: path,
            access: intent.weight == .write ? .write : .read,
            options: intent.access.options
        )
    }

    private static func unique(_ claimants: [Claimant]) -> [ClaimStatus.Holder] {
        var seen: Set<Claimant> = []
        return claimants.filter { seen.insert($0).inserted }.map { .init($0) }
    }

    // MARK: - Presenters and watchers

    func present(
        _ order: PresenterOrder,
        for peer: ControlPeer,
        tell: @escaping @Sendable (PresenterEvent) -> Bool
    ) async throws(CloudFSError) {
        await reach([order.path])
        let item = try await pool.engine { try self.catalog.read { try self.find(order.path, $0) } }
        let purpose = Purpose.program(order.purpose ?? "\(peer.process).\(nextPurpose())")
        let kinds = order.hears.map { Set($0.compactMap { PresenterMessage.Kind($0) }) }
        let (messages, inbox) = AsyncStream.makeStream(
            of: PresenterMessage.self,
            bufferingPolicy: .bufferingOldest(1_024)
        )
        let id = filesystem.board.add(
            item.id,
            by: Claimant(purpose, process: peer.process),
            hearing: kinds ?? Set(PresenterMessage.Kind.allCases)
        ) { message in
            guard case .enqueued = inbox.yield(message) else {
                // Its connection ends with that, and it presents anew.
                inbox.finish()
                return false
            }
            return true
        }
        defer { filesystem.board.remove(id) }
        let first = PresenterEvent(
            id: id.rawValue,
            kind: .presenting,
            path: order.path,
            wantsAnswer: false
        )
        guard tell(first) else { return }
        for await message in messages {
            let path = try await pool.engine {
                try self.catalog.read { try self.path(of: message.item, $0) }
            }
            guard tell(PresenterEvent(message, at: path)) else { return }
        }
    }

    func answer(_ answer: PresenterAnswer) async throws(CloudFSError) {
        let failure = answer.failure.map { text in
            CloudFSError(.claimed, "a program that presents the item refuses: \(text)")
        }
        try filesystem.board.answer(
            answer.message,
            of: .init(rawValue: answer.presenter),
            failure: failure
        )
    }

    func watch(tell: @escaping @Sendable (DriveEvent) -> Bool) async throws(CloudFSError) {
        let end = PendingResult<Void>()
        let token = news.addWatcher { event in
            if !tell(event) { end.resolve(.success(())) }
        }
        defer { news.removeWatcher(token) }
        guard tell(DriveEvent(.listening)) else { return }
        _ = await withTaskCancellationHandler {
            await end.value()
        } onCancel: {
            end.resolve(.success(()))
        }
    }
}

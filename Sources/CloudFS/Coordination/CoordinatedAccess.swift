/// One access of a program that asks for it: presenters are asked first, then items are claimed,
/// and at the end those who let go hear that they may have their items back.
///
/// Presenters are asked before the claim takes its place among those who wait, so what they save
/// is never kept back by the access that made them save.
struct CoordinatedAccess: Sendable {
    let coordinator: Coordinator
    let board: PresenterBoard
    /// All folders around an item, and no others.
    let folders: @Sendable (ItemID) throws(CloudFSError) -> Set<ItemID>

    /// What one access is for.
    struct Request: Sendable {
        /// Looks up the items: what presenters save in between may be another one by then.
        var intents: @Sendable () throws(CloudFSError) -> [AccessIntent]
        var claimant: Claimant
        /// The presenter that asks itself, and so is not asked.
        var presenter: PresenterBoard.PresenterID?
        /// Until when it is waited for.
        var end: ContinuousClock.Instant
    }

    /// A claim, and who let go of its items for it.
    struct Granted: Sendable {
        var claim: Claim
        fileprivate var relinquished: [PresenterBoard.PresenterID]
    }

    /// A presenter, and which of the intents it is asked about.
    private struct Asked: Sendable, Hashable {
        var presenter: PresenterBoard.PresenterID
        var index: Int
    }

    private struct Questions: Sendable {
        var kinds: [PresenterMessage.Kind]
        var item: ItemID
    }

    /// How often it is looked for presenters that came while the claim was waited for.
    private static let roundsOfAsking = 3
    /// How often the items are claimed that have the names by then.
    private static let mostRounds = 10

    /// Asks presenters and claims the items.
    ///
    /// - Throws: What a presenter answers as an error; `timedOut`, `deadlock`, `cancelled`,
    ///   `tooManyOpen`, `claimed`; those who let go have their items back then.
    func begin(_ request: Request) async throws(CloudFSError) -> Granted {
        var asked: Set<Asked> = []
        var relinquished: [PresenterBoard.PresenterID] = []
        do throws(CloudFSError) {
            for round in 1...Self.mostRounds {
                try await ask(request, &asked, &relinquished)
                let claim = try await claim(request)
                let others = try newcomers(request, asked)
                if others.isEmpty || round >= Self.roundsOfAsking, try isCurrent(claim, request) {
                    return Granted(claim: claim, relinquished: relinquished)
                }
                claim.end()
            }
            throw CloudFSError(.claimed, "what has its name is replaced over and over")
        } catch {
            giveBack(relinquished)
            throw error
        }
    }

    /// Ends the access.
    func end(_ granted: Granted) {
        granted.claim.end()
        giveBack(granted.relinquished)
    }

    private func claim(_ request: Request) async throws(CloudFSError) -> Claim {
        try await coordinator.claim(
            try request.intents(),
            by: request.claimant,
            timeout: max(.zero, request.end - .now)
        )
    }

    /// Whether what is claimed still has the names: it may have lost them, or a name may have got
    /// an item, after it was looked up and before the claim took its place.
    private func isCurrent(_ claim: Claim, _ request: Request) throws(CloudFSError) -> Bool {
        try request.intents().map(\.item) == coordinator.intents(of: claim).map(\.item)
    }

    private func giveBack(_ relinquished: [PresenterBoard.PresenterID]) {
        for presenter in board.presenters where relinquished.contains(presenter.id) {
            board.tell(presenter.id, .reacquire, about: presenter.item)
        }
    }

    // MARK: - Presenters

    /// Asks everybody concerned who was not asked yet; each in order, all of them at once.
    private func ask(
        _ request: Request,
        _ asked: inout Set<Asked>,
        _ relinquished: inout [PresenterBoard.PresenterID]
    ) async throws(CloudFSError) {
        let plan = try newcomers(request, asked)
        guard !plan.isEmpty else { return }
        asked.formUnion(plan.keys)
        relinquished += plan.filter { $0.value.kinds.contains(where: \.isRelinquishing) }
            .map(\.key.presenter)
        let failure = await withTaskGroup(of: CloudFSError?.self) { group in
            for (each, questions) in plan {
                group.addTask { [board] in
                    do throws(CloudFSError) {
                        for kind in questions.kinds {
                            try await board.ask(each.presenter, kind, about: questions.item)
                        }
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            return await group.reduce(nil) { $0 ?? $1 }
        }
        if let failure { throw failure }
    }

    /// What is to be asked of presenters that were not asked yet.
    private func newcomers(
        _ request: Request,
        _ asked: Set<Asked>
    ) throws(CloudFSError) -> [Asked: Questions] {
        var plan: [Asked: Questions] = [:]
        let others = board.presenters.filter { presenter in
            presenter.id != request.presenter
                && presenter.claimant.purpose != request.claimant.purpose
        }
        guard !others.isEmpty else { return [:] }
        for (index, intent) in try request.intents().enumerated() {
            let around = try folders(intent.item)
            for presenter in others {
                let each = Asked(presenter: presenter.id, index: index)
                let kinds = try questions(intent, around, presenter)
                guard !kinds.isEmpty, !asked.contains(each) else { continue }
                plan[each] = Questions(kinds: kinds, item: intent.item)
            }
        }
        return plan
    }

    private func questions(
        _ intent: AccessIntent,
        _ around: Set<ItemID>,
        _ presenter: PresenterBoard.Presenter
    ) throws(CloudFSError) -> [PresenterMessage.Kind] {
        if presenter.item == intent.item { return intent.questions }
        if around.contains(presenter.item) {
            return intent.questions.contains(.accommodateDeletion)
                ? [.accommodateSubitemDeletion] : []
        }
        guard intent.isSweeping, try folders(presenter.item).contains(intent.item) else {
            return []
        }
        return intent.questions
    }
}

extension PresenterMessage.Kind {
    /// Whether whoever is asked gets its item back later.
    fileprivate var isRelinquishing: Bool {
        self == .relinquishToReader || self == .relinquishToWriter
    }
}

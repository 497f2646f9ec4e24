import Synchronization

/// Those who present items: programs that show a document, and are asked to save it or to let go of
/// it before others read or write.
///
/// A presenter that does not answer in time is passed over and noted as silent: one that hangs must
/// not keep everybody else from a document. One whose connection ends has answered everything.
final class PresenterBoard: Sendable {
    struct PresenterID: Hashable, Sendable {
        let rawValue: UInt64
    }

    /// A program that presents one item.
    struct Presenter: Sendable {
        var id: PresenterID
        var item: ItemID
        var claimant: Claimant
        /// What it wants to hear; everything else is neither asked nor told.
        var kinds: Set<PresenterMessage.Kind>
        /// Whether it let a question go unanswered.
        var isSilent = false
        fileprivate var deliver: @Sendable (PresenterMessage) -> Bool
    }

    private struct Question {
        var presenter: PresenterID
        var answer: PendingResult<Void>
    }

    private struct State {
        var presenters: [PresenterID: Presenter] = [:]
        var questions: [UInt64: Question] = [:]
        var next: UInt64 = 1

        mutating func number() -> UInt64 {
            defer { next += 1 }
            return next
        }
    }

    private let state = Mutex(State())
    private let clock: any Clock<Duration>
    /// How long a presenter may take for one answer.
    let patience: Duration

    init(clock: any Clock<Duration> = ContinuousClock(), patience: Duration = .seconds(5)) {
        self.clock = clock
        self.patience = patience
    }

    var isEmpty: Bool { state.withLock { $0.presenters.isEmpty } }

    /// All presenters, in the order they came.
    var presenters: [Presenter] {
        state.withLock { $0.presenters.values.sorted { $0.id.rawValue < $1.id.rawValue } }
    }

    /// Lets a program present an item, until `remove`.
    ///
    /// - Parameter deliver: Passes a message on and returns at once; `false` if nobody gets it.
    func add(
        _ item: ItemID,
        by claimant: Claimant,
        hearing kinds: Set<PresenterMessage.Kind>,
        deliver: @escaping @Sendable (PresenterMessage) -> Bool
    ) -> PresenterID {
        state.withLock { state in
            let id = PresenterID(rawValue: state.number())
            state.presenters[id] = Presenter(
                id: id,
                item: item,
                claimant: claimant,
                kinds: kinds,
                deliver: deliver
            )
            return id
        }
    }

    func remove(_ id: PresenterID) {
        let open = state.withLock { state in
            state.presenters[id] = nil
            let open = state.questions.filter { $0.value.presenter == id }
            for number in open.keys { state.questions[number] = nil }
            return open.values.map(\.answer)
        }
        for answer in open { answer.resolve(.success(())) }
    }

    /// Has those who present an item present the one that took its place.
    func pass(_ item: ItemID, to heir: ItemID) {
        state.withLock { state in
            for (id, presenter) in state.presenters where presenter.item == item {
                state.presenters[id]?.item = heir
            }
        }
    }

    // MARK: - Questions

    /// Asks one presenter, and waits for its answer for as long as it may take.
    ///
    /// - Throws: What the presenter answers as an error; `cancelled`.
    func ask(
        _ id: PresenterID,
        _ kind: PresenterMessage.Kind,
        about item: ItemID
    ) async throws(CloudFSError) {
        let answer = PendingResult<Void>()
        let asked = state.withLock { state -> (Presenter, PresenterMessage)? in
            guard let presenter = state.presenters[id], presenter.kinds.contains(kind) else {
                return nil
            }
            let message = PresenterMessage(id: state.number(), kind: kind, item: item)
            state.questions[message.id] = Question(presenter: id, answer: answer)
            return (presenter, message)
        }
        guard let (presenter, message) = asked else { return }
        guard presenter.deliver(message) else { return remove(id) }
        let alarm = Task { [clock, patience, weak self] in
            // Cancelled when there is an answer: then nobody is silent.
            guard (try? await clock.sleep(for: patience)) != nil else { return }
            self?.giveUp(message.id)
        }
        defer { alarm.cancel() }
        let outcome = await withTaskCancellationHandler {
            await answer.value()
        } onCancel: {
            take(message.id)?.resolve(
                .failure(CloudFSError(.cancelled, "nobody waits for a presenter any more"))
            )
        }
        try outcome.get()
    }

    /// Takes an answer; one that nobody waits for any more is ignored.
    ///
    /// - Parameter failure: Why the presenter cannot do what it was asked for.
    /// - Throws: `notFound` if the presenter is another one.
    func answer(
        _ message: UInt64,
        of presenter: PresenterID,
        failure: CloudFSError? = nil
    ) throws(CloudFSError) {
        let question = state.withLock { state -> Question? in
            guard let question = state.questions[message], question.presenter == presenter else {
                return nil
            }
            state.questions[message] = nil
            state.presenters[presenter]?.isSilent = false
            return question
        }
        guard let question else {
            throw CloudFSError(.notFound, "nobody waits for an answer to message \(message)")
        }
        question.answer.resolve(failure.map { .failure($0) } ?? .success(()))
    }

    private func giveUp(_ message: UInt64) {
        let question = state.withLock { state -> Question? in
            guard let question = state.questions.removeValue(forKey: message) else { return nil }
            state.presenters[question.presenter]?.isSilent = true
            return question
        }
        question?.answer.resolve(.success(()))
    }

    private func take(_ message: UInt64) -> PendingResult<Void>? {
        state.withLock { $0.questions.removeValue(forKey: message)?.answer }
    }

    // MARK: - News

    /// Tells a presenter something that wants no answer.
    func tell(_ id: PresenterID, _ kind: PresenterMessage.Kind, about item: ItemID) {
        let told = state.withLock { state -> (Presenter, PresenterMessage)? in
            guard let presenter = state.presenters[id], presenter.kinds.contains(kind) else {
                return nil
            }
            return (presenter, PresenterMessage(id: state.number(), kind: kind, item: item))
        }
        guard let (presenter, message) = told else { return }
        if !presenter.deliver(message) { remove(id) }
    }
}

import CloudFSControlAPI
import Foundation
import Synchronization

/// The presenters of this process, each with its connection to the drive of its item.
final class PresenterRegistry: Sendable {
    static let shared = PresenterRegistry()

    private struct Entry: Sendable {
        var task: Task<Void, Never>
        /// What the drive calls it; known while it is connected.
        var number: UInt64?
    }

    private let entries = Mutex<[ObjectIdentifier: Entry]>([:])
    private let locate: @Sendable (String) throws -> DriveLocator.Location

    /// How long is waited before a drive that has ended is looked for again.
    private static let pause = Duration.milliseconds(200)

    /// - Parameter locate: Says where a path lies.
    init(
        locating locate: @escaping @Sendable (String) throws -> DriveLocator.Location = { path in
            try DriveLocator.current().location(of: path)
        }
    ) {
        self.locate = locate
    }

    func number(of presenter: any FilePresenter) -> UInt64? {
        entries.withLock { $0[ObjectIdentifier(presenter)]?.number }
    }

    func add(_ presenter: any FilePresenter) async throws {
        let path = presenter.presentedItemURL.path(percentEncoded: false)
        try await add(presenter, at: locate(path))
    }

    /// - Parameter place: Where the presented item is.
    func add(_ presenter: any FilePresenter, at place: DriveLocator.Location) async throws {
        let id = ObjectIdentifier(presenter)
        let (connected, isConnected) = AsyncThrowingStream.makeStream(of: Void.self)
        // Begun under the lock: what the drive calls it is noted in the entry.
        let task = entries.withLock {
            $0[id]?.task.cancel()
            let task = Task { [weak presenter] in
                let drive = place.drive
                await self.follow({ presenter }, id, at: place.path, in: drive, isConnected)
            }
            $0[id] = Entry(task: task)
            return task
        }
        do {
            for try await _ in connected { return }
            throw CancellationError()
        } catch {
            task.cancel()
            // It may have been added once more meanwhile.
            entries.withLock { if $0[id]?.task == task { $0[id] = nil } }
            throw error
        }
    }

    /// Passes on what the drive tells, until the presenter is gone or removed.
    private func follow(
        _ presenter: () -> (any FilePresenter)?,
        _ id: ObjectIdentifier,
        at first: DrivePath,
        in drive: DriveAddress,
        _ isConnected: AsyncThrowingStream<Void, any Error>.Continuation
    ) async {
        // Whoever waits for it to be connected does not wait for ever.
        defer { isConnected.finish(throwing: CancellationError()) }
        var path = first
        // What the presenter calls that place: it may not follow what others move.
        var url = presenter()?.presentedItemURL
        var isAgain = false
        // Whether it was asked to let go of its item, and not told yet that it has it again.
        var hasLetGo = false
        while !Task.isCancelled {
            // What a program moves itself, the drive does not tell it.
            if isAgain, let now = presenter()?.presentedItemURL, now != url,
                let moved = place(of: now, in: drive)
            {
                path = moved
                url = now
            }
            do {
                for try await event in DriveClient(drive).present(PresenterOrder(path: path)) {
                    guard let presenter = presenter() else { return }
                    if event.kind == .presenting {
                        note(event.id, of: id)
                        isConnected.yield(())
                        // The access it let go for ended with the old daemon.
                        if hasLetGo { await presenter.reacquirePresentedItem() }
                        hasLetGo = false
                        // What happened in between was not told.
                        if isAgain { await presenter.presentedItemDidChange() }
                        isAgain = true
                    } else {
                        // Also one that then fails may have let go.
                        hasLetGo = event.kind.letsGo ?? hasLetGo
                        await pass(event, to: presenter, id, drive)
                    }
                    if event.kind == .didMove, let moved = event.path {
                        path = moved
                        url = presenter.presentedItemURL
                    }
                }
            } catch {
                isConnected.finish(throwing: error)
                // Gone for good: there is nothing to be told any more.
                if case DriveClientError.failure(let failure) = error, failure.code == "notFound" {
                    guard isAgain, let presenter = presenter() else { return }
                    if hasLetGo { await presenter.reacquirePresentedItem() }
                    return await presenter.presentedItemWasDeleted()
                }
            }
            // Another daemon takes over: it is told of the presenter again, and numbers it anew.
            note(nil, of: id)
            try? await Task.sleep(for: Self.pause)
        }
    }

    /// Where an item is now; `nil` if that is not known, or not in this drive.
    private func place(of url: URL, in drive: DriveAddress) -> DrivePath? {
        // While nobody listens, links in the drive are not followed.
        guard let place = try? locate(url.path(percentEncoded: false)),
            place.drive.mountpoint == drive.mountpoint, place.drive.isListening
        else { return nil }
        return place.path
    }

    func remove(_ presenter: any FilePresenter) {
        entries.withLock { $0.removeValue(forKey: ObjectIdentifier(presenter))?.task.cancel() }
    }

    /// Notes what the drive calls a presenter; called by its task.
    private func note(_ number: UInt64?, of id: ObjectIdentifier) {
        entries.withLock { entries in
            // The entry may be another task's by now: this one was cancelled first.
            guard !Task.isCancelled else { return }
            entries[id]?.number = number
        }
    }

    private func pass(
        _ event: PresenterEvent,
        to presenter: any FilePresenter,
        _ id: ObjectIdentifier,
        _ drive: DriveAddress
    ) async {
        let url = event.path.map { drive.url(of: $0) }
        var failure: String?
        do {
            try await Self.call(presenter, event.kind, url)
        } catch {
            failure = "\(error)"
        }
        guard event.wantsAnswer, let number = entries.withLock({ $0[id]?.number }) else { return }
        let answer = PresenterAnswer(presenter: number, message: event.id, failure: failure)
        do {
            try await DriveClient(drive).answer(answer)
        } catch {
            // Nobody waits for it any more: it came too late, or the daemon has changed.
        }
    }

    private static func call(
        _ presenter: any FilePresenter,
        _ kind: PresenterEvent.Kind,
        _ url: URL?
    ) async throws {
        let place = url ?? presenter.presentedItemURL
        switch kind {
        case .presenting: break
        case .relinquishToReader: try await presenter.relinquishPresentedItem(to: .reading)
        case .relinquishToWriter: try await presenter.relinquishPresentedItem(to: .writing)
        case .saveChanges: try await presenter.savePresentedItemChanges()
        case .accommodateDeletion: try await presenter.accommodatePresentedItemDeletion()
        case .accommodateSubitemDeletion:
            try await presenter.accommodatePresentedSubitemDeletion(at: place)
        // Nothing to do: the bytes stay in the cloud.
        case .accommodateEviction: break
        case .reacquire: await presenter.reacquirePresentedItem()
        case .didChange: await presenter.presentedItemDidChange()
        case .didMove: await presenter.presentedItemDidMove(to: place)
        case .wasDeleted: await presenter.presentedItemWasDeleted()
        case .didChangeAttributes: await presenter.presentedItemDidChangeUbiquityAttributes()
        case .didGainVersion: await presenter.presentedItemDidGainVersion(at: place)
        case .didResolveVersion: await presenter.presentedItemDidResolveVersion()
        case .subitemDidAppear: await presenter.presentedSubitemDidAppear(at: place)
        case .subitemDidChange: await presenter.presentedSubitemDidChange(at: place)
        case .subitemDidMove: await presenter.presentedSubitemDidMove(to: place)
        case .subitemWasDeleted: await presenter.presentedSubitemWasDeleted()
        }
    }
}

extension PresenterEvent.Kind {
    /// Whether a presenter that hears it has let go of its item; `nil` where that changes nothing.
    fileprivate var letsGo: Bool? {
        switch self {
        case .relinquishToReader, .relinquishToWriter: true
        case .reacquire: false
        default: nil
        }
    }
}

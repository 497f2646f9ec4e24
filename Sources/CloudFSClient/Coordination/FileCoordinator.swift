import CloudFSControlAPI
public import Foundation
import Synchronization

/// Coordinates reading and writing of items with other programs, as `NSFileCoordinator`.
///
/// What differs: accessors are asynchronous; accesses of one coordinator do not wait for each
/// other, whichever tasks they run in; an access that is lost, because the drive has ended or
/// somebody took the claim away, does not stop its accessor, but the call then throws. Inside an
/// accessor, plain calls on the items are let through for this process and those it starts.
public final class FileCoordinator: Sendable {
    /// Coordinators with the same purpose never wait for each other, in whichever process.
    public let purposeIdentifier: String
    /// The number of the presenter that accesses on behalf of itself.
    private let presenter: (any FilePresenter)?
    private let waiting = Mutex<[UUID: Task<[HeldClaim], any Error>]>([:])

    public init(purposeIdentifier: String = UUID().uuidString) {
        self.purposeIdentifier = purposeIdentifier
        presenter = nil
    }

    /// A coordinator whose accesses send no messages to `filePresenter`.
    public init(filePresenter: any FilePresenter) {
        purposeIdentifier = UUID().uuidString
        presenter = filePresenter
    }

    // MARK: - Accesses

    /// Waits for all of `intents` together, and runs `accessor` while it has them.
    ///
    /// - Parameters:
    ///   - intents: Items of one drive or of several; those of one are had at once.
    ///   - timeout: How long to wait.
    ///   - accessor: Gets the intents with their items' present URLs.
    /// - Throws: `DriveClientError`; what `accessor` throws; `ClaimLost` if the access ended before
    ///   it did; `CancellationError`.
    public func coordinate<Value: Sendable>(
        with intents: [FileAccessIntent],
        timeout: Duration = .seconds(30),
        isolation: isolated (any Actor)? = #isolation,
        _ accessor: ([FileAccessIntent]) async throws -> Value
    ) async throws -> Value {
        var plan = try Plan(intents)
        let claims = try await hold(plan.orders(purposeIdentifier, presenterNumber, timeout))
        defer { for claim in claims { claim.end() } }
        plan.note(claims)
        let value = try await accessor(plan.intents)
        for claim in claims where claim.isLost { throw ClaimLost() }
        return value
    }

    /// Reads an item.
    public func coordinate<Value: Sendable>(
        readingItemAt url: URL,
        options: FileAccessIntent.ReadingOptions = [],
        isolation: isolated (any Actor)? = #isolation,
        _ accessor: (URL) async throws -> Value
    ) async throws -> Value {
        try await coordinate(with: [.reading(url, options: options)]) { intents in
            try await accessor(intents[0].url)
        }
    }

    /// Writes an item.
    public func coordinate<Value: Sendable>(
        writingItemAt url: URL,
        option: FileAccessIntent.WritingOption = .updating,
        isolation: isolated (any Actor)? = #isolation,
        _ accessor: (URL) async throws -> Value
    ) async throws -> Value {
        try await coordinate(with: [.writing(url, option: option)]) { intents in
            try await accessor(intents[0].url)
        }
    }

    /// Ends all waits of this coordinator: the calls throw `CancellationError`.
    ///
    /// Accessors that run go on.
    public func cancel() {
        let tasks = waiting.withLock { Array($0.values) }
        for task in tasks { task.cancel() }
    }

    private var presenterNumber: UInt64? {
        presenter.flatMap { PresenterRegistry.shared.number(of: $0) }
    }

    private func hold(
        _ orders: [(client: DriveClient, order: ClaimOrder)]
    ) async throws -> [HeldClaim] {
        let task = Task {
            var held: [HeldClaim] = []
            for (client, order) in orders {
                held.append(try await HeldClaim.wait(for: order, of: client))
            }
            return held
        }
        let id = UUID()
        waiting.withLock { $0[id] = task }
        defer { waiting.withLock { _ = $0.removeValue(forKey: id) } }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    // MARK: - Presenters

    /// Has `presenter` asked and told about its item, until it is removed.
    ///
    /// Returns when the drive knows of it: what happens from then on is told. Begun inside of an
    /// access to the item, nothing is missed between reading it and listening.
    ///
    /// - Throws: `DriveClientError` if its item is in no drive, or is not there.
    public static func addFilePresenter(_ presenter: any FilePresenter) async throws {
        try await PresenterRegistry.shared.add(presenter)
    }

    /// Ends what `addFilePresenter` began; messages under way may still arrive.
    public static func removeFilePresenter(_ presenter: any FilePresenter) {
        PresenterRegistry.shared.remove(presenter)
    }
}

/// The items of one access, sorted by the drives they are in.
private struct Plan {
    private struct Part {
        var drive: DriveAddress
        /// Which of the intents, and where in the drive.
        var items: [(index: Int, path: DrivePath)]
    }

    private(set) var intents: [FileAccessIntent]
    private var parts: [Part] = []

    init(_ intents: [FileAccessIntent]) throws {
        self.intents = intents
        let locator = try DriveLocator.current()
        for (index, intent) in intents.enumerated() {
            let place = try locator.location(of: intent.url.path(percentEncoded: false))
            if let known = parts.firstIndex(where: {
                $0.drive.mountpoint == place.drive.mountpoint
            }) {
                parts[known].items.append((index, place.path))
            } else {
                parts.append(Part(drive: place.drive, items: [(index, place.path)]))
            }
        }
        // Everybody takes drives in this order: no two programs can wait for each other.
        parts.sort { $0.drive.mountpoint < $1.drive.mountpoint }
    }

    func orders(
        _ purpose: String,
        _ presenter: UInt64?,
        _ timeout: Duration
    ) -> [(client: DriveClient, order: ClaimOrder)] {
        parts.map { part in
            let order = ClaimOrder(
                intents: part.items.map { intents[$0.index].wire(at: $0.path) },
                purpose: purpose,
                timeoutSeconds: timeout / .seconds(1),
                presenter: presenter
            )
            return (DriveClient(part.drive), order)
        }
    }

    /// Takes over where the items were when they were granted.
    mutating func note(_ claims: [HeldClaim]) {
        for (part, claim) in zip(parts, claims) {
            for (item, path) in zip(part.items, claim.paths) {
                intents[item.index].url = part.drive.url(of: path)
            }
        }
    }
}

extension DriveAddress {
    /// Where programs find an item of the drive.
    func url(of path: DrivePath) -> URL {
        path.names.reduce(URL(filePath: mountpoint, directoryHint: .isDirectory)) { url, name in
            url.appending(path: String(decoding: name, as: UTF8.self), directoryHint: .notDirectory)
        }
    }
}

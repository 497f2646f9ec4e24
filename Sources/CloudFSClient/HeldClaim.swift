public import CloudFSControlAPI
import Synchronization

/// A claim that a drive has granted, until it is ended or let go of.
public final class HeldClaim: Sendable {
    /// Where the items are now, in the order they were asked for.
    public let paths: [DrivePath]
    private let ending: Task<any Error, Never>
    private let loss: Loss

    /// Whether the drive has ended it.
    private final class Loss: Sendable {
        let isReached = Atomic(false)
    }

    private init(_ paths: [DrivePath], _ ending: Task<any Error, Never>, _ loss: Loss) {
        self.paths = paths
        self.ending = ending
        self.loss = loss
    }

    /// Whether others may use the items by now, as the drive has taken the claim away or ended.
    public var isLost: Bool { loss.isReached.load(ordering: .sequentiallyConsistent) }

    deinit {
        end()
    }

    /// Waits until the drive grants what is asked for.
    ///
    /// - Parameter told: Hears of every state on the way.
    /// - Throws: `DriveClientError`, of which `failure` has the drive's reason: `timedOut`,
    ///   `deadlock`, `notFound`; `CancellationError`.
    public static func wait(
        for order: ClaimOrder,
        of client: DriveClient,
        told: @escaping @Sendable (ClaimEvent) -> Void = { _ in }
    ) async throws -> HeldClaim {
        let (granted, isGranted) = AsyncThrowingStream.makeStream(of: [DrivePath].self)
        let loss = Loss()
        let ending = Task { () -> any Error in
            defer { loss.isReached.store(true, ordering: .sequentiallyConsistent) }
            do {
                for try await event in client.claim(order) {
                    told(event)
                    if event.state == .granted { isGranted.yield(event.paths ?? []) }
                }
                throw ClaimLost()
            } catch {
                isGranted.finish(throwing: error)
                return error
            }
        }
        do {
            for try await paths in granted { return HeldClaim(paths, ending, loss) }
            throw CancellationError()
        } catch {
            ending.cancel()
            throw error
        }
    }

    /// Gives the claim up.
    public func end() { ending.cancel() }

    /// Waits until the drive has taken the claim away, or was asked to end it, and says why.
    public func reasonOfLoss() async -> any Error { await ending.value }
}

/// The drive that had granted a claim has ended.
public struct ClaimLost: Error, CustomStringConvertible {
    public let description = "the drive has ended"
}

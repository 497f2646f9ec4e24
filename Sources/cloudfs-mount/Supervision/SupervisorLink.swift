import CloudFS
import Glibc
import Synchronization

/// The supervisor, as the drive of a worker sees it.
final class SupervisorLink: DriveKeeper {
    private typealias Refusal = CheckedContinuation<CloudFSError, Never>

    let process = getppid()
    private let channel: MessageSocket
    /// Those who asked for another worker, until they hear that there is none.
    private let askers = Mutex<[Refusal]>([])

    init(_ channel: MessageSocket) {
        self.channel = channel
    }

    /// Hears the supervisor's orders, on a thread of its own.
    ///
    /// - Parameter end: Called with the signal by which the drive is to end.
    func listen(_ end: @escaping @Sendable (Int32) -> Void) {
        OwnThread.start("cloudfs-orders") { [self] in
            while let message = channel.receive() {
                for descriptor in message.descriptors { close(descriptor) }
                switch SupervisorOrder(message.text) {
                case .end(let signal): end(signal)
                case .goOn(let reason): refuse(reason)
                case .begin, nil: continue
                }
            }
            // Without a supervisor nobody could take over; the kernel sees it the same way.
            kill(getpid(), SIGKILL)
        }
    }

    func didMount(_ device: Int32, isResumable: Bool) {
        channel.send(.mounted(isResumable: isResumable), [device])
    }

    func didEnd() {
        channel.send(.over)
    }

    /// Waits for the end of this process, or for the word that it goes on.
    func restart() async throws(CloudFSError) {
        throw await withCheckedContinuation { (continuation: Refusal) in
            askers.withLock { $0.append(continuation) }
            channel.send(.restart)
        }
    }

    private func refuse(_ reason: String) {
        let asking = askers.withLock { askers in
            defer { askers = [] }
            return askers
        }
        for asker in asking { asker.resume(returning: CloudFSError(.claimed, reason)) }
    }
}

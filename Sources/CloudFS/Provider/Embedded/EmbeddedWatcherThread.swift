import CLinux
import Glibc

/// The one thread that waits for the kernel's news of a cloud directory.
///
/// A thread of its own, because it waits for as long as nothing happens; it wakes up for nothing
/// else.
final class EmbeddedWatcherThread: Sendable {
    private let wakeUp: EmbeddedDescriptor

    /// Starts the thread, whose `body` must return when its descriptor becomes readable.
    init(_ body: @escaping @Sendable (_ wakeUp: EmbeddedDescriptor) -> Void) throws(CloudFSError) {
        do {
            wakeUp = EmbeddedDescriptor(
                owning: try EmbeddedSystem.check("eventfd") { clinux_eventfd() }
            )
        } catch {
            throw error.error(at: .root)
        }
        let wakeUp = wakeUp
        let result = OwnThread.attempt("cloudfs-watch") { body(wakeUp) }
        guard result == 0 else {
            throw EmbeddedFailure(call: "pthread_create", errorNumber: result).error(at: .root)
        }
    }

    /// Asks the thread to end; it does so on its own.
    func stop() {
        var one: UInt64 = 1
        // Fails only when the counter is full, and then the thread has been woken long ago.
        _ = write(wakeUp.rawValue, &one, 8)
    }
}

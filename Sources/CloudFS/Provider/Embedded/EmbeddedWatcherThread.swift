import CLinux
import Glibc

/// The one thread that waits for the kernel's news of a cloud directory.
///
/// A thread of its own, because it waits for as long as nothing happens; it wakes up for nothing
/// else.
final class EmbeddedWatcherThread: Sendable {
    private let wakeUp: EmbeddedDescriptor

    /// Starts the thread.
    ///
    /// Its `body` looks at its feed when its descriptor becomes readable: there is a question, or
    /// the feed has ended and so must the thread.
    init(_ body: @escaping @Sendable (_ wakeUp: EmbeddedDescriptor) -> Void) throws(CloudFSError) {
        do {
            wakeUp = EmbeddedDescriptor(
                owning: try EmbeddedSystem.check("eventfd") { clinux_eventfd() }
            )
        } catch {
            throw error.error(at: .root)
        }
        let wakeUp = wakeUp
        let work = Unmanaged.passRetained(Work { body(wakeUp) })
        var thread = pthread_t()
        let result = pthread_create(
            &thread,
            nil,
            { argument in
                if let argument {
                    let work = Unmanaged<Work>.fromOpaque(argument).takeRetainedValue()
                    clinux_name_thread("cloudfs-watch")
                    work.body()
                }
                return nil
            },
            work.toOpaque()
        )
        guard result == 0 else {
            work.release()
            throw EmbeddedFailure(call: "pthread_create", errorNumber: result).error(at: .root)
        }
        pthread_detach(thread)
    }

    /// Has the thread look at its feed.
    func wake() {
        var one: UInt64 = 1
        // Fails only when the counter is full, and then the thread is awake.
        _ = write(wakeUp.rawValue, &one, 8)
    }

    private final class Work: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) {
            self.body = body
        }
    }
}

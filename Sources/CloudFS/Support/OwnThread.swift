import CLinux
import Glibc

/// A thread for what blocks for as long as it lives.
package enum OwnThread {
    /// What is usual on Linux, in bytes; memory is taken for what is used of it only.
    package static let usualStackSize = 8 << 20

    /// Starts a thread that its caller cannot do without: where the system has none left, the
    /// process ends and says so.
    ///
    /// - Parameter name: Shown by tools; at most 15 bytes.
    package static func start(
        _ name: String,
        stackSize: Int = usualStackSize,
        _ body: @escaping @Sendable () -> Void
    ) {
        let result = attempt(name, stackSize: stackSize, body)
        guard result == 0 else {
            fatalError("no thread for \(name): \(String(cString: strerror(result)))")
        }
    }

    /// - Returns: 0, or the number of the error if no thread was started.
    package static func attempt(
        _ name: String,
        stackSize: Int = usualStackSize,
        _ body: @escaping @Sendable () -> Void
    ) -> Int32 {
        assert(name.utf8.count <= 15, "the kernel would cut \(name) off")
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setstacksize(&attributes, stackSize)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        let work = Unmanaged.passRetained(Work(name, body))
        var thread = pthread_t()
        let result = pthread_create(&thread, &attributes, { Work.run($0) }, work.toOpaque())
        if result != 0 { work.release() }
        return result
    }

    private final class Work: Sendable {
        private let name: String
        private let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }

        static func run(_ work: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
            guard let work else { return nil }
            let taken = Unmanaged<Work>.fromOpaque(work).takeRetainedValue()
            clinux_name_thread(taken.name)
            taken.body()
            return nil
        }
    }
}

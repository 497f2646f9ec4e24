import Dispatch
import Glibc

/// Signals as calls.
enum Signals {
    /// Handles signals, from the moment this returns.
    ///
    /// Sources are registered in the background; a signal that came before that would end the
    /// process or be lost.
    static func listen(
        to numbers: [Int32],
        _ handler: @escaping @Sendable (Int32) -> Void
    ) -> [any DispatchSourceSignal] {
        let isRegistered = DispatchSemaphore(value: 0)
        let queue = DispatchQueue(label: "cloudfs.signals")
        let sources = numbers.map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { handler(number) }
            source.setRegistrationHandler { isRegistered.signal() }
            source.resume()
            return source
        }
        for _ in sources { isRegistered.wait() }
        return sources
    }
}

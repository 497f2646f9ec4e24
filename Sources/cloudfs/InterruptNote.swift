import Dispatch
import Glibc

/// Says something when Ctrl-C ends the command, and then lets it end as any command does.
///
/// What the daemon does goes on; the user should know that only the display stopped.
final class InterruptNote {
    private let source: any DispatchSourceSignal

    /// From now until `cancel`, Ctrl-C writes `note` and ends the process by the signal.
    init(_ note: String) {
        signal(SIGINT, SIG_IGN)
        let queue = DispatchQueue(label: "cloudfs-interrupt")
        let source = DispatchSource.makeSignalSource(signal: SIGINT, queue: queue)
        source.setEventHandler {
            Terminal.errors.line("\n\(note)")
            // By the signal and not by `exit`: a shell's loop ends too.
            signal(SIGINT, SIG_DFL)
            kill(getpid(), SIGINT)
        }
        source.resume()
        self.source = source
    }

    func cancel() {
        source.cancel()
        signal(SIGINT, SIG_DFL)
    }
}

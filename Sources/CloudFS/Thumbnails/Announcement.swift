import CLinux
import Glibc

/// Has programs that watch items hear of them, by a call through the mount that changes nothing.
///
/// A process of its own makes it. A thread of the daemon would wait for the daemon: were that
/// killed meanwhile, the kernel would keep the rest of it until somebody answers, and nobody would.
package enum Announcement {
    /// The first argument of such a process; the attribute, and a number and a path for each item,
    /// follow.
    package static let flag = "--announce"

    struct Place: Sendable {
        var item: ItemID
        /// Absolute.
        var path: String
    }

    private static let limit = Duration.seconds(10)

    /// Waits until it is done, or took too long.
    static func make(of places: [Place], by attribute: String) throws(ChildRun.Failure) {
        let words = places.flatMap { ["\($0.item)", $0.path] }
        _ = try ChildRun(
            words: ["/proc/self/exe", flag, attribute] + words,
            environment: [:],
            limit: limit
        ).output()
    }

    /// What such a process does.
    ///
    /// What is at a path must be the item: the drive may be unmounted by now. It fails for files
    /// that may not be written, which are shown with the next view.
    package static func run(_ words: [String]) {
        guard let attribute = words.first else { return }
        var rest = words.dropFirst()
        while let number = rest.popFirst().flatMap({ UInt($0) }), let path = rest.popFirst() {
            var status = stat()
            guard stat(path, &status) == 0, status.st_ino == number else { continue }
            _ = clinux_setxattr(path, attribute, "1", 1)
        }
    }
}

import Glibc

/// What one daemon does for its clients at most.
struct RequestLimits: Sendable {
    /// Requests that are worked on at once; a further one is answered `tooManyOpen`.
    var concurrentRequests = 64
    /// Streams of events, each a claim, a presenter or a watcher; a further one is answered
    /// `tooManyOpen`.
    var streams = 256
    /// Connections that are open at once; further ones wait in the kernel's queue.
    var connections = 512
    /// From the head of a request to its answer.
    var answer = Duration.seconds(30)
    /// The same for requests over whole folders.
    var longAnswer = Duration.seconds(600)
    /// How long a connection may be silent between requests or inside of one.
    var idle = Duration.seconds(60)
    /// How long an answer may lie unread.
    var unread = Duration.seconds(30)
    /// How long requests may go on after the drive began to stop.
    var shutdown = Duration.seconds(2)
    /// Whose processes are served.
    var serves: @Sendable (_ user: UInt32) -> Bool = { $0 == geteuid() || $0 == 0 }
}

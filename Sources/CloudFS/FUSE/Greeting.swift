import Glibc
import Synchronization

/// What kernel and drive said first on a connection: plain and of fixed size.
///
/// It outlives the worker. The next one hears the kernel's words again, and has to answer the same.
struct Greeting: Sendable, BitwiseCopyable {
    /// A message of at most 192 bytes; those of Linux 6.18 have 104 and 80.
    private struct Message: Sendable, BitwiseCopyable {
        typealias Words = (
            UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64,
            UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64,
            UInt64, UInt64
        )

        private var count: Int64
        private var words: Words = (
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        )

        init?(_ bytes: [UInt8]) {
            guard bytes.count <= MemoryLayout<Words>.size else { return nil }
            count = Int64(bytes.count)
            withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: bytes) }
        }

        var bytes: [UInt8] {
            withUnsafeBytes(of: words) { Array($0.prefix(Int(clamping: count))) }
        }
    }

    /// Sets the requests of this connection apart from those of all others.
    let nonce: UInt64
    /// When the drive was mounted, in nanoseconds since 1970.
    let since: Int64
    /// The kernel's number of the mount's file system; 0 if it is not known.
    let mount: UInt64
    /// How many workers the connection had before.
    var worker: UInt32 = 0
    private let request: Message
    private let reply: Message

    /// - Returns: `nil` for messages that are longer than any known.
    init?(nonce: UInt64, since: Timestamp, mount: UInt64, request: [UInt8], reply: [UInt8]) {
        guard let request = Message(request), let reply = Message(reply) else { return nil }
        self.nonce = nonce
        self.since = since.nanoseconds
        self.mount = mount
        self.request = request
        self.reply = reply
    }

    var requestBytes: [UInt8] { request.bytes }
    var replyBytes: [UInt8] { reply.bytes }
}

/// The way to the kernel, which a supervisor keeps over the death of a worker.
struct KeptConnection: Sendable {
    /// `/dev/fuse` of a mount that an earlier worker had; `nil` for a new one.
    var device: Int32?
    /// Holds one greeting, or none before the first.
    let greetings: RecordRegion<Greeting>
    /// Called with `/dev/fuse` once kernel and drive agree, and whether a next worker can go on.
    let whenAgreed: @Sendable (_ device: Int32, _ isResumable: Bool) -> Void
    /// Called when the connection is to end, whoever keeps it.
    let whenOver: @Sendable () -> Void

    /// When the drive was mounted, by whom ever.
    var since: Timestamp? {
        (greetings.slots.first?.record.since).map { Timestamp(nanoseconds: $0) }
    }

    /// The kernel's number of the mount's file system; what is in its place now may be another.
    var mount: UInt64? { greetings.slots.first?.record.mount }

    /// How many workers the mount had before.
    var worker: UInt32 { greetings.slots.first?.record.worker ?? 0 }

    /// Counts a worker that goes on where another was killed.
    func countWorker() {
        guard let slot = greetings.slots.first else { return }
        var greeting = slot.record
        greeting.worker += 1
        greetings.write(greeting, to: slot.index)
    }
}

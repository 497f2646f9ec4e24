import CFuse
import Glibc
import Synchronization

/// Speaks with the kernel of what Debian's libfuse does not know.
///
/// It sees every message of the connection on its way: it accepts the kernel's offers in the reply
/// to the first request, and puts the ids of content files into replies to opens. The layouts are
/// those of `<linux/fuse.h>` from Linux 6.9 on.
///
/// - Passthrough: see `Passthrough`.
/// - `HANDLE_KILLPRIV_V2`: the drive takes set-user-id from what is changed. Else the kernel asks
///   for an attribute before every `write`, also of a file that it writes by itself.
final class KernelProtocol: Sendable {
    private enum Layout {
        static let requestOpcode = 4
        static let requestUnique = 8
        static let requestHeader = 40
        static let hello: UInt32 = 26
        /// `flags` and `flags2` in what the kernel says first, and in the reply.
        static let offeredFlags = requestHeader + 12
        static let offeredFlags2 = requestHeader + 16
        static let replyUnique = 8
        static let acceptedFlags = 12
        static let acceptedFlags2 = 32
        static let stackDepth = 36
        static let helloReply = 64
        /// The last 16 bytes of a reply to an open: handle, flags, id of the content file.
        static let openReply = 16
        static let openFlags = 8
        static let openBacking = 12

        static let handlesSetID: UInt32 = 1 << 28
        static let hasFlags2: UInt32 = 1 << 30
        static let passthrough: UInt32 = 1 << (37 - 32)
        static let opensPassthrough: UInt32 = 1 << 7
    }

    /// The kernel's first request.
    private struct Hello {
        var unique: UInt64
        var flags: UInt32
        var flags2: UInt32

        var offersPassthrough: Bool {
            flags & Layout.hasFlags2 != 0 && flags2 & Layout.passthrough != 0
        }
    }

    private struct State {
        var hello: Hello?
        var backings: [pthread_t: Int32] = [:]
    }

    private let passthrough: Passthrough
    private let store: ContentStore
    private let state = Mutex(State())
    private let hasGreeted = Atomic(false)
    /// How many replies are to get an id: most need not look for one.
    private let pendingCount = Atomic(0)

    init(passthrough: Passthrough, store: ContentStore) {
        self.passthrough = passthrough
        self.store = store
    }

    /// Puts itself between libfuse and the kernel; to be called when the session is mounted.
    ///
    /// The session's user data is its `SessionContext`.
    func install(in session: OpaquePointer) {
        if passthrough.isWanted {
            passthrough.end(because: "the kernel does not offer it; Linux 6.9 and later do")
        }
        var calls = fuse_custom_io(
            writev: { device, pieces, count, data in
                guard let pieces else { return -1 }
                let own = SessionContext.of(data).kernel
                return own.send(pieces, Int(count), to: device)
            },
            read: { device, buffer, size, data in
                let count = Glibc.read(device, buffer, size)
                guard count > 0, let buffer else { return count }
                let own = SessionContext.of(data).kernel
                own.noteRequest(UnsafeRawBufferPointer(start: buffer, count: count))
                return count
            },
            splice_receive: { source, offset, target, targetOffset, size, flags, _ in
                splice(source, offset, target, targetOffset, size, flags)
            },
            splice_send: { source, offset, target, targetOffset, size, flags, _ in
                splice(source, offset, target, targetOffset, size, flags)
            }
        )
        let result = fuse_session_custom_io(session, &calls, fuse_session_fd(session))
        if result != 0, passthrough.isWanted {
            passthrough.end(because: "libfuse does not let its messages be seen")
        }
    }

    /// Puts the id of a content file into the reply to an open that `reply` sends.
    func with<Result>(_ backing: Int32?, _ reply: () -> Result) -> Result {
        guard let backing else { return reply() }
        let thread = pthread_self()
        state.withLock { $0.backings[thread] = backing }
        pendingCount.add(1, ordering: .sequentiallyConsistent)
        defer {
            pendingCount.subtract(1, ordering: .sequentiallyConsistent)
            state.withLock { _ = $0.backings.removeValue(forKey: thread) }
        }
        return reply()
    }

    // MARK: - Messages

    private func noteRequest(_ message: UnsafeRawBufferPointer) {
        guard !hasGreeted.load(ordering: .relaxed) else { return }
        let end = Layout.offeredFlags2 + 4
        guard message.count >= end,
            message.loadUnaligned(fromByteOffset: Layout.requestOpcode, as: UInt32.self)
                == Layout.hello
        else { return }
        func field<Value: FixedWidthInteger & BitwiseCopyable>(_ offset: Int) -> Value {
            message.loadUnaligned(fromByteOffset: offset, as: Value.self)
        }
        let hello = Hello(
            unique: field(Layout.requestUnique),
            flags: field(Layout.offeredFlags),
            flags2: field(Layout.offeredFlags2)
        )
        state.withLock { $0.hello = hello }
    }

    private func send(
        _ pieces: UnsafeMutablePointer<iovec>,
        _ count: Int,
        to device: Int32
    ) -> Int {
        let agreed = hasGreeted.load(ordering: .relaxed) ? nil : accept(pieces, count)
        // What this thread counted itself, it sees.
        if agreed == nil, count == 2, pendingCount.load(ordering: .relaxed) > 0 {
            expose(pieces[1])
        }
        let result = writev(device, pieces, Int32(count))
        if result >= 0, agreed == .passthrough { passthrough.begin(device: device, store: store) }
        return result
    }

    private enum Agreement {
        case passthrough
        case withoutPassthrough
    }

    /// Accepts what the kernel offers, if this is the reply to it.
    private func accept(_ pieces: UnsafeMutablePointer<iovec>, _ count: Int) -> Agreement? {
        guard count == 2, pieces[1].iov_len >= Layout.helloReply, let header = pieces[0].iov_base,
            let reply = pieces[1].iov_base, let hello = state.withLock({ $0.hello }),
            header.loadUnaligned(fromByteOffset: Layout.replyUnique, as: UInt64.self)
                == hello.unique
        else { return nil }
        hasGreeted.store(true, ordering: .relaxed)
        Self.add(hello.flags & Layout.handlesSetID, to: reply + Layout.acceptedFlags)
        guard passthrough.isWanted, hello.offersPassthrough else { return .withoutPassthrough }
        Self.add(Layout.hasFlags2, to: reply + Layout.acceptedFlags)
        Self.add(Layout.passthrough, to: reply + Layout.acceptedFlags2)
        // Content files may be on a disk, but on no file system that is stacked on another.
        Self.add(1, to: reply + Layout.stackDepth)
        return .passthrough
    }

    private func expose(_ piece: iovec) {
        let thread = pthread_self()
        guard let backing = state.withLock({ $0.backings.removeValue(forKey: thread) }),
            piece.iov_len >= Layout.openReply, let base = piece.iov_base
        else { return }
        let reply = base + (piece.iov_len - Layout.openReply)
        Self.add(Layout.opensPassthrough, to: reply + Layout.openFlags)
        Self.add(UInt32(bitPattern: backing), to: reply + Layout.openBacking)
    }

    /// Sets bits in a field that is in the kernel's byte order, at any address.
    private static func add(_ bits: UInt32, to field: UnsafeMutableRawPointer) {
        let value = field.loadUnaligned(as: UInt32.self) | bits
        field.storeBytes(of: value, as: UInt32.self)
    }
}

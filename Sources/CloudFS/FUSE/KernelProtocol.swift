import CFuse
import CLinux
import Glibc
import Synchronization

/// Speaks with the kernel of what libfuse does not know.
///
/// It sees every message of the connection on its way: it accepts the kernel's offers in the reply
/// to the first request, puts the ids of content files into replies to opens, and tells which
/// request is being answered. The layouts are those of `<linux/fuse.h>` from Linux 6.9 on.
///
/// - Passthrough: see `Passthrough`; only where libfuse is older than 3.17.
/// - `HANDLE_KILLPRIV_V2`: the drive takes set-user-id from what is changed. Else the kernel asks
///   for an attribute before every `write`, also of a file that it writes by itself.
/// - `HAS_RESEND`: a next worker is sent again what this one leaves unanswered.
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
        static let resends: UInt32 = 1 << (39 - 32)
        static let opensPassthrough: UInt32 = 1 << 7
        /// Set in the number of a request that is sent again.
        static let isRepeated: UInt64 = 1 << 63

        static let entryNotification: Int32 = 3
        /// `MADV_POPULATE_WRITE`, which Glibc does not name yet.
        static let populateWrite: Int32 = 23
        static let resendNotification: Int32 = 7
        static let onlyExpires: UInt32 = 1
    }

    /// The kernel's first request.
    private struct Hello {
        var message: [UInt8]
        var unique: UInt64
        var flags: UInt32
        var flags2: UInt32

        func offers(_ bit: UInt32) -> Bool {
            flags & Layout.hasFlags2 != 0 && flags2 & bit != 0
        }
    }

    private struct State {
        var hello: Hello?
        /// The kernel's number of the mount's file system, kept for the next worker.
        var mount: UInt64 = 0
        /// What an earlier worker agreed on, which this one has to say again.
        var agreed: [UInt8]?
        /// Whether it did.
        var agreesAgain = false
        var backings: [pthread_t: Int32] = [:]
    }

    private let passthrough: Passthrough
    private let store: ContentStore
    private let connection: KeptConnection
    private let nonce: UInt64
    private let state = Mutex(State())
    private let hasGreeted = Atomic(false)
    /// How many replies are to get an id: most need not look for one.
    private let pendingCount = Atomic(0)
    /// Under which each thread keeps the number of the request that it read last.
    private let requestKey: pthread_key_t
    /// Under which each thread keeps the buffer that it reads requests into.
    private let bufferKey: pthread_key_t

    init(passthrough: Passthrough, store: ContentStore, connection: KeptConnection) {
        self.passthrough = passthrough
        self.store = store
        self.connection = connection
        nonce = connection.greetings.slots.first?.record.nonce ?? .random(in: .min ... .max)
        (requestKey, bufferKey) = (Self.makeKey(), Self.makeKey())
    }

    private static func makeKey() -> pthread_key_t {
        var key = pthread_key_t()
        let result = pthread_key_create(&key, nil)
        precondition(result == 0, "no key for what a thread keeps")
        return key
    }

    deinit {
        pthread_key_delete(requestKey)
        pthread_key_delete(bufferKey)
    }

    /// Puts itself between libfuse and the kernel; to be called when the session is mounted.
    ///
    /// The session's user data is its `SessionContext`.
    func install(
        in session: OpaquePointer,
        device: Int32,
        mount: OwnMount
    ) throws(CloudFSError) {
        state.withLock { $0.mount = mount.number ?? 0 }
        if passthrough.isWanted {
            passthrough.end(because: "the kernel does not offer it; Linux 6.9 and later do")
        }
        var calls = fuse_custom_io()
        calls.writev = { device, pieces, count, data in
            guard let pieces else { return -1 }
            let own = SessionContext.of(data).kernel
            return own.send(pieces, Int(count), to: device)
        }
        clinux_fuse_set_reader(Self.reader)
        calls.read = clinux_fuse_read
        calls.splice_send = { source, offset, target, targetOffset, size, flags, _ in
            splice(source, offset, target, targetOffset, size, flags)
        }
        guard fuse_session_custom_io(session, &calls, device) == 0 else {
            throw CloudFSError(.unsupported, "libfuse does not let its messages be seen")
        }
    }

    /// What a thread does before and after it waits for a request, in C.
    private static let reader = clinux_fuse_reader(
        will_read: { data, buffer, size in
            let own = SessionContext.of(data).kernel
            own.populate(UnsafeRawBufferPointer(start: buffer, count: size))
        },
        did_read: { data, message, size in
            let own = SessionContext.of(data).kernel
            own.noteRequest(UnsafeRawBufferPointer(start: message, count: size))
        }
    )

    /// Puts the id of a content file into the reply to an open that `reply` sends.
    func with<Result>(
        _ backing: Int32?,
        _ info: inout fuse_file_info,
        _ reply: (inout fuse_file_info) -> Result
    ) -> Result {
        guard let backing else { return reply(&info) }
        if cfuse_set_backing(&info, backing) { return reply(&info) }
        let thread = pthread_self()
        state.withLock { $0.backings[thread] = backing }
        pendingCount.add(1, ordering: .sequentiallyConsistent)
        defer {
            pendingCount.subtract(1, ordering: .sequentiallyConsistent)
            state.withLock { _ = $0.backings.removeValue(forKey: thread) }
        }
        return reply(&info)
    }

    /// Which request this thread answers, if it is one of libfuse's.
    var request: RequestStamp? {
        let number = UInt64(UInt(bitPattern: pthread_getspecific(requestKey)))
        guard number != 0 else { return nil }
        return RequestStamp(
            mark: Self.mark(number & ~Layout.isRepeated, nonce),
            isRepeated: number & Layout.isRepeated != 0
        )
    }

    /// Numbers of requests begin anew with every mount; their marks never meet.
    ///
    /// The mixing is that of SplitMix64.
    private static func mark(_ number: UInt64, _ nonce: UInt64) -> Int64 {
        var word = nonce &+ number &* 0x9e37_79b9_7f4a_7c15
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return Int64(bitPattern: word ^ (word >> 31))
    }

    // MARK: - A connection that an earlier worker had

    /// Has libfuse hear again what the kernel said first.
    ///
    /// - Throws: `unsupported` if it answers otherwise than the worker before it did.
    func greetAgain(_ session: OpaquePointer) throws(CloudFSError) {
        guard let kept = connection.greetings.slots.first?.record else {
            throw CloudFSError(.unsupported, "the supervisor has kept no greeting")
        }
        state.withLock { $0.agreed = kept.replyBytes }
        var message = kept.requestBytes
        message.withUnsafeMutableBytes { bytes in
            noteRequest(UnsafeRawBufferPointer(bytes))
            var buffer = fuse_buf()
            buffer.size = bytes.count
            buffer.mem = bytes.baseAddress
            buffer.fd = -1
            fuse_session_process_buf(session, &buffer)
        }
        pthread_setspecific(requestKey, nil)
        guard state.withLock({ $0.agreesAgain }) else {
            throw CloudFSError(
                .unsupported,
                "this version agrees with the kernel on other things than the one before"
            )
        }
    }

    /// Has the kernel send again what an earlier worker has read and not answered.
    ///
    /// - Returns: 0 or an errno.
    func resend(to device: Int32) -> Int32 {
        notify(Layout.resendNotification, [], device) ? 0 : errno
    }

    /// Has the kernel ask for a name again before it uses it, if it knows it at all.
    ///
    /// May block behind an unanswered request of the folder.
    func expire(_ name: [UInt8], in parent: ItemID, at device: Int32) {
        var body: [UInt8] = []
        withUnsafeBytes(of: parent.rawValue) { body += $0 }
        withUnsafeBytes(of: UInt32(name.count)) { body += $0 }
        withUnsafeBytes(of: Layout.onlyExpires) { body += $0 }
        // That the kernel does not know the name is no failure, and the usual case.
        _ = notify(Layout.entryNotification, body + name + [0], device)
    }

    private func notify(_ code: Int32, _ body: [UInt8], _ device: Int32) -> Bool {
        var message: [UInt8] = []
        withUnsafeBytes(of: UInt32(16 + body.count)) { message += $0 }
        withUnsafeBytes(of: code) { message += $0 }
        message += [0, 0, 0, 0, 0, 0, 0, 0]
        message += body
        return write(device, message, message.count) == message.count
    }

    // MARK: - Messages

    /// Has all pages of a buffer be there before the kernel writes a request into it.
    ///
    /// For one that is missing, the kernel finds out that the process is being killed, and fails
    /// the request with EIO instead of keeping it for the next worker.
    private func populate(_ buffer: UnsafeRawBufferPointer) {
        let known: UnsafeMutableRawPointer? = pthread_getspecific(bufferKey)
        guard let start = buffer.baseAddress, known.map(UnsafeRawPointer.init) != start else {
            return
        }
        let page = Int(getpagesize())
        let first = UInt(bitPattern: start) & ~UInt(page - 1)
        let count = Int(UInt(bitPattern: start) - first) + buffer.count
        // Where the kernel lacks it, it lacks what would send a request again, too.
        _ = madvise(UnsafeMutableRawPointer(bitPattern: first), count, Layout.populateWrite)
        pthread_setspecific(bufferKey, start)
    }

    private func noteRequest(_ message: UnsafeRawBufferPointer) {
        guard message.count >= Layout.requestHeader else { return }
        let unique = message.loadUnaligned(
            fromByteOffset: Layout.requestUnique,
            as: UInt64.self
        )
        pthread_setspecific(requestKey, UnsafeRawPointer(bitPattern: UInt(unique)))
        guard !hasGreeted.load(ordering: .relaxed) else { return }
        noteHello(message, unique)
    }

    private func noteHello(_ message: UnsafeRawBufferPointer, _ unique: UInt64) {
        func field(_ offset: Int) -> UInt32 {
            message.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        }
        guard message.count >= Layout.offeredFlags2 + 4,
            field(Layout.requestOpcode) == Layout.hello
        else { return }
        let hello = Hello(
            message: Array(message),
            unique: unique,
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
        if !hasGreeted.load(ordering: .relaxed), let agreement = accept(pieces, count) {
            return conclude(agreement, pieces, to: device)
        }
        // What this thread counted itself, it sees.
        if count == 2, pendingCount.load(ordering: .relaxed) > 0 { expose(pieces[1]) }
        return writev(device, pieces, Int32(count))
    }

    /// What kernel and drive agree on.
    private struct Agreement {
        var usesPassthrough: Bool
        var isResumable: Bool
        var request: [UInt8]
        var reply: [UInt8]
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
        Self.add(hello.flags & Layout.hasFlags2, to: reply + Layout.acceptedFlags)
        let isResumable = hello.offers(Layout.resends)
        if isResumable { Self.add(Layout.resends, to: reply + Layout.acceptedFlags2) }
        let usesPassthrough = passthrough.isWanted && hello.offers(Layout.passthrough)
        if usesPassthrough {
            // Where libfuse knows of it, it has said the same.
            Self.add(Layout.passthrough, to: reply + Layout.acceptedFlags2)
            // Content files may be on a disk, but on no file system that is stacked on another.
            Self.add(1, to: reply + Layout.stackDepth)
        }
        return Agreement(
            usesPassthrough: usesPassthrough,
            isResumable: isResumable,
            request: hello.message,
            reply: Array(UnsafeRawBufferPointer(start: reply, count: pieces[1].iov_len))
        )
    }

    /// Tells the kernel what is agreed on, or if it knows compares that.
    private func conclude(
        _ agreement: Agreement,
        _ pieces: UnsafeMutablePointer<iovec>,
        to device: Int32
    ) -> Int {
        let agreed = state.withLock { state in
            state.agreesAgain = state.agreed == agreement.reply
            return state.agreed
        }
        if agreed != nil {
            if agreement.usesPassthrough { passthrough.begin(device: device, store: store) }
            return pieces[0].iov_len + pieces[1].iov_len
        }
        let isKept = keep(agreement)
        let result = writev(device, pieces, 2)
        guard result >= 0 else { return result }
        if agreement.usesPassthrough { passthrough.begin(device: device, store: store) }
        connection.whenAgreed(device, isKept && agreement.isResumable)
        return result
    }

    private func keep(_ agreement: Agreement) -> Bool {
        guard
            let greeting = Greeting(
                nonce: nonce,
                since: Clocks.system.now(),
                mount: state.withLock { $0.mount },
                request: agreement.request,
                reply: agreement.reply
            )
        else { return false }
        do {
            _ = try connection.greetings.allocate(greeting)
            return true
        } catch {
            return false
        }
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

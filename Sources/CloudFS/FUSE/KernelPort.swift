import CFuse
import Glibc

/// A pointer of libfuse that more than one thread may use.
///
/// Unchecked, with this proof: libfuse locks what its objects share (`fuse_req_*`, replies and
/// notifications may come from any thread), and who keeps one says how long it lives: a request
/// until its reply (`FuseRequest` gives it up once), a session until `FuseSession` has seen its
/// last request and notification end.
struct SharedPointer: @unchecked Sendable {
    let raw: OpaquePointer

    init(_ raw: OpaquePointer) {
        self.raw = raw
    }
}

/// A `fuse_req_t`: the way back to the kernel for one request.
struct KernelPort: RequestPort {
    private let request: SharedPointer
    private let filesystem: Filesystem
    private let kernel: KernelProtocol

    init(_ request: fuse_req_t, _ session: SessionContext) {
        self.request = SharedPointer(request)
        filesystem = session.filesystem
        kernel = session.kernel
    }

    /// Has libfuse call back, perhaps from inside this call, with the request's own lock held.
    ///
    /// The reference that libfuse is given is taken back by `unwatch`.
    func watch(_ interruption: Interruption) {
        let reference = Unmanaged.passRetained(interruption).toOpaque()
        fuse_req_interrupt_func(
            request.raw,
            { _, data in
                guard let data else { return }
                Unmanaged<Interruption>.fromOpaque(data).takeUnretainedValue().interrupt()
            },
            reference
        )
    }

    /// Taking the function away waits for the request's lock, so for a call that is under way.
    func unwatch(_ interruption: Interruption) {
        fuse_req_interrupt_func(request.raw, nil, nil)
        Unmanaged.passUnretained(interruption).release()
    }

    /// Takes back what the reply gave away if it reached nobody: the kernel will not release it.
    func send(_ reply: FuseReply) {
        guard transmit(reply) != 0 else { return }
        switch reply {
        case .opened(let file), .created(_, let file):
            filesystem.takeBack(file)
        case .folder(let folder):
            filesystem.takeBack(folder)
        default:
            break
        }
    }

    /// Calls the one `fuse_reply_*` that fits; 0, or a negated errno if nobody got it.
    private func transmit(_ reply: FuseReply) -> Int32 {
        let request = request.raw
        switch reply {
        case .done: return fuse_reply_err(request, 0)
        case .failure(let number): return fuse_reply_err(request, number)
        case .entry(let entry): return send(entry)
        case .lookup(.found(let entry)): return send(entry)
        case .lookup(.absent(let isCacheable)): return sendAbsence(isCacheable)
        case .attributes(let attributes): return send(attributes)
        case .link(let target): return sendLink(target)
        case .opened(let file):
            var info = FuseReplies.open(file)
            return kernel.with(file.backing, &info) { fuse_reply_open(request, &$0) }
        case .created(let entry, let file):
            var parameters = FuseReplies.entry(entry)
            var info = FuseReplies.open(file)
            return kernel.with(file.backing, &info) {
                fuse_reply_create(request, &parameters, &$0)
            }
        case .folder(let folder):
            var info = FuseReplies.open(folder)
            return fuse_reply_open(request, &info)
        case .content(let source): return send(source)
        case .bytes(let bytes): return send(bytes)
        case .count(let count): return fuse_reply_write(request, count)
        case .position(let offset): return fuse_reply_lseek(request, off_t(offset))
        case .lock(let lock):
            var record = FuseReplies.lock(lock)
            return fuse_reply_lock(request, &record)
        case .statistics(let statistics):
            var values = FuseReplies.statistics(statistics)
            return fuse_reply_statfs(request, &values)
        case .value(let bytes, let capacity): return send(bytes, capacity: capacity)
        }
    }

    private func send(_ entry: Entry) -> Int32 {
        var parameters = FuseReplies.entry(entry)
        return fuse_reply_entry(request.raw, &parameters)
    }

    private func sendAbsence(_ isCacheable: Bool) -> Int32 {
        guard isCacheable else { return fuse_reply_err(request.raw, ENOENT) }
        var parameters = FuseReplies.cachedAbsence()
        return fuse_reply_entry(request.raw, &parameters)
    }

    private func send(_ attributes: Attributes) -> Int32 {
        var status = FuseReplies.status(attributes)
        return fuse_reply_attr(
            request.raw,
            &status,
            FuseReplies.timeout(attributes.isCacheable)
        )
    }

    private func sendLink(_ target: [UInt8]) -> Int32 {
        fuse_reply_readlink(request.raw, target.map { CChar(bitPattern: $0) } + [0])
    }

    private func send(_ source: ReadSource) -> Int32 {
        switch source {
        case .bytes(let bytes):
            return send(bytes)
        case .file(let file, let offset, let count, let held):
            return withExtendedLifetime((file, held)) {
                cfuse_reply_fd(request.raw, file.descriptor, off_t(offset), count)
            }
        }
    }

    private func send(_ bytes: [UInt8]) -> Int32 {
        bytes.withUnsafeBytes { space in
            let text = space.baseAddress?.assumingMemoryBound(to: CChar.self)
            return fuse_reply_buf(request.raw, text, space.count)
        }
    }

    /// Size 0 asks how much room there must be.
    private func send(_ bytes: [UInt8], capacity: Int) -> Int32 {
        if capacity == 0 { return fuse_reply_xattr(request.raw, bytes.count) }
        guard bytes.count <= capacity else { return fuse_reply_err(request.raw, ERANGE) }
        return send(bytes)
    }
}

import CFuse

/// What the drive asks of the kernel when it says hello, and why.
enum FuseCapabilities {
    /// - `ATOMIC_O_TRUNC`: a truncating open must not look like a truncation of the old version.
    /// - `DONT_MASK`: the filesystem applies the caller's umask.
    /// - `POSIX_LOCKS`, `FLOCK_LOCKS`: locks take part in coordination.
    /// - `EXPLICIT_INVAL_DATA`: pages go only when the notifier says so, not when a time changed.
    /// - `SPLICE_WRITE`: bytes go from content files to the kernel without a copy through here;
    ///   reads are more than three times as fast.
    static let wanted = [
        FUSE_CAP_ATOMIC_O_TRUNC, FUSE_CAP_DONT_MASK, FUSE_CAP_POSIX_LOCKS, FUSE_CAP_FLOCK_LOCKS,
        FUSE_CAP_EXPLICIT_INVAL_DATA, FUSE_CAP_CACHE_SYMLINKS, FUSE_CAP_PARALLEL_DIROPS,
        FUSE_CAP_READDIRPLUS, FUSE_CAP_READDIRPLUS_AUTO, FUSE_CAP_SPLICE_WRITE,
    ].reduce(0) { $0 | UInt32(bitPattern: $1) }

    /// - `ASYNC_READ`: with it a blocked read cannot be interrupted, and a dozen of them stop the
    ///   reads of every other file.
    /// - `ASYNC_DIO`: nor can one with `O_DIRECT`, even by SIGKILL.
    /// - `AUTO_INVAL_DATA`: it would win over `EXPLICIT_INVAL_DATA`.
    /// - `HANDLE_KILLPRIV`: its second version is agreed on by `KernelProtocol`.
    /// - `WRITEBACK_CACHE`: with it the kernel's size and times would win over the drive's.
    /// - `POSIX_ACL`: the filesystem does not interpret ACLs.
    /// - `SPLICE_READ`: a request must be seen before it is answered, to know it when it comes
    ///   again; it costs two calls for each request, which only large writes are worth.
    /// - `SPLICE_MOVE`: no faster, and it takes the pages from the content file, which the next
    ///   upload or digest would read again.
    static let refused = [
        FUSE_CAP_ASYNC_READ, FUSE_CAP_ASYNC_DIO, FUSE_CAP_AUTO_INVAL_DATA, FUSE_CAP_HANDLE_KILLPRIV,
        FUSE_CAP_WRITEBACK_CACHE, FUSE_CAP_EXPORT_SUPPORT, FUSE_CAP_POSIX_ACL,
        FUSE_CAP_SPLICE_READ, FUSE_CAP_SPLICE_MOVE,
    ].reduce(0) { $0 | UInt32(bitPattern: $1) }

    static let largestWrite: UInt32 = 1 << 20

    /// What decides about the reply to the kernel's first request, beside that request.
    static var agreement: String {
        "\(fuse_version())-\(wanted)-\(refused)-\(largestWrite)"
    }

    /// - Parameter passthrough: Whether the kernel may use content files itself.
    static func negotiate(_ connection: inout fuse_conn_info, passthrough: Bool) {
        connection.want |= wanted & connection.capable
        connection.want &= ~refused
        if passthrough { cfuse_want_passthrough(&connection) }
        connection.max_write = min(connection.max_write, largestWrite)
        connection.max_background = 64
        connection.congestion_threshold = 48
        connection.time_gran = 1
    }
}

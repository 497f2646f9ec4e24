import Glibc

/// Which errno applications see for each kind of failure, and back for errors of the system.
enum ErrnoMapping {
    /// The errno of `code`.
    ///
    /// One switch without a default: a new code does not compile until someone has decided.
    static func errno(for code: CloudFSError.Code) -> Int32 {
        switch code {
        case .notFound: ENOENT
        case .exists: EEXIST
        case .notDirectory: ENOTDIR
        case .isDirectory: EISDIR
        case .notEmpty: ENOTEMPTY
        case .denied, .unauthenticated: EACCES
        case .notPermitted: EPERM
        case .readOnly: EROFS
        case .diskFull: ENOSPC
        case .quotaExceeded, .diskQuotaExceeded: EDQUOT
        case .invalidName, .invalidArgument: EINVAL
        case .nameTooLong: ENAMETOOLONG
        case .badHandle: EBADF
        case .tooLarge: EFBIG
        case .tooManyOpen: EMFILE
        case .noAttribute: ENODATA
        case .noData: ENXIO
        case .attributeTooBig: E2BIG
        case .attributesFull: ENOSPC
        case .attributeReadOnly: ENOTSUP
        case .remoteChanged: ESTALE
        case .offline: ENETUNREACH
        case .timedOut: ETIMEDOUT
        case .cancelled: EINTR
        case .claimed: EBUSY
        case .lockHeld: EAGAIN
        case .absent: EREMOTE
        case .deadlock: EDEADLK
        case .crossContainer: EXDEV
        case .corrupt, .internalFailure: EIO
        case .unsupported: EOPNOTSUPP
        }
    }

    /// What is asked about an item that the kernel has found by a name, and not about a name.
    private static let itemOperations: Set<String> = [
        "open", "opendir", "getattr", "setattr", "readlink", "access", "getxattr", "setxattr",
        "listxattr", "removexattr",
    ]

    /// The errno of a failed request about `item`.
    ///
    /// An item may be gone by the time that the kernel asks about it, as another was renamed over
    /// it. Then the kernel has to look the name up again, which ESTALE makes it do: the program
    /// meets the new file, as on any disk, and ENOENT if there is none.
    static func errno(
        for error: CloudFSError,
        of item: ItemID,
        in operation: String
    ) -> Int32 {
        if error.code == .notFound, error.item == item, itemOperations.contains(operation) {
            return ESTALE
        }
        return errno(for: error.code)
    }

    /// The error for a failure of a local write that the system reported as `number`.
    static func writeError(_ number: Int32) -> CloudFSError {
        let reason = String(cString: strerror(number))
        return switch number {
        case ENOSPC: CloudFSError(.diskFull, "the local disk is full; free some space")
        case EDQUOT: CloudFSError(.diskQuotaExceeded, "the quota of the local disk is used up")
        case EROFS: CloudFSError(.readOnly, "the local disk has become read-only")
        case EFBIG: CloudFSError(.tooLarge, "the local disk cannot hold a file of this size")
        case EINTR: CloudFSError(.cancelled, "a local write was interrupted")
        case EMFILE, ENFILE: CloudFSError(.tooManyOpen, "the drive has too many open files")
        default: CloudFSError(.internalFailure, "a local write failed: \(reason)")
        }
    }
}

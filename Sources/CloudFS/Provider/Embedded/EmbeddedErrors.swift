import Glibc

extension EmbeddedFailure {
    /// What this failure means for the item at `path`.
    ///
    /// The container's root was opened and recognised before any call that can fail with ENOENT,
    /// so that code is the item's own absence and not that of the file system under it.
    func error(at path: RemotePath) -> CloudFSError {
        let (code, reason) = meaning
        let name = path.isRoot ? "the cloud directory" : "\"\(path)\""
        return CloudFSError(code, "\(name): \(reason)", cause: self)
    }

    /// Whether the disk cannot read what was asked for, though it may read everything else.
    var isDamage: Bool { [EIO, EUCLEAN, EBADMSG].contains(errorNumber) }

    /// What this failure to read means for the item at `path`, if the root could be looked at just
    /// before: one that is damaged is no reason to take the whole directory for unreachable.
    func error(reading path: RemotePath) -> CloudFSError {
        guard isDamage, !path.isRoot else { return error(at: path) }
        return CloudFSError(.internalFailure, "\"\(path)\": its disk cannot be read", cause: self)
    }

    private var meaning: (code: CloudFSError.Code, reason: String) {
        switch errorNumber {
        case ENOENT, ENOTDIR, ELOOP:
            // A file or link in the place of a folder: what was below it is certainly gone.
            (.notFound, "is not in the cloud directory")
        case EEXIST: (.exists, "exists already")
        case ENOTEMPTY: (.notEmpty, "is not empty")
        case EISDIR: (.isDirectory, "is a folder")
        case EACCES, EPERM: (.denied, "the cloud directory's permissions do not allow it")
        case EROFS: (.readOnly, "the cloud directory is mounted read-only")
        case ENOSPC, EDQUOT: (.quotaExceeded, "no space is left in the cloud directory")
        case ENAMETOOLONG: (.nameTooLong, "its path is too long there")
        case EFBIG: (.tooLarge, "is larger than the file system there allows")
        case E2BIG, ERANGE: (.attributesFull, "its attributes do not fit there")
        case EXDEV:
            // Nothing that the container itself is out of reach for.
            (
                .unsupported,
                "another file system is mounted there; unmount it or mount it as a container"
            )
        case EINVAL, ENOSYS, EOPNOTSUPP:
            (.unsupported, "the file system there cannot do this")
        case EIO, ESTALE, ENOTCONN, ENODEV, ENXIO, ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH, ENETDOWN,
            ENETUNREACH, ECONNREFUSED, ECONNRESET, EREMOTEIO, ESHUTDOWN:
            (.offline, "the cloud directory cannot be reached")
        case EMFILE, ENFILE, ENOMEM, EBUSY, EAGAIN, ETXTBSY:
            // Nothing is wrong with the item; the same request may succeed in a moment.
            (.timedOut, "the system was too busy; try again")
        default: (.offline, "the cloud directory answered with an unexpected error")
        }
    }
}

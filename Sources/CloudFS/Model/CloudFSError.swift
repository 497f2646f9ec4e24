import Glibc

/// The one error of CloudFS: what happened, to which item, and why.
public struct CloudFSError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is; `ErrnoMapping` gives each an errno.
    public enum Code: String, Sendable, CaseIterable {
        case notFound
        case exists
        case notDirectory
        case isDirectory
        case notEmpty
        case denied
        case notPermitted
        case unauthenticated
        case readOnly
        case diskFull
        case quotaExceeded
        /// The quota of the local disk, whereas `quotaExceeded` is that of the cloud.
        case diskQuotaExceeded
        case invalidName
        case invalidArgument
        case nameTooLong
        case badHandle
        case tooLarge
        case tooManyOpen
        case noAttribute
        case noData
        case attributeTooBig
        case attributesFull
        case attributeReadOnly
        case remoteChanged
        case offline
        case timedOut
        case cancelled
        case claimed
        case lockHeld
        case absent
        case deadlock
        case crossContainer
        case corrupt
        case unsupported
        case internalFailure
    }

    public let code: Code

    /// Whether the local disk, or what the user may have of it, is used up.
    var isLackOfRoom: Bool { code == .diskFull || code == .diskQuotaExceeded }

    /// What, which item, what to do: a sentence without a full stop.
    public let message: String

    public let item: ItemID?

    /// The error of a foreign library or of the system that this one stands for.
    public let cause: (any Error)?

    public init(
        _ code: Code,
        _ message: String,
        item: ItemID? = nil,
        cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = message
        self.item = item
        self.cause = cause
    }

    public var description: String {
        cause.map { "\(message) (\(code.rawValue): \($0))" } ?? "\(message) (\(code.rawValue))"
    }

    /// Whether the same request may succeed later without anybody's doing.
    public var isTransient: Bool { code.isTransient }
}

extension CloudFSError.Code {
    /// Whether what failed so may succeed later without anybody's doing.
    var isTransient: Bool {
        switch self {
        case .offline, .timedOut, .cancelled, .claimed, .lockHeld, .tooManyOpen: true
        default: false
        }
    }

    /// What a program hears that asks for something of the cloud: a request that the cloud did not
    /// understand was the drive's, and nothing is wrong with the program's.
    var ofCloud: Self { self == .invalidArgument ? .corrupt : self }

    /// What a failure of the local disk is, if it is one that a person can mend.
    ///
    /// Every call on content and on the catalog says the same then, and so does each program.
    static func ofDisk(_ number: Int32) -> Self? {
        switch number {
        case ENOSPC: .diskFull
        case EDQUOT: .diskQuotaExceeded
        case EFBIG: .tooLarge
        case EMFILE, ENFILE: .tooManyOpen
        case EROFS: .readOnly
        default: nil
        }
    }
}

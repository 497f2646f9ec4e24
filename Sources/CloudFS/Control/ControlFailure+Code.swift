import CloudFSControlAPI
import Hummingbird

extension ControlFailure {
    init(_ error: CloudFSError) {
        self.init(code: error.code.rawValue, message: error.message)
    }
}

extension ItemResult {
    static func refused(_ path: DrivePath, _ error: CloudFSError) -> ItemResult {
        .refused(path, code: error.code.rawValue, reason: error.message)
    }
}

extension CloudFSError.Code {
    /// The HTTP status that a request which failed so is answered with.
    var status: HTTPResponse.Status {
        switch self {
        case .notFound, .noAttribute, .noData:
            .notFound
        case .invalidArgument, .invalidName, .nameTooLong, .isDirectory, .notDirectory, .badHandle:
            .badRequest
        case .tooLarge, .attributeTooBig:
            .contentTooLarge
        case .denied, .notPermitted, .unauthenticated, .readOnly, .attributeReadOnly:
            .forbidden
        case .exists, .notEmpty, .claimed, .lockHeld, .absent, .deadlock, .remoteChanged,
            .crossContainer:
            .conflict
        case .diskFull, .diskQuotaExceeded, .quotaExceeded, .attributesFull:
            HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage")
        case .offline, .tooManyOpen, .cancelled:
            .serviceUnavailable
        case .timedOut:
            .gatewayTimeout
        case .unsupported:
            .notImplemented
        case .corrupt, .internalFailure:
            .internalServerError
        }
    }
}

extension Timestamp {
    var wire: WireTime { WireTime(nanoseconds: nanoseconds) }
}

extension PinPolicy {
    init(_ policy: ContentPolicy) {
        switch policy {
        case .inherited: self = .inherit
        case .onDemand: self = .onDemand
        case .pinned: self = .pinned
        case .excluded: self = .excluded
        }
    }

    var contentPolicy: ContentPolicy {
        switch self {
        case .inherit: .inherited
        case .onDemand: .onDemand
        case .pinned: .pinned
        case .excluded: .excluded
        }
    }
}

extension ItemStatus.Kind {
    init(_ kind: ItemKind) {
        switch kind {
        case .file: self = .file
        case .folder: self = .folder
        case .symlink: self = .symlink
        case .fifo: self = .fifo
        case .socket: self = .socket
        }
    }
}

extension DrivePath {
    /// The names of the path, checked as names of items.
    var itemNames: [ItemName] {
        get throws(CloudFSError) {
            var checked: [ItemName] = []
            for name in names { checked.append(try ItemName(name)) }
            return checked
        }
    }
}

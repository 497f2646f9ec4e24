public import CloudFSControlAPI

/// Where a drive is mounted and where its daemon listens.
public struct DriveAddress: Sendable, Hashable {
    public var mountpoint: String
    public var socketPath: String
    /// What the daemon wrote beside its socket; `nil` if it never got so far.
    public var record: DriveRecord?
    /// Whether the mount exists; a record can outlive it.
    public var isMounted: Bool
    /// Whether anybody listens.
    public var isListening: Bool

    public init(
        mountpoint: String,
        socketPath: String,
        record: DriveRecord? = nil,
        isMounted: Bool = true,
        isListening: Bool = true
    ) {
        self.mountpoint = mountpoint
        self.socketPath = socketPath
        self.record = record
        self.isMounted = isMounted
        self.isListening = isListening
    }
}

/// What a daemon writes beside its socket, so that a drive can be named without asking it.
///
/// It says who the daemon was, also when nobody answers any more.
public struct DriveRecord: Codable, Sendable, Hashable {
    public var apiVersion: Int
    public var mountpoint: String
    public var containerURL: String
    public var stateDirectory: String
    public var pid: Int32

    public init(
        apiVersion: Int = ControlAPI.version,
        mountpoint: String,
        containerURL: String,
        stateDirectory: String,
        pid: Int32
    ) {
        self.apiVersion = apiVersion
        self.mountpoint = mountpoint
        self.containerURL = containerURL
        self.stateDirectory = stateDirectory
        self.pid = pid
    }
}

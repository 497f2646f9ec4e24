@testable import CloudFS

/// The cloud that all devices of a simulation share.
protocol SimulatedCloud: Sendable {
    /// What one running device sees of it.
    func access(for visitor: Visitor) throws -> Access

    /// Everything that it has, by its path.
    func tree() throws -> [String: Observer.Shown]

    /// The bytes of a file that it has.
    func bytes(at path: RemotePath) throws -> [UInt8]

    /// The bytes of every file that it has.
    func contents() throws -> [[UInt8]]

    /// The bytes of a version that it has or had; `nil` if there never was such a one.
    func bytes(ofVersion content: String) -> [UInt8]?

    /// Attributes that may be lost, as nothing could tell the device that overwrote them.
    var excusedMarks: Set<String> { get }
}

/// A process that speaks to a cloud.
struct Visitor: Sendable {
    var device: String
    var stateDirectory: String
    var link: NetworkLink
    /// For work that blocks.
    var pool: BlockingPool
    /// Told what happens on the way.
    var trace: @Sendable (@autoclosure () -> String) -> Void
}

/// How a process reaches a cloud, until it ends.
struct Access: Sendable {
    var provider: any CloudProvider
    /// From now on nothing that the process asks reaches the cloud: it is no more.
    var end: @Sendable () -> Void
}

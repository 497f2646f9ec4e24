import CloudFSTestSupport
import Foundation
import Glibc
import Testing

@testable import CloudFS

/// A cloud directory and the devices that use it.
struct EmbeddedFixture {
    let directory: TemporaryDirectory
    let root: String
    let embedded: EmbeddedProvider
    let cloud: ProviderFixture
    let identity: String

    /// Makes a device, and its cloud directory `folder` in `directory` if it is not there.
    static func make(
        _ folder: String = "cloud",
        device: String = "device",
        in directory: TemporaryDirectory? = nil,
        pool: BlockingPool = BlockingPool(name: "embedded-tests", width: 4)
    ) async throws -> EmbeddedFixture {
        let directory = try directory ?? TemporaryDirectory()
        if !directory.exists(folder) { try directory.makeFolder(folder) }
        let root = directory.path(folder)
        let embedded = EmbeddedProvider(
            root: root,
            deviceName: device,
            pool: pool
        )
        let identity = try await embedded.connect(
            expecting: ContainerExpectation(identity: nil, hasItems: false)
        )
        return EmbeddedFixture(
            directory: directory,
            root: root,
            embedded: embedded,
            cloud: ProviderFixture(
                provider: embedded,
                foreign: ForeignDirectory(directory)
            ),
            identity: identity
        )
    }

    /// Makes a device of a user whom permissions bind, and their cloud directory.
    static func makeOrdinary() async throws -> EmbeddedFixture {
        let directory = try TemporaryDirectory()
        try directory.makeFolder("cloud")
        try #require(chown(directory.path("cloud"), OrdinaryUser.id, getegid()) == 0)
        return try await make(in: directory, pool: OrdinaryUser.makePool())
    }

    func write(_ bytes: [UInt8], to name: String) throws {
        try directory.write(bytes, to: "cloud/\(name)")
    }

    /// Replaces a file as editors do: a new file, renamed over the old one.
    func replace(_ name: String, with bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { try Data($0).write(to: URL(filePath: "\(root)/.new")) }
        try #require(rename("\(root)/.new", "\(root)/\(name)") == 0)
    }

    func read(_ name: String) throws -> [UInt8] { try directory.read("cloud/\(name)") }

    /// What lies in the provider's own room.
    func leftovers() throws -> [String] {
        try ["staging", "trash", "lost+found"].flatMap { folder in
            let path = "\(root)/.cloudfs/\(folder)"
            guard FileManager.default.fileExists(atPath: path) else { return [String]() }
            return try FileManager.default.contentsOfDirectory(atPath: path).map {
                "\(folder)/\($0)"
            }
        }
    }

    func expectation(hasItems: Bool = true) -> ContainerExpectation {
        ContainerExpectation(identity: identity, hasItems: hasItems)
    }
}

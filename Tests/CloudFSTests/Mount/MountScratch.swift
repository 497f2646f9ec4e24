import Foundation

@testable import CloudFS

/// A temporary folder that goes with its owner.
final class MountScratch: Sendable {
    /// With symbolic links followed, as the code under test reports paths.
    let path: String

    init() throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "cloudfs-mount-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = MountConfiguration.Paths.resolved(folder.path)
    }

    deinit {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            print("could not remove \(path): \(error)")
        }
    }

    /// Makes the folder `name` and returns its path.
    func folder(_ name: String) throws -> String {
        let full = "\(path)/\(name)"
        try FileManager.default.createDirectory(
            atPath: full,
            withIntermediateDirectories: true
        )
        return full
    }

    /// Writes the file `name` and returns its path.
    func file(_ name: String, _ text: String = "") throws -> String {
        let full = "\(path)/\(name)"
        try text.write(toFile: full, atomically: false, encoding: .utf8)
        return full
    }
}

extension MountConfiguration.Host {
    /// A user called nobody in particular.
    static func test(
        _ environment: [String: String] = ["HOME": "/home/ann"],
        userID: UInt32 = 1000,
        workingDirectory: String = "/there"
    ) -> Self {
        Self(
            environment: environment,
            userID: userID,
            name: "laptop",
            workingDirectory: workingDirectory
        )
    }
}

/// The sentence that `work` fails with; empty when it does not fail.
func sentence(_ work: () throws -> Void) -> String {
    do {
        try work()
        return ""
    } catch let error as CloudFSError {
        return error.message
    } catch {
        return "another error: \(error)"
    }
}

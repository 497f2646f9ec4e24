import Foundation

/// A new, empty folder that is removed with everything in it when nobody refers to it any more.
public final class TemporaryDirectory: Sendable {
    /// Without a slash at the end.
    public let path: String

    public init() throws {
        let name = "cloudfs-test-\(UUID().uuidString.prefix(13))"
        let url = FileManager.default.temporaryDirectory.appending(path: name)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        path = url.resolvingSymlinksInPath().path
    }

    deinit {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch CocoaError.fileNoSuchFile {
            // The test removed it.
        } catch {
            print("cannot remove \(path): \(error)")
        }
    }

    /// The path of something in the folder.
    public func path(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes a file in the folder, as any other program would, and makes its parents.
    public func write(_ bytes: some Sequence<UInt8>, to name: String) throws {
        let url = URL(filePath: path(name))
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try Data(bytes).write(to: url)
    }

    public func read(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(filePath: path(name))))
    }

    public func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(
            atPath: path(name),
            withIntermediateDirectories: true
        )
    }

    public func remove(_ name: String) throws {
        try FileManager.default.removeItem(atPath: path(name))
    }

    public func exists(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: path(name))
    }
}

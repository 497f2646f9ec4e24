import Foundation
import Glibc

/// A folder of the local disk that plays a cloud, used as another program would use it.
public struct TestFolder: Sendable {
    public let path: String

    public init(_ path: String) {
        self.path = path
    }

    /// Makes the folder unless it is there.
    public static func make(_ path: String) throws -> TestFolder {
        if access(path, F_OK) != 0 { try SystemCall.makeFolder(path) }
        return TestFolder(path)
    }

    private func full(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes a file in place, with the folders above it.
    public func write(_ name: String, _ text: String) throws {
        try write(name, Array(text.utf8))
    }

    public func write(_ name: String, _ bytes: [UInt8]) throws {
        try makeParent(of: name)
        let file = try SystemCall.open(full(name), O_WRONLY | O_CREAT | O_TRUNC)
        var done = 0
        while done < bytes.count {
            done += try SystemCall.write(file, Array(bytes[done...]), at: Int64(done))
        }
        try SystemCall.close(file)
    }

    /// Makes a file of `size` zeros that needs no room.
    public func writeSparse(_ name: String, size: Int64) throws {
        try makeParent(of: name)
        let file = try SystemCall.open(full(name), O_WRONLY | O_CREAT | O_TRUNC)
        try SystemCall.truncate(file, to: size)
        try SystemCall.close(file)
    }

    public func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(
            atPath: full(name),
            withIntermediateDirectories: true
        )
    }

    public func makeSymlink(_ name: String, target: String) throws {
        try makeParent(of: name)
        try SystemCall.makeSymlink(full(name), target: target)
    }

    public func rename(_ name: String, to newName: String) throws {
        try SystemCall.rename(full(name), to: full(newName))
    }

    public func remove(_ name: String) throws {
        try SystemCall.remove(full(name))
    }

    public func setMode(_ name: String, _ mode: UInt32) throws {
        try SystemCall.setMode(full(name), mode)
    }

    public func setTimes(_ name: String, nanoseconds: Int64) throws {
        try SystemCall.setTimes(full(name), nanoseconds: nanoseconds)
    }

    /// The file's bytes, or `nil` if there is none.
    public func bytes(_ name: String) -> [UInt8]? {
        FileManager.default.contents(atPath: full(name)).map { Array($0) }
    }

    public func text(_ name: String) -> String? {
        bytes(name).map { String(decoding: $0, as: UTF8.self) }
    }

    public func exists(_ name: String) -> Bool {
        (try? SystemCall.status(full(name))) != nil
    }

    public func status(_ name: String) throws -> FileStatus {
        try SystemCall.status(full(name))
    }

    /// All paths below the folder but CloudFS's own, sorted.
    public func paths() throws -> [String] {
        while true {
            do {
                return try FileManager.default.subpathsOfDirectory(atPath: path)
                    .filter { $0 != ".cloudfs" && !$0.hasPrefix(".cloudfs/") }
                    .sorted()
            } catch let error as CocoaError
                where error.code == .fileReadNoSuchFile && exists("")
            {
                // A drive has removed a folder that was to be looked into next.
                continue
            }
        }
    }

    private func makeParent(of name: String) throws {
        guard let slash = name.lastIndex(of: "/") else { return }
        try makeFolder(String(name[..<slash]))
    }
}

/// What a cloud has in it before it is mounted.
public struct Filling {
    let fill: (TestFolder) throws -> Void

    public init(_ fill: @escaping (TestFolder) throws -> Void) {
        self.fill = fill
    }
}

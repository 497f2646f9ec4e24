import CloudFSClient
import CloudFSControlAPI
import Foundation
import Glibc
import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct ControlSocketTests {
    let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
    }

    private func record(_ mountpoint: String = "/mnt/drive") -> DriveRecord {
        DriveRecord(
            mountpoint: mountpoint,
            containerURL: "local:/c",
            stateDirectory: "/s",
            pid: getpid()
        )
    }

    /// A listening socket at `path` until the descriptor is closed.
    private func listen(at path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(result == 0)
        try #require(Glibc.listen(descriptor, 1) == 0)
        return descriptor
    }

    private func mode(_ path: String) throws -> UInt32 {
        var facts = stat()
        try #require(lstat(path, &facts) == 0)
        return facts.st_mode & 0o7777
    }

    @Test func `folder and socket are for their owner alone`() async throws {
        let modes = try await withServer(in: folder) { _, server in
            (try mode(folder.directory.path), try mode(server.socketPath))
        }
        #expect(modes == (0o700, 0o600))
    }

    @Test func `the record says who serves what and both vanish at the end`() async throws {
        let path = folder.directory.recordPath(mountpoint: "/mnt/drive")
        try await withServer(in: folder) { _, _ in
            let bytes = try Data(contentsOf: URL(filePath: path))
            let record = try JSONDecoder().decode(DriveRecord.self, from: bytes)
            #expect(record.mountpoint == "/mnt/drive")
            #expect(record.pid == getpid())
        }
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.directory.path)
        #expect(left == [])
    }

    @Test func `a socket nobody listens on is replaced`() async throws {
        try folder.directory.create()
        let path = folder.directory.socketPath(mountpoint: "/mnt/drive")
        close(try listen(at: path))
        #expect(SocketProbe.ask(path) == .stale)
        let status = try await withServer(in: folder) { client, _ in try await client.status() }
        #expect(status.mountpoint == "/mnt/drive")
    }

    @Test func `a socket somebody listens on is left alone`() throws {
        try folder.directory.create()
        let path = folder.directory.socketPath(mountpoint: "/mnt/drive")
        let other = try listen(at: path)
        defer { close(other) }
        let error = #expect(throws: CloudFSError.self) {
            try ControlSocket(directory: folder.directory, record: record())
        }
        #expect(error?.code == .exists)
        #expect(SocketProbe.ask(path) == .listening)
    }

    @Test func `a daemon that was faster keeps its socket`() throws {
        let socket = try ControlSocket(directory: folder.directory, record: record())
        let mine = try listen(at: socket.privatePath)
        defer { close(mine) }
        let other = try listen(at: socket.path)
        defer { close(other) }
        let error = #expect(throws: CloudFSError.self) { try socket.publish() }
        #expect(error?.code == .exists)
        try socket.remove(nil)
        #expect(SocketProbe.ask(socket.path) == .listening)
        #expect(SocketProbe.ask(socket.privatePath) == .absent)
    }

    @Test func `two drives do not get into each other's way`() async throws {
        try await withServer(in: folder, mountpoint: "/mnt/a") { a, _ in
            try await withServer(in: folder, mountpoint: "/mnt/b") { b, _ in
                _ = try await a.status()
                _ = try await b.status()
            }
            _ = try await a.status()
        }
    }

    @Test func `a folder too deep for a socket is named`() throws {
        let deep = folder.path + "/" + String(repeating: "x", count: 100)
        let error = #expect(throws: CloudFSError.self) {
            try ControlSocket(
                directory: RuntimeDirectory(path: deep, owner: geteuid()),
                record: record()
            )
        }
        #expect(error?.code == .nameTooLong)
        #expect(access(deep, F_OK) != 0)
    }
}

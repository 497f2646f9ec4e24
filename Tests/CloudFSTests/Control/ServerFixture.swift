import CloudFSClient
import CloudFSControlAPI
import Foundation
import Glibc
import Logging
import ServiceLifecycle
import Testing

@testable import CloudFS

/// A new folder under `/tmp`, short enough for sockets, removed with its content at the end.
final class SocketFolder: Sendable {
    let path: String

    init() throws {
        var template = Array("/tmp/cfs-XXXXXX".utf8CString)
        let made = mkdtemp(&template)
        path = try #require(made.map { String(cString: $0) })
    }

    deinit {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            Issue.record("\(path) was not removed: \(error)")
        }
    }

    var directory: RuntimeDirectory { RuntimeDirectory(path: path + "/run", owner: geteuid()) }
}

/// A control server that listens while `body` runs.
///
/// - Returns: What `body` returns, after the server has ended.
@discardableResult
func withServer<Value: Sendable>(
    _ drive: FakeDrive = FakeDrive(),
    limits: RequestLimits = RequestLimits(),
    in folder: SocketFolder,
    mountpoint: String = "/mnt/drive",
    _ body: (DriveClient, ControlServer) async throws -> Value
) async throws -> Value {
    let (ready, isReady) = AsyncStream.makeStream(of: Void.self)
    let record = DriveRecord(
        mountpoint: mountpoint,
        containerURL: "local:/srv/cloud",
        stateDirectory: "/var/lib/drive",
        pid: getpid()
    )
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    let server = try ControlServer(
        drive: drive,
        record: record,
        directory: folder.directory,
        limits: limits,
        logger: logger,
        whenReady: { isReady.finish() }
    )
    let group = ServiceGroup(configuration: .init(services: [server], logger: logger))
    let running = Task {
        defer { isReady.finish() }
        try await group.run()
    }
    for await _ in ready {}
    let address = DriveAddress(
        mountpoint: mountpoint,
        socketPath: server.socketPath,
        record: record
    )
    let result: Result<Value, any Error>
    do {
        result = .success(try await body(DriveClient(address, patience: .seconds(20)), server))
    } catch {
        result = .failure(error)
    }
    drive.release()
    await group.triggerGracefulShutdown()
    try await running.value
    return try result.get()
}

/// One connection to a Unix socket, spoken to byte by byte.
final class RawConnection: Sendable {
    private let descriptor: Int32
    /// A call that blocks must not take a thread from the server under test.
    private let pool = BlockingPool(name: "raw", width: 2)

    init(_ path: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        try #require(descriptor >= 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(result == 0)
    }

    deinit {
        close(descriptor)
    }

    /// Writes as much as the peer takes; whether that was all.
    func send(_ text: String) async throws -> Bool {
        try await pool.run { [descriptor] in
            var rest = Array(text.utf8)[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }

    /// Reads until the text contains `end` or the peer closes.
    func receive(until end: String? = nil) async throws -> String {
        try await pool.run { [descriptor] in
            var bytes: [UInt8] = []
            var chunk = [UInt8](repeating: 0, count: 4_096)
            while true {
                let text = String(decoding: bytes, as: UTF8.self)
                if let end, text.contains(end) { return text }
                let count = recv(descriptor, &chunk, chunk.count, 0)
                guard count > 0 else { return text }
                bytes += chunk[..<count]
            }
        }
    }
}

/// A path that is one.
func drivePath(_ text: String) throws -> DrivePath {
    try #require(DrivePath(text: text))
}

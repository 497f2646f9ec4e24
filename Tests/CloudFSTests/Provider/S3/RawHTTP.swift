import CloudFSTestSupport
import Glibc

/// What came back on a connection, as it came.
struct RawAnswer {
    let status: Int?
    /// Names in lower case.
    let headers: [String: String]
    let body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }

    /// What the length should be by the header.
    var announcedByteCount: Int? { headers["content-length"].flatMap { Int($0) } }

    init(_ bytes: [UInt8]) {
        let separator = Array("\r\n\r\n".utf8)
        let end = bytes.indices.first { bytes[$0...].starts(with: separator) }
        let lines = String(decoding: bytes[..<(end ?? 0)], as: UTF8.self).split(separator: "\r\n")
        status = lines.first.flatMap { $0.split(separator: " ").dropFirst().first }
            .flatMap { Int($0) }
        let pairs = lines.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1)
            return (parts[0].lowercased(), String(parts[1].drop { $0 == " " }))
        }
        headers = Dictionary(pairs, uniquingKeysWith: { first, _ in first })
        body = end.map { Array(bytes[($0 + 4)...]) } ?? bytes
    }

    /// The insides of the elements of that name.
    func elements(_ name: String) -> [String] {
        text.split(separator: "<\(name)>", omittingEmptySubsequences: false).dropFirst()
            .compactMap { $0.split(separator: "</", omittingEmptySubsequences: false).first }
            .map(String.init)
    }
}

/// A client that is as simple as can be, so that nothing hides what a server does.
enum RawHTTP {
    /// Sends a request on a connection of its own and reads to the connection's end.
    static func send(
        _ method: String,
        _ target: String,
        headers: [String: String] = [:],
        body: [UInt8] = [],
        to port: Int
    ) async throws -> RawAnswer {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        if !body.isEmpty { head += "Content-Length: \(body.count)\r\n" }
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        let bytes = Array((head + "\r\n").utf8) + body
        return try await onThread("an answer to \(method) \(target)") {
            RawAnswer(try exchange(bytes, port: port))
        }
    }

    private static func exchange(_ bytes: [UInt8], port: Int) throws -> [UInt8] {
        let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard connection >= 0 else { throw SystemError("socket", errno) }
        defer { close(connection) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(connection, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw SystemError("connect", errno) }
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            // The server has hung up; what it said before may still be there.
            if count <= 0 { break }
            sent += count
        }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(connection, &buffer, buffer.count, 0)
            if count <= 0 { return received }
            received += buffer[..<count]
        }
    }
}

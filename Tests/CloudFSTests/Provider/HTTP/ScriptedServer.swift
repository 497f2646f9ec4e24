import Foundation
import Glibc
import Synchronization

/// A server on loopback that answers each request as a test says, rightly or not.
final class ScriptedServer: Sendable {
    struct Request: Sendable {
        /// The how-manieth request to this server, from 1.
        var number: Int
        var method: String
        var target: String
        var head: String
        var body: [UInt8]

        /// The value of a header; names compare without case.
        func header(_ name: String) -> String? {
            for line in head.components(separatedBy: "\r\n").dropFirst() {
                guard let colon = line.firstIndex(of: ":") else { continue }
                if line[..<colon].lowercased() == name {
                    return line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
                }
            }
            return nil
        }
    }

    enum Step: Sendable {
        case send([UInt8])
        /// Waits until the client ends the connection.
        case hang
        case close

        static func text(_ text: String) -> Step { .send(Array(text.utf8)) }
    }

    let port: Int
    private let listener: Int32
    private let script: @Sendable (Request) -> [Step]
    private let state = Mutex((requests: [Request](), connections: Set<Int32>()))

    init(_ script: @escaping @Sendable (Request) -> [Step]) throws {
        self.script = script
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let port = withUnsafeMutablePointer(to: &address) { [listener] pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                guard bind(listener, pointer, length) == 0, listen(listener, 64) == 0,
                    getsockname(listener, pointer, &length) == 0
                else { return UInt16(0) }
                return pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    UInt16(bigEndian: $0.pointee.sin_port)
                }
            }
        }
        guard port > 0 else { throw POSIXError(.EADDRINUSE) }
        self.port = Int(port)
        Thread { [self] in accept() }.start()
    }

    var requests: [Request] { state.withLock { $0.requests } }

    /// Ends the server; the tests' connections end with it.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        // Each descriptor is closed by the thread that uses it, lest another test's take its place.
        state.withLock { state in
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    private func accept() {
        while true {
            let connection = Glibc.accept(listener, nil, nil)
            guard connection >= 0 else { break }
            state.withLock { _ = $0.connections.insert(connection) }
            Thread { [self] in serve(connection) }.start()
        }
        close(listener)
    }

    private func serve(_ connection: Int32) {
        defer {
            state.withLock { _ = $0.connections.remove(connection) }
            close(connection)
        }
        var buffer: [UInt8] = []
        while let request = nextRequest(connection, &buffer) {
            for step in script(request) {
                switch step {
                case .send(let bytes): guard send(bytes, to: connection) else { return }
                case .hang:
                    while receive(from: connection) != nil {}
                    return
                case .close: return
                }
            }
        }
    }

    private func nextRequest(_ connection: Int32, _ buffer: inout [UInt8]) -> Request? {
        let end = Array("\r\n\r\n".utf8)
        while true {
            if let range = buffer.firstRange(of: end) {
                let head = String(decoding: buffer[..<range.lowerBound], as: UTF8.self)
                var request = state.withLock { state in
                    let words = head.prefix { $0 != "\r\n" }.split(separator: " ")
                    return Request(
                        number: state.requests.count + 1,
                        method: String(words.first ?? ""),
                        target: words.count > 1 ? String(words[1]) : "",
                        head: head,
                        body: []
                    )
                }
                let length = request.header("content-length").flatMap { Int($0) } ?? 0
                while buffer.count < range.upperBound + length {
                    guard let more = receive(from: connection) else { return nil }
                    buffer += more
                }
                request.body = Array(buffer[range.upperBound..<range.upperBound + length])
                buffer.removeSubrange(..<(range.upperBound + length))
                return state.withLock { [request] state in
                    var request = request
                    request.number = state.requests.count + 1
                    state.requests.append(request)
                    return request
                }
            }
            guard let more = receive(from: connection) else { return nil }
            buffer += more
        }
    }

    private func receive(from connection: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = recv(connection, &bytes, bytes.count, 0)
        return count > 0 ? Array(bytes[..<count]) : nil
    }

    private func send(_ bytes: [UInt8], to connection: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}

extension [ScriptedServer.Step] {
    /// A whole answer with its length.
    static func answer(
        _ status: Int,
        _ headers: [String] = [],
        _ body: String = ""
    ) -> [ScriptedServer.Step] {
        answer(status, headers, [UInt8](body.utf8))
    }

    static func answer(
        _ status: Int,
        _ headers: [String],
        _ body: [UInt8]
    ) -> [ScriptedServer.Step] {
        let lines = ["HTTP/1.1 \(status) Status", "Content-Length: \(body.count)"] + headers
        return [.text(lines.joined(separator: "\r\n") + "\r\n\r\n"), .send(body)]
    }

    /// An error document.
    static func refusal(
        _ status: Int,
        _ code: String,
        _ fields: String = "",
        headers: [String] = []
    ) -> [ScriptedServer.Step] {
        answer(
            status,
            ["Content-Type: application/xml"] + headers,
            "<?xml version=\"1.0\"?><Error><Code>\(code)</Code>\(fields)</Error>"
        )
    }
}

import Glibc

/// Asks the kernel whether anybody listens on a Unix socket, without sending anything.
public enum SocketProbe {
    /// What is at the path.
    public enum Answer: Sendable, Hashable {
        case listening
        /// A socket whose process is gone.
        case stale
        case absent
        /// Something that cannot be asked: another kind of file, or no permission.
        case failed(errno: Int32)
    }

    /// The longest path a Unix socket can have, in bytes.
    public static let maximumPathByteCount = 107

    /// Never waits: a full queue of connections is somebody's too.
    public static func ask(_ path: String) -> Answer {
        guard path.utf8.count <= maximumPathByteCount else { return .failed(errno: ENAMETOOLONG) }
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, kind | Int32(SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return .failed(errno: errno) }
        defer { close(descriptor) }
        guard !connects(descriptor, to: path) else { return .listening }
        return switch errno {
        case EAGAIN, EINPROGRESS: .listening
        case ECONNREFUSED: .stale
        case ENOENT, ENOTDIR: .absent
        case let code: .failed(errno: code)
        }
    }

    /// Sends a request, and waits until something is answered, for so many seconds at most.
    public static func awaitAnswer(_ path: String, within seconds: Int) {
        guard path.utf8.count <= maximumPathByteCount else { return }
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            let length = socklen_t(MemoryLayout<timeval>.size)
            guard setsockopt(descriptor, SOL_SOCKET, option, &limit, length) == 0 else { return }
        }
        guard connects(descriptor, to: path) else { return }
        let request = Array("GET / HTTP/1.1\r\nHost: drive\r\nConnection: close\r\n\r\n".utf8)
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) > 0
        else { return }
        var byte: UInt8 = 0
        _ = recv(descriptor, &byte, 1, 0)
    }

    private static func connects(_ descriptor: Int32, to path: String) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        } == 0
    }
}

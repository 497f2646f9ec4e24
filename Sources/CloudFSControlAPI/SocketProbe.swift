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

        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result != 0 else { return .listening }
        return switch errno {
        case EAGAIN, EINPROGRESS: .listening
        case ECONNREFUSED: .stale
        case ENOENT, ENOTDIR: .absent
        case let code: .failed(errno: code)
        }
    }
}

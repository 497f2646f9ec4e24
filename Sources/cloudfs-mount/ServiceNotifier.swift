import CloudFS
import Glibc

/// Tells systemd how the drive is doing, when a unit of `Type=notify` asked to be told.
struct ServiceNotifier: Sendable {
    private let address: String?

    /// Takes the socket's address from the environment, where no child process shall find it.
    init() {
        address = getenv("NOTIFY_SOCKET").map { String(cString: $0) }
        unsetenv("NOTIFY_SOCKET")
    }

    func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }
    func stopping(_ status: String) { send("STOPPING=1\nSTATUS=\(status)") }
    func status(_ status: String) { send("STATUS=\(status)") }

    /// A message that does not arrive is systemd's to notice, by its own time limit.
    private func send(_ message: String) {
        guard let address, address.hasPrefix("/") || address.hasPrefix("@") else { return }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var target = sockaddr_un()
        target.sun_family = sa_family_t(AF_UNIX)
        var path = Array(address.utf8)
        // An abstract address begins with a zero byte, written as @.
        if address.hasPrefix("@") { path[0] = 0 }
        guard path.count < MemoryLayout.size(ofValue: target.sun_path) else { return }
        withUnsafeMutableBytes(of: &target.sun_path) { $0.copyBytes(from: path) }
        let length = MemoryLayout<sa_family_t>.size + path.count
        let bytes = Array(message.utf8)
        _ = withUnsafePointer(to: &target) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                sendto(
                    descriptor,
                    bytes,
                    bytes.count,
                    Int32(MSG_NOSIGNAL),
                    generic,
                    socklen_t(length)
                )
            }
        }
    }
}

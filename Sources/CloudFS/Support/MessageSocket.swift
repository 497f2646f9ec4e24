import CLinux
import Glibc

/// One end of a local socket that keeps messages apart and carries descriptors.
///
/// It ends when the other end is closed, also by the death of the process that had it.
package final class MessageSocket: Sendable {
    /// A message as it came, with the descriptors it brought; the receiver owns them.
    package struct Message: Sendable {
        package var text: String
        package var descriptors: [Int32]
    }

    private static let longestMessage = 128 << 10

    package let descriptor: Int32

    /// Owns `descriptor`, and closes it on exec.
    package init(_ descriptor: Int32) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit {
        close(descriptor)
    }

    /// - Returns: Two ends; `nil` with `errno` if there is none to be had.
    package static func pair() -> (MessageSocket, MessageSocket)? {
        var ends: [Int32] = [-1, -1]
        guard clinux_socket_pair(&ends) == 0 else { return nil }
        return (MessageSocket(ends[0]), MessageSocket(ends[1]))
    }

    /// - Returns: Whether the other end is there to hear it.
    package func send(_ text: String, _ descriptors: [Int32] = []) -> Bool {
        let bytes = Array(text.utf8.prefix(Self.longestMessage))
        return clinux_send(descriptor, bytes, bytes.count, descriptors, descriptors.count) == 0
    }

    /// Waits for the next message; `nil` when the other end is gone.
    package func receive() -> Message? {
        var bytes = [UInt8](repeating: 0, count: Self.longestMessage)
        var descriptors = [Int32](repeating: -1, count: Int(CLINUX_MOST_DESCRIPTORS))
        var count = 0
        let length = clinux_receive(descriptor, &bytes, bytes.count, &descriptors, &count)
        guard length > 0 else { return nil }
        return Message(
            text: String(decoding: bytes.prefix(length), as: UTF8.self),
            descriptors: Array(descriptors.prefix(count))
        )
    }
}

import CLinux
import Glibc

/// One end of a local socket that keeps messages apart and carries descriptors.
///
/// It ends when the other end is closed, also by the death of the process that had it.
package final class MessageSocket: Sendable {
    /// A message as it came, with the descriptors it brought; the receiver owns them.
    ///
    /// A text that came and cannot be read is empty.
    package struct Message: Sendable {
        package var text: String
        package var descriptors: [Int32]
    }

    /// How much of a text goes through the socket itself, in bytes.
    private static let longestMessage = 128 << 10
    /// Stands for a text that is in a file, the first descriptor of the message.
    ///
    /// A worker of another version hears shorter texts as ever.
    private static let mark: UInt8 = 0

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

    /// Sends a text of any length, whole or not at all; long ones in a file in memory.
    ///
    /// - Returns: 0, or the errno of the call that failed: `EPIPE` or `ECONNRESET` where nobody is
    ///   there to hear it.
    package func send(_ text: String, _ descriptors: [Int32] = []) -> Int32 {
        let bytes = Array(text.utf8)
        // A message of no bytes would look like the end.
        if let first = bytes.first, first != Self.mark, bytes.count <= Self.longestMessage {
            return post(bytes, descriptors)
        }
        let file = clinux_memfd_create("cloudfs-message")
        guard file >= 0 else { return errno }
        defer { close(file) }
        let result = FileBytes.write(bytes, to: file)
        // First, because the last ones are lost where the receiver may have no more open.
        return result == 0 ? post([Self.mark], [file] + descriptors) : result
    }

    private func post(_ bytes: [UInt8], _ descriptors: [Int32]) -> Int32 {
        let result = clinux_send(
            descriptor,
            bytes,
            bytes.count,
            descriptors,
            descriptors.count
        )
        return result == 0 ? 0 : errno
    }

    /// Waits for the next message; `nil` when the other end is gone.
    package func receive() -> Message? {
        var bytes = [UInt8](repeating: 0, count: Self.longestMessage)
        var descriptors = [Int32](repeating: -1, count: Int(CLINUX_MOST_DESCRIPTORS))
        var count = 0
        let length = clinux_receive(descriptor, &bytes, bytes.count, &descriptors, &count)
        guard length > 0 else { return nil }
        descriptors.removeLast(descriptors.count - count)
        guard bytes[0] == Self.mark else {
            let text = String(decoding: bytes.prefix(length), as: UTF8.self)
            return Message(text: text, descriptors: descriptors)
        }
        guard let file = descriptors.first else { return Message(text: "", descriptors: []) }
        defer { close(file) }
        return Message(text: Self.text(in: file) ?? "", descriptors: Array(descriptors.dropFirst()))
    }

    /// Read from its beginning: its position is the sender's, too.
    private static func text(in file: Int32) -> String? {
        var status = stat()
        guard fstat(file, &status) == 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeMutableBytes {
                pread(file, $0.baseAddress?.advanced(by: done), $0.count - done, off_t(done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return nil }
            done += count
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

import Glibc
import Testing

@testable import cloudfs_mount

/// The pipe to the launcher ends with its purpose.
@Suite struct ReadinessChannelTests {
    /// A long-lived supervisor has other files under that number afterwards.
    @Test func `after the drive is usable nothing is written to its number`() throws {
        var launcher: [Int32] = [-1, -1]
        #expect(pipe(&launcher) == 0)
        defer { close(launcher[0]) }
        // A number that no other test gets meanwhile.
        let number = fcntl(launcher[1], F_DUPFD, 900)
        close(launcher[1])
        let channel = ReadinessChannel(descriptor: number)
        #expect(channel.report(.note("wait")))
        #expect(channel.report(.ready))
        #expect(Self.text(launcher[0]) == "note wait\nready\n")

        var other: [Int32] = [-1, -1]
        #expect(pipe(&other) == 0)
        defer { close(other[0]) }
        #expect(dup2(other[1], number) == number)
        close(other[1])
        #expect(!channel.report(.note("late")))
        close(number)
        #expect(Self.text(other[0]).isEmpty)
    }

    /// Everything until the other end is closed.
    private static func text(_ descriptor: Int32) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 256)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
    }
}

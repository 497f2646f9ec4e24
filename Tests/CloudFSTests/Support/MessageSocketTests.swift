import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

@Suite struct MessageSocketTests {
    private static func pair() throws -> (MessageSocket, MessageSocket) {
        guard let ends = MessageSocket.pair() else { throw SystemError("socketpair", errno) }
        return ends
    }

    private static func text(_ length: Int) -> String {
        let bytes = (0..<length).map { UInt8(ascii: "a") + UInt8($0 % 23) }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test(arguments: [0, 1, 128 << 10, (128 << 10) + 1, 300_000])
    func `a text of any length arrives whole, with its descriptors`(length: Int) throws {
        let (here, there) = try Self.pair()
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemError("pipe", errno) }
        defer { for end in ends { close(end) } }
        #expect(here.send(Self.text(length), ends) == 0)
        let message = try #require(there.receive())
        defer { for descriptor in message.descriptors { close(descriptor) } }
        #expect(message.text == Self.text(length))
        try #require(message.descriptors.count == 2)
        // In their order, too.
        let written = write(message.descriptors[1], "x", 1)
        #expect(written == 1)
        var byte: UInt8 = 0
        let count = read(ends[0], &byte, 1)
        #expect(count == 1)
        #expect(byte == UInt8(ascii: "x"))
    }

    @Test(arguments: ["\0", "\0text"])
    func `a text may begin with any character`(text: String) throws {
        let (here, there) = try Self.pair()
        #expect(here.send(text) == 0)
        let message = try #require(there.receive())
        #expect(message.text == text)
        #expect(message.descriptors.isEmpty)
    }

    @Test func `messages stay apart and in order, however long they are`() throws {
        let (here, there) = try Self.pair()
        let texts = ["short", Self.text(300_000), "", Self.text(200_000), "end"]
        for text in texts { #expect(here.send(text) == 0) }
        for text in texts { #expect(there.receive()?.text == text) }
    }

    @Test(arguments: [1, 300_000])
    func `a text that nobody is there to hear is not sent`(length: Int) throws {
        let here = try Self.pair().0
        #expect([EPIPE, ECONNRESET].contains(here.send(Self.text(length))))
        #expect(here.receive() == nil)
    }

    @Test func `a text that cannot be sent is not cut`() throws {
        let (here, there) = try Self.pair()
        let tooMany = [Int32](repeating: 0, count: 8)
        #expect(here.send(Self.text(300_000), tooMany) == EINVAL)
        #expect(here.send("next") == 0)
        #expect(there.receive()?.text == "next")
    }
}

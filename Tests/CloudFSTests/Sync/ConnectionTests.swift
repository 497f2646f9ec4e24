import Testing

@testable import CloudFS

/// Whether the cloud can be reached, as requests find it.
struct ConnectionTests {
    private let connection = Connection(clocks: .system)
    private let trouble = CloudFSError(.offline, "no network")

    @Test func `while a drive connects for the first time no other request tells`() async throws {
        connection.didFail(trouble)
        #expect(connection.current == .connecting)
        async let known: Void = connection.untilKnown(atMost: .seconds(60))
        connection.didConnect()
        await known
        #expect(connection.isOnline)
        connection.didFail(trouble)
        #expect(!connection.isOnline)
    }

    @Test func `an attempt to connect that fails is known, too`() async throws {
        let (connection, trouble) = (connection, trouble)
        async let known: Void = connection.untilKnown(atMost: .seconds(60))
        await #expect(throws: CloudFSError.self) {
            try await connection.noting { () async throws(CloudFSError) in throw trouble }
        }
        await known
        #expect(connection.current != .connecting && !connection.isOnline)
    }

    @Test func `it is waited for no longer than asked`() async {
        await connection.untilKnown(atMost: .milliseconds(10))
        #expect(connection.current == .connecting)
    }
}

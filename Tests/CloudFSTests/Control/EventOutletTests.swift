import Testing

@testable import CloudFS

/// When a stream of events begins.
@Suite struct EventOutletTests {
    @Test func `a failure before anything else is the answer`() async {
        let outlet = EventOutlet()
        outlet.fail(CloudFSError(.notFound, "no such item"))
        do throws(CloudFSError) {
            try await outlet.waitForBeginning()
            Issue.record("it began")
        } catch {
            #expect(error.code == .notFound)
        }
    }

    /// Who hears nothing at all takes the daemon for one that hangs.
    @Test(.timeLimit(.minutes(10)))
    func `what takes long to begin begins with a sign of life`() async throws {
        let outlet = EventOutlet(pingInterval: .milliseconds(20))
        try await outlet.waitForBeginning()
        #expect(outlet.send(["told": "later"]))
        outlet.finish()
    }
}

import Testing

@testable import CloudFS

@Suite struct NamedFaultsTests {
    private static let list = "Sources/CloudFS/Model/NamedFaults.swift"

    @Test func `every name is given once, and every point is in the list`() throws {
        let text = try #require(
            try ProjectText.all(under: "Sources", withExtensions: ["swift"])
                .first { $0.path == Self.list }
        ).text
        let declared = text.matches(of: /static let \w+ = FaultPoint\("([a-z.]+)"\)/)
            .map { String($0.output.1) }
        let named = FaultPoint.named.map(\.name)
        #expect(Set(named).count == named.count)
        #expect(declared == named)
    }

    @Test func `every point is passed by the engine`() throws {
        let files = try ProjectText.all(under: "Sources", withExtensions: ["swift"])
            .filter { $0.path != Self.list }
        // Some are passed by a step that several requests share.
        let shared = ["create.sent", "metadata.sent", "move.sent", "upload.sent"]
        for point in FaultPoint.named {
            let words = point.name.split(separator: ".")
            let property = words[0] + words[1].capitalized
            let calls =
                shared.contains(point.name)
                ? [" .\(property)"] : [" FaultPoint.\(property).pass"]
            #expect(
                files.contains { file in calls.contains { file.code.contains($0) } },
                "nothing passes \(point.name)"
            )
        }
    }

    @Test func `a point that fails is an error of the engine`() async throws {
        let point = FaultPoint("test.named")
        let arm = point.arm(Fault(effect: .fail))
        do throws(CloudFSError) {
            try point.pass()
            Issue.record("it did not fail")
        } catch {
            #expect(error.code == .internalFailure)
        }
        await #expect(throws: CloudFSError.self) { try await point.passInTask() }
        arm.disarm()
        try point.pass()
    }

    @Test func `every point is explained in the document`() throws {
        let document = try #require(
            try ProjectText.all(under: "docs", withExtensions: ["md"])
                .first { $0.path == "docs/durability.md" }
        )
        for point in FaultPoint.named {
            #expect(document.text.contains("`\(point.name)`"), "\(point.name) is not explained")
        }
    }
}

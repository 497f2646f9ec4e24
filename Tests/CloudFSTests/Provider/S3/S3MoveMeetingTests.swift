import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

/// A folder that moves, while other devices know both of its places.
@Suite(.timeLimit(.minutes(10))) struct S3MoveMeetingTests {
    private typealias Bench = S3ProviderBench

    /// Moves a folder, and does something after all is copied and before anything is deleted.
    private static func moving(
        _ bench: Bench,
        _ change: () throws -> Void
    ) async throws {
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        // With this the other devices are shown the new folder.
        bench.fake.add(
            FakeS3Fault(.wait(gate), skipping: 1) {
                $0.kind == .put && $0.key.text.hasPrefix(".cloudfs/moves/")
            }
        )
        async let moved = provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("all is copied", within: .seconds(60)) { gate.waitingCount == 1 }
        try change()
        gate.open()
        _ = try await moved
        #expect(bench.fake.keys("d/").isEmpty)
    }

    private static func headers(_ attributes: [String: [UInt8]]) throws -> [String: String] {
        try S3Metadata.headers(
            Bench.metadata,
            kind: .folder,
            documentID: DocumentID(high: 1, low: 2),
            attributes: attributes
        )
    }

    private static func attributes(_ key: FakeS3Key, _ bench: Bench) throws -> [String: [UInt8]] {
        S3Metadata.attributes(try #require(bench.fake.object(key)).metadata)
    }

    @Test(arguments: [FakeS3Settings(), Bench.batches])
    func `what is removed in the new folder does not come back from the old`(
        settings: FakeS3Settings
    ) async throws {
        let bench = try await Bench.make(settings)
        for name in ["a", "b", "sub/c"] { bench.fake.put(FakeS3Key("d/\(name)"), "old") }
        try await Self.moving(bench) {
            bench.fake.remove("e/a")
            bench.fake.remove("e/sub/c")
            bench.fake.put("d/late", "late")
        }
        #expect(bench.fake.keys("e/").filter { $0 != "e/" } == ["e/b", "e/late"])
    }

    /// A folder is made anew in its old place, and its marker is like any other.
    @Test(arguments: [FakeS3Settings(), Bench.batches])
    func `what is written on a moved folder stays though there is another in its old place`(
        settings: FakeS3Settings
    ) async throws {
        let bench = try await Bench.make(settings)
        bench.fake.put("d/", "", metadata: try Self.headers(["user.old": [1]]))
        bench.fake.put("d/a", "a")
        try await Self.moving(bench) {
            bench.fake.change { $0.clockOffset = .seconds(10) }
            let written = try Self.headers(["user.old": [1], "user.new": [2]])
            bench.fake.put("e/", "", metadata: written)
            bench.fake.change { $0.clockOffset = .seconds(20) }
            bench.fake.put("d/", "", metadata: [:])
        }
        #expect(try Self.attributes("e/", bench) == ["user.old": [1], "user.new": [2]])
    }

    @Test(arguments: [FakeS3Settings(), Bench.batches])
    func `what is written on a folder in both of its places is on it`(
        settings: FakeS3Settings
    ) async throws {
        let bench = try await Bench.make(settings)
        bench.fake.put("d/", "", metadata: try Self.headers(["user.both": [1]]))
        bench.fake.put("d/a", "a")
        try await Self.moving(bench) {
            bench.fake.change { $0.clockOffset = .seconds(10) }
            bench.fake.put("e/", "", metadata: try Self.headers(["user.both": [2], "user.e": [3]]))
            bench.fake.change { $0.clockOffset = .seconds(20) }
            bench.fake.put("d/", "", metadata: try Self.headers(["user.both": [4], "user.d": [5]]))
        }
        let expected: [String: [UInt8]] = ["user.both": [4], "user.d": [5], "user.e": [3]]
        #expect(try Self.attributes("e/", bench) == expected)
    }

    @Test func `a marker that nobody has written on costs no look`() async throws {
        let bench = try await Bench.make()
        for number in 0..<20 {
            let metadata = try Self.headers(["user.n": [UInt8(number)]])
            bench.fake.put(FakeS3Key("d/\(number)/"), "", metadata: metadata)
        }
        try await Self.moving(bench) { bench.fake.forgetRequests() }
        #expect(bench.fake.requestCount(.head) < 5)
        #expect(try Self.attributes("e/7/", bench) == ["user.n": [7]])
    }
}

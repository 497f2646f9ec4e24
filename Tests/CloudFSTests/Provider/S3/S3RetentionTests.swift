import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

/// What a drive keeps for itself in a bucket, and about a bucket, over weeks of work.
@Suite(.timeLimit(.minutes(10))) struct S3RetentionTests {
    private typealias Bench = S3ProviderBench

    private static let half = Duration.seconds(43_200)
    /// Records are kept for seven days, and are cleared away every six hours.
    private static let settledDay = 9
    private static let documents = (0..<5).map { _ in DocumentID.random() }

    @Test func `after the first week it does not grow any more`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let directory = try TemporaryDirectory()
        let reader = try await bench.provider(device: "two", clocks: clocks.own)
        var anchor = try await reader.changes(after: nil).anchor
        var settled: [String: Int] = [:]
        for day in 1...Self.settledDay + 5 {
            // Each day begins anew, as a laptop's does.
            let provider = try await bench.provider(
                settings: Bench.smallParts,
                stateDirectory: directory.path,
                clocks: clocks.own
            )
            for half in 0..<2 {
                try await Self.work("\(day)-\(half)", on: provider, bench)
                anchor = try await reader.changes(after: anchor).anchor
                clocks.advance(by: Self.half)
                await provider.sweep()
            }
            let figures = Self.figures(bench, directory)
            if day == Self.settledDay { settled = figures }
            guard day > Self.settledDay else { continue }
            for (name, count) in figures {
                // The names of later days are longer by a letter.
                let more = name.hasPrefix("bytes") ? 50 : 0
                #expect(count <= (settled[name] ?? 0) + more, "\(name) on day \(day): \(figures)")
            }
        }
        #expect(settled["journal"] ?? 0 > 7 * 2 * 5)
    }

    /// Changes of every kind, after which nothing is left of them.
    private static func work(
        _ name: String,
        on provider: S3Provider,
        _ bench: Bench
    ) async throws {
        let folder = try await provider.createFolder(
            at: Bench.path(name),
            documentID: .random(),
            metadata: Bench.metadata
        )
        let first = try await Bench.upload([1], to: "\(name)/file", of: provider)
        let file = try await Bench.upload(
            [2],
            to: "\(name)/file",
            of: provider,
            replacing: first.version
        )
        let moved = try await provider.move(
            from: Bench.path(name),
            to: Bench.path("moved-\(name)"),
            base: folder.version
        )
        let item = try await provider.item(at: Bench.path("moved-\(name)/file"))
        #expect(item.size == file.size)
        try await provider.delete(Bench.path("moved-\(name)/file"), base: item.version)
        try await provider.delete(Bench.path("moved-\(name)"), base: moved.version)
        try await takeTurns(on: provider)
        // An upload in parts that nobody goes on with.
        bench.fake.add(FakeS3Fault(Bench.refusal, count: nil, on: .completeUpload))
        let bytes = Bench.content(1, parts: 2)
        let failure = await s3Failure {
            _ = try await Bench.upload(bytes, to: "large-\(name)", of: provider)
        }
        #expect(failure == .denied)
        bench.fake.removeFaults()
    }

    /// Leases of the same few documents.
    private static func takeTurns(on provider: S3Provider) async throws {
        let leases = try #require(provider.leases)
        for document in documents {
            let number = (try await leases.latest(of: document)?.number ?? 0) + 1
            let record = LeaseRecord(
                document: document,
                number: number,
                generation: number,
                holder: nil,
                duration: .seconds(60),
                isEnded: true
            )
            #expect(try await leases.append(record))
        }
    }

    /// Objects by the folder of CloudFS's room that they are in, and what is beside it.
    private static func figures(
        _ bench: Bench,
        _ directory: TemporaryDirectory
    ) -> [String: Int] {
        var figures: [String: Int] = [:]
        for key in bench.fake.keys() {
            let parts = key.text.split(separator: "/")
            let name = parts.first == ".cloudfs" ? String(parts[1].prefix(7)) : "files"
            figures[name, default: 0] += 1
        }
        figures["uploads"] = bench.fake.uploads().count
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        figures["files here"] = names.count
        for name in names {
            figures["bytes of \(name)"] =
                FileManager.default.contents(atPath: directory.path(name))?.count ?? 0
        }
        return figures
    }
}

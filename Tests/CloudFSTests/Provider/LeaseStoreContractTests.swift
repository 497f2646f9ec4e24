import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// The written contract of `LeaseStore`, for every provider that has one.
@Suite(.timeLimit(.minutes(10)))
struct LeaseStoreContractTests {
    typealias Kind = ContractedProvider

    private static let kinds = Kind.allCases.filter { $0 != .s3Unconditional }

    private func record(
        _ number: Int64,
        of document: DocumentID,
        by device: String = "one",
        isEnded: Bool = false
    ) -> LeaseRecord {
        LeaseRecord(
            document: document,
            number: number,
            generation: 1,
            holder: LeaseHolder(device: device, process: "test (1)"),
            duration: .seconds(60),
            isEnded: isEnded
        )
    }

    private func store(_ provider: any CloudProvider) throws -> any LeaseStore {
        try #require(provider.leases)
    }

    @Test(arguments: Self.kinds)
    func `records follow each other, and all devices see the latest`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let store = try store(cloud.provider)
        let other = try self.store(cloud.other)
        let document = DocumentID.random()
        #expect(try await store.latest(of: document) == nil)
        for number in Int64(1)...3 {
            let record = record(number, of: document, isEnded: number == 3)
            #expect(try await store.append(record))
            #expect(try await store.latest(of: document) == record)
            #expect(try await other.latest(of: document) == record)
        }
        #expect(try await store.latest(of: .random()) == nil)
    }

    @Test(arguments: Self.kinds)
    func `a number is given once, and never again after it was removed`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let store = try store(cloud.provider)
        let document = DocumentID.random()
        let first = record(1, of: document)
        #expect(try await store.append(first))
        #expect(try await !store.append(record(1, of: document, by: "two")))
        #expect(try await store.latest(of: document) == first)
        let third = record(3, of: document)
        #expect(try await store.append(record(2, of: document)))
        #expect(try await store.append(third))
        // The first two are removed by now; what comes late for them comes too late.
        for number in Int64(1)...3 {
            #expect(try await !store.append(record(number, of: document, by: "late")))
        }
        #expect(try await store.latest(of: document) == third)
        #expect(try await store.append(record(4, of: document)))
    }

    @Test(arguments: Self.kinds)
    func `of many that append at once one is told that it did`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let stores = try [store(cloud.provider), store(cloud.other)]
        let document = DocumentID.random()
        var doubles = 0
        for number in Int64(1)...8 {
            let winners = try await withThrowingTaskGroup(of: LeaseRecord?.self) { group in
                for writer in 0..<12 {
                    let record = record(number, of: document, by: "writer \(writer)")
                    group.addTask {
                        try await stores[writer % 2].append(record) ? record : nil
                    }
                }
                return try await group.reduce(into: []) { $0 += [$1].compactMap(\.self) }
            }
            let latest = try await stores[0].latest(of: document)
            #expect(latest?.number == number)
            if winners.count > 1 { doubles += 1 }
            if kind.isAtomic { #expect(winners == [latest].compactMap(\.self)) }
        }
        if doubles > 0 { print("leases: \(kind.rawValue) had \(doubles) of 8 double winners") }
    }

    @Test(arguments: Self.kinds)
    func `all documents' latest records can be listed`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let store = try store(cloud.provider)
        #expect(try await store.all(atMost: 10).isEmpty)
        var expected: Set<LeaseRecord> = []
        for length in Int64(1)...3 {
            let document = DocumentID.random()
            for number in 1...length {
                #expect(try await store.append(record(number, of: document)))
            }
            expected.insert(try #require(try await store.latest(of: document)))
        }
        #expect(Set(try await store.all(atMost: 10)) == expected)
        #expect(try await store.all(atMost: 2).count == 2)
    }

    @Test(arguments: Self.kinds)
    func `what cannot be read is a record all the same`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let store = try store(cloud.provider)
        let document = DocumentID.random()
        // Makes the room.
        #expect(try await store.append(record(1, of: .random())))
        for (number, bytes) in [[], Array("held".utf8), [UInt8](repeating: 7, count: 9_000)]
            .enumerated()
        {
            let number = Int64(number + 1)
            let name = String(decoding: LeaseText.name(document, number), as: UTF8.self)
            try await cloud.foreign.write(bytes, to: ".cloudfs/leases/\(name)")
            let latest = try await store.latest(of: document)
            #expect(latest == .unreadable(document, number: number))
        }
        try await cloud.foreign.write([1], to: ".cloudfs/leases/\(document).x")
        #expect(try await store.append(record(4, of: document)))
    }

    @Test func `a server that lets two create the same object has no leases`() async throws {
        let cloud = try await Kind.s3Unconditional.make()
        #expect(cloud.provider.leases == nil)
        #expect(cloud.provider.serverNotes["leases"]?.hasPrefix("none") == true)
        let able = try await Kind.s3.make()
        #expect(able.provider.serverNotes["leases"] == "by If-None-Match")
    }

    @Test func `no lease is taken of a bucket that was not reached yet`() async throws {
        let bucket = try await S3Bucket.make(on: .inMemory(FakeS3Settings()))
        let store = try #require(try bucket.provider(device: "one").leases)
        await expectError(.offline) { try await store.latest(of: .random()) }
    }

    @Test func `leases show neither in a listing nor in the news`() async throws {
        let cloud = try await Kind.embedded.make()
        let anchor = try await cloud.provider.changes(after: nil).anchor
        let store = try store(cloud.provider)
        #expect(try await store.append(record(1, of: .random())))
        try await cloud.foreign.write([1], to: "after")
        let page = try await cloud.provider.changes(after: anchor)
        #expect(page.hints.allSatisfy { $0 == .children(of: .root) })
        #expect(try await cloud.names() == ["after"])
    }

    @Test func `links and pipes in the place of a record are not followed`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let store = try store(fixture.embedded)
        #expect(try await store.append(record(1, of: .random())))
        let document = DocumentID.random()
        let name = String(decoding: LeaseText.name(document, 1), as: UTF8.self)
        let path = "\(fixture.root)/.cloudfs/leases/\(name)"
        try #require(symlink("/etc/passwd", path) == 0)
        #expect(try await store.latest(of: document) == .unreadable(document, number: 1))
        let pipe = DocumentID.random()
        let pipeName = String(decoding: LeaseText.name(pipe, 1), as: UTF8.self)
        try #require(mkfifo("\(fixture.root)/.cloudfs/leases/\(pipeName)", 0o600) == 0)
        #expect(try await store.latest(of: pipe) == .unreadable(pipe, number: 1))
        #expect(try fixture.leftovers().isEmpty)
    }
}

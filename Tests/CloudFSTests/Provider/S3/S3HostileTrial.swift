import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// One operation of a drive on objects of its own, all known before anything goes wrong.
final class S3HostileTrial: Sendable {
    private typealias Bench = S3ProviderBench

    enum Operation: CaseIterable, Sendable {
        case readWhole, readPart, look, list
        case replace, sendInParts, move, remove

        var changes: Bool { ![.readWhole, .readPart, .look, .list].contains(self) }
    }

    let operation: Operation
    private let bench: S3ProviderBench
    private let provider: S3Provider
    /// The object, or the folder that is listed.
    private let text: String
    private let version: ItemVersion
    private let claim = Mutex<RemoteItem?>(nil)

    /// 100,000 bytes.
    static let content = Array(S3ProviderBench.content(7, parts: 1).prefix(100_000))
    private static let other = Array(S3ProviderBench.content(8, parts: 1).prefix(90_000))
    /// Long enough for two parts.
    private static let large = S3ProviderBench.content(9, parts: 2)
    private static let names = ["1", "2", "3", "4", "5"]

    init(
        _ operation: Operation,
        _ name: String,
        _ bench: S3ProviderBench,
        _ provider: S3Provider
    ) async throws {
        self.operation = operation
        self.bench = bench
        self.provider = provider
        let text = "d/\(operation)/\(name)"
        self.text = text
        switch operation {
        case .list:
            for name in Self.names { bench.fake.put(FakeS3Key("\(text)/\(name)"), name) }
            version = ItemVersion(content: "", metadata: "")
        case .sendInParts:
            // The folder that it is sent into.
            bench.fake.put(FakeS3Key("d/\(operation)/"), "")
            version = ItemVersion(content: "", metadata: "")
        default:
            bench.fake.put(FakeS3Key(text), Self.content)
            version = try await provider.item(at: Bench.path(text)).version
        }
    }

    /// What the server said of the object, where that is not so.
    var claimed: RemoteItem? { claim.withLock { $0 } }

    private var moved: String { text + "-moved" }

    private func bytes(_ text: String) -> [UInt8]? { bench.fake.object(FakeS3Key(text))?.bytes }

    private var range: Range<Int64> { operation == .readPart ? 1_000..<60_000 : 0..<100_000 }

    /// - Parameter fault: `nil`: it must succeed.
    func run(against fault: S3HostileTests.Fault?) async throws {
        let delivered = S3Delivered()
        let code = await s3Failure { try await self.perform(delivered, fault) }
        if let code {
            #expect(fault?.codes.union([.timedOut]).contains(code) == true, "\(code) of \(text)")
        }
        if operation == .readPart, let fault, fault.keepsBytesBack {
            #expect(code != nil, "\(fault) was not noticed")
        }
        let right = Self.content[Int(range.lowerBound)..<Int(range.upperBound)]
        #expect(right.starts(with: delivered.bytes), "wrong bytes of \(text)")
        expectOldOrNew(hasFailed: code != nil)
    }

    private func perform(
        _ delivered: S3Delivered,
        _ fault: S3HostileTests.Fault?
    ) async throws {
        let path = try Bench.path(text)
        switch operation {
        case .readWhole, .readPart:
            try await provider.fetch(path, range: range, version: version) {
                offset,
                piece async throws(CloudFSError) in
                try delivered.take(offset, piece.bytes)
            }
            #expect(delivered.bytes.count == range.count)
        case .look:
            let item = try await provider.item(at: path)
            #expect(item.name == path.name)
            guard item.size != Int64(Self.content.count) else { return }
            #expect(fault?.fakesLengths == true)
            claim.withLock { $0 = item }
        case .list:
            let items = try await list(path)
            // A wrong bit of a name or a number makes another one: it is found when it is read.
            guard fault != .corruptBody else { return }
            #expect(items.map(\.name.description).sorted() == Self.names)
            #expect(items.allSatisfy { $0.size == 1 && $0.kind == .file })
        case .replace:
            _ = try await Bench.upload(Self.other, to: text, of: provider, replacing: version)
        case .sendInParts:
            _ = try await Bench.upload(Self.large, to: text, of: provider)
        case .move:
            _ = try await provider.move(from: path, to: Bench.path(moved), base: version)
        case .remove:
            try await provider.delete(path, base: version)
        }
    }

    /// All pages, as a drive goes through them.
    private func list(_ path: RemotePath) async throws -> [RemoteItem] {
        var items: [RemoteItem] = []
        var pages = PageSequence()
        var token: PageToken?
        repeat {
            let page = try await provider.children(of: path, after: token)
            try pages.note(page)
            items += page.items
            token = page.next
        } while token != nil
        return items
    }

    /// Whether the bucket has what was there before, or what was to be there, and nothing else.
    private func expectOldOrNew(hasFailed: Bool) {
        let (old, new): ([UInt8]?, [UInt8]?) =
            switch operation {
            case .replace: (Self.content, Self.other)
            case .sendInParts: (nil, Self.large)
            case .remove: (Self.content, nil)
            case .readWhole, .readPart, .look: (Self.content, Self.content)
            case .list: (nil, nil)
            case .move: (Self.content, nil)
            }
        let found = bytes(text)
        #expect(found == new || hasFailed && found == old, "\(text) is neither old nor new")
        guard operation == .move else { return }
        let arrived = bytes(moved)
        #expect(arrived == Self.content || hasFailed && arrived == nil && found == old)
    }

    /// What was told of an object and is not so leads to an error, and to no wrong byte.
    func expectNoBytes(of item: RemoteItem) async throws {
        let delivered = S3Delivered()
        let path = try Bench.path(text)
        let code = await s3Failure {
            try await self.provider.fetch(path, range: 0..<item.size, version: item.version) {
                offset,
                piece async throws(CloudFSError) in
                try delivered.take(offset, piece.bytes)
            }
        }
        #expect(code == .remoteChanged)
        #expect(Self.content.starts(with: delivered.bytes))
    }
}

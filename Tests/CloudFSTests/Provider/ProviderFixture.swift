import CloudFSTestSupport
import Foundation
import Glibc
import Testing

@testable import CloudFS

/// The providers that the written contract is checked with; others join by one more case.
enum ContractedProvider: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case embedded
    case behindLink
    case behindFaults
    /// S3 in memory, with every condition honoured.
    case s3
    /// S3 in memory that takes conditions for nothing, as many servers do.
    case s3Unconditional
    case moto
    case ceph

    /// Those that can be had here: real servers only when `scripts/test` started them.
    static let allCases: [ContractedProvider] =
        [.embedded, .behindLink, .behindFaults, .s3, .s3Unconditional]
        + (S3TestServers.moto == nil ? [] : [.moto]) + (S3TestServers.ceph == nil ? [] : [.ceph])

    var testDescription: String { rawValue }

    /// An empty container, connected.
    func make() async throws -> ProviderFixture {
        switch self {
        case .embedded, .behindLink, .behindFaults: try await makeEmbedded()
        case .s3: try await S3ProviderFixture.make(on: .inMemory(FakeS3Settings()))
        case .s3Unconditional: try await S3ProviderFixture.make(on: .inMemory(.unconditional))
        case .moto: try await S3ProviderFixture.make(on: .real(#require(S3TestServers.moto)))
        case .ceph: try await S3ProviderFixture.make(on: .real(#require(S3TestServers.ceph)))
        }
    }

    private func makeEmbedded() async throws -> ProviderFixture {
        let directory = try TemporaryDirectory()
        let base = EmbeddedProvider(
            root: directory.path,
            deviceName: "device",
            pool: BlockingPool(name: "provider-tests", width: 4)
        )
        let provider: any CloudProvider =
            switch self {
            case .behindLink: SimulatedLink(base, conditions: LinkConditions(), seed: 1)
            case .behindFaults: FaultyProvider(base)
            default: base
            }
        let none = ContainerExpectation(identity: nil, hasItems: false)
        _ = try await provider.connect(expecting: none)
        return ProviderFixture(provider: provider, foreign: ForeignDirectory(directory))
    }

    /// Whether names may be any bytes; keys of a bucket are UTF-8.
    var takesAnyBytes: Bool {
        switch self {
        case .embedded, .behindLink, .behindFaults: true
        case .s3, .s3Unconditional, .moto, .ceph: false
        }
    }

    /// Whether names may have a line break.
    var takesLineBreaks: Bool { self != .moto }

    /// Whether a version can still be read that was overwritten in the middle of a fetch.
    var keepsOpenVersions: Bool { !takesAnyBytes }

    /// Whether of several writers at once exactly one wins.
    var isAtomic: Bool {
        switch self {
        case .embedded, .behindLink, .behindFaults, .s3, .ceph: true
        case .s3Unconditional, .moto: false
        }
    }
}

/// Another program that uses the same container, without CloudFS.
protocol ForeignWriter: Sendable {
    /// Writes a file, over one that may be there.
    func write(_ bytes: [UInt8], to path: String) async throws
    /// Makes empty files named by their numbers in a folder, which is made too.
    func makeFiles(_ count: Int, in folder: String) async throws
}

struct ForeignDirectory: ForeignWriter {
    let directory: TemporaryDirectory

    init(_ directory: TemporaryDirectory) {
        self.directory = directory
    }

    func write(_ bytes: [UInt8], to path: String) async throws {
        try await ForeignWork.run { [directory] in
            guard directory.exists(path) else { return try directory.write(bytes, to: path) }
            // In place, as programs do that know nothing of versions.
            try FileUpdate(directory.path(path)).write(bytes)
        }
    }

    func makeFiles(_ count: Int, in folder: String) async throws {
        try await ForeignWork.makeFiles(count, in: folder, of: directory)
    }
}

/// A provider under test, and short ways to use it.
struct ProviderFixture {
    let provider: any CloudProvider
    let foreign: any ForeignWriter
    /// A device whose changes the provider hears of; by default itself.
    let other: any CloudProvider

    init(
        provider: any CloudProvider,
        foreign: any ForeignWriter,
        other: (any CloudProvider)? = nil
    ) {
        self.provider = provider
        self.foreign = foreign
        self.other = other ?? provider
    }

    static let metadata = ItemMetadata(
        permissions: 0o640,
        userID: geteuid(),
        groupID: getegid(),
        modified: Timestamp(seconds: 1_234_567_890, nanoseconds: 123_456_789)
    )

    static func path(_ text: String) throws -> RemotePath {
        RemotePath(try text.split(separator: "/").map { try ItemName(String($0)) })
    }

    var hasStableIDs: Bool { provider.capabilities.contains(.stableIDs) }

    func item(_ path: String) async throws -> RemoteItem {
        try await provider.item(at: try Self.path(path))
    }

    @discardableResult
    func upload(
        _ bytes: [UInt8],
        to path: String,
        replacing base: ItemVersion? = nil,
        documentID: DocumentID = .random(),
        metadata: ItemMetadata = Self.metadata,
        attributes: [String: [UInt8]] = [:],
        isUnchanged: @escaping @Sendable () -> Bool = { true },
        didSend: @escaping @Sendable (Int64) -> Void = { _ in }
    ) async throws -> RemoteItem {
        let file = try ScratchFile(bytes)
        let source = UploadSource(
            descriptor: file.descriptor,
            byteCount: Int64(bytes.count),
            documentID: documentID,
            metadata: metadata,
            attributes: attributes,
            isUnchanged: isUnchanged,
            didSend: didSend
        )
        let item = try await provider.upload(source, to: try Self.path(path), replacing: base)
        withExtendedLifetime(file) {}
        return item
    }

    @discardableResult
    func makeFolder(_ path: String) async throws -> RemoteItem {
        try await provider.createFolder(
            at: try Self.path(path),
            documentID: .random(),
            metadata: Self.metadata
        )
    }

    func fetch(
        _ path: String,
        _ version: ItemVersion,
        range: Range<Int64>? = nil
    ) async throws -> [UInt8] {
        let path = try Self.path(path)
        let whole: Range<Int64>
        if let range {
            whole = range
        } else {
            whole = 0..<(try await provider.item(at: path).size)
        }
        let collected = Collected(start: whole.lowerBound)
        try await provider.fetch(path, range: whole, version: version) {
            offset,
            bytes async throws(CloudFSError) in
            await collected.add(offset, bytes)
        }
        return await collected.bytes
    }

    /// What is told of an item, but for the date of an object.
    ///
    /// What a busy server answers to an upload may be a second later than what it lists.
    func undated(_ item: RemoteItem) -> RemoteItem {
        guard !hasStableIDs else { return item }
        var item = item
        item.version.metadata = ""
        return item
    }

    /// All children of a folder, page by page.
    func list(_ path: String = "") async throws -> [RemoteItem] {
        var items: [RemoteItem] = []
        var token: PageToken?
        repeat {
            let page = try await provider.children(of: try Self.path(path), after: token)
            #expect(page.items.count <= 1_000)
            items += try await provider.details(of: page.items, in: try Self.path(path))
            token = page.next
        } while token != nil
        return items
    }

    func names(_ path: String = "") async throws -> [String] {
        try await list(path).map(\.name.description).sorted()
    }
}

/// Gathers pieces and checks that they come in order and without gaps.
private actor Collected {
    private(set) var bytes: [UInt8] = []
    private var next: Int64

    init(start: Int64) {
        next = start
    }

    func add(_ offset: Int64, _ piece: ContentPiece) {
        #expect(offset == next)
        #expect(piece.count <= 1 << 20)
        next += Int64(piece.count)
        bytes += piece.bytes
    }
}

/// A file without a name, open for reading.
final class ScratchFile {
    let descriptor: Int32

    init(_ bytes: [UInt8]) throws {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "cloudfs-scratch-\(UUID().uuidString)").path
        try Data(bytes).write(to: URL(filePath: path))
        descriptor = open(path, O_RDWR | O_CLOEXEC)
        try FileManager.default.removeItem(atPath: path)
        try #require(descriptor >= 0)
    }

    deinit {
        close(descriptor)
    }
}

/// Expects that `body` throws a `CloudFSError` with this code, or, if that is right too, nothing.
func expectError(
    _ code: CloudFSError.Code,
    orNothing: Bool = false,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> some Any
) async {
    do {
        _ = try await body()
        guard !orNothing else { return }
        Issue.record("nothing was thrown, expected \(code)", sourceLocation: sourceLocation)
    } catch let error as CloudFSError {
        #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
    } catch {
        Issue.record("\(error)", sourceLocation: sourceLocation)
    }
}

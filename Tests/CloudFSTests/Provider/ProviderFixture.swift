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

    var testDescription: String { rawValue }

    /// An empty container, connected.
    func make() async throws -> ProviderFixture {
        let directory = try TemporaryDirectory()
        let base = EmbeddedProvider(
            root: directory.path,
            deviceName: "device",
            pool: BlockingPool(name: "provider-tests", width: 4)
        )
        let provider: any CloudProvider =
            switch self {
            case .embedded: base
            case .behindLink: SimulatedLink(base, conditions: LinkConditions(), seed: 1)
            case .behindFaults: FaultyProvider(base)
            }
        let none = ContainerExpectation(identity: nil, hasItems: false)
        _ = try await provider.connect(expecting: none)
        return ProviderFixture(provider: provider, directory: directory)
    }
}

/// A provider under test, and short ways to use it.
struct ProviderFixture {
    let provider: any CloudProvider
    let directory: TemporaryDirectory

    static let metadata = ItemMetadata(
        permissions: 0o640,
        userID: geteuid(),
        groupID: getegid(),
        modified: Timestamp(seconds: 1_234_567_890, nanoseconds: 123_456_789)
    )

    static func path(_ text: String) throws -> RemotePath {
        RemotePath(try text.split(separator: "/").map { try ItemName(String($0)) })
    }

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

    /// All children of a folder, page by page.
    func list(_ path: String = "") async throws -> [RemoteItem] {
        var items: [RemoteItem] = []
        var token: PageToken?
        repeat {
            let page = try await provider.children(of: try Self.path(path), after: token)
            #expect(page.items.count <= 1_000)
            items += page.items
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

    func add(_ offset: Int64, _ piece: [UInt8]) {
        #expect(offset == next)
        #expect(piece.count <= 1 << 20)
        next += Int64(piece.count)
        bytes += piece
    }
}

/// A file without a name, open for reading.
final class ScratchFile {
    let descriptor: Int32

    init(_ bytes: [UInt8]) throws {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "cloudfs-scratch-\(UUID().uuidString)").path
        try Data(bytes).write(to: URL(filePath: path))
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try FileManager.default.removeItem(atPath: path)
        try #require(descriptor >= 0)
    }

    deinit {
        close(descriptor)
    }
}

/// Expects that `body` throws a `CloudFSError` with this code.
func expectError(
    _ code: CloudFSError.Code,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> some Any
) async {
    do {
        _ = try await body()
        Issue.record("nothing was thrown, expected \(code)", sourceLocation: sourceLocation)
    } catch let error as CloudFSError {
        #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
    } catch {
        Issue.record("\(error)", sourceLocation: sourceLocation)
    }
}

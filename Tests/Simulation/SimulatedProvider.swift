import Crypto
import Glibc
import Synchronization

@testable import CloudFS

/// What one running device sees of a cloud of folders and versions, over its link.
final class SimulatedProvider: CloudProvider {
    let capabilities: ProviderCapabilities
    private let cloud: TreeCloud
    private let link: NetworkLink
    private let hasEnded = Atomic(false)
    private let trace: @Sendable (@autoclosure () -> String) -> Void

    init(
        _ cloud: TreeCloud,
        over link: NetworkLink,
        trace: @escaping @Sendable (@autoclosure () -> String) -> Void
    ) {
        self.cloud = cloud
        self.link = link
        self.trace = trace
        var capabilities: ProviderCapabilities = [.changeFeed, .conditionalUpload, .lastingPages]
        if cloud.traits.hasStableIDs { capabilities.insert(.stableIDs) }
        if cloud.traits.hasDigests { capabilities.insert(.digests) }
        if cloud.traits.hearsAll { capabilities.insert(.hearsAll) }
        self.capabilities = capabilities
    }

    /// Nothing that the device asks from now on reaches the cloud: it is no more.
    func end() { hasEnded.store(true, ordering: .relaxed) }

    // MARK: - The way there and back

    /// A request of one message each way.
    private func ask<Value: Sendable>(
        _ what: @autoclosure () -> String,
        _ act: @escaping @Sendable (inout CloudTree) throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        let what = what()
        let fate = link.fate()
        try await travel(what)
        let cloud = cloud
        switch fate {
        case .requestLost:
            return try await giveUp("\(what): the request is lost")
        case .requestLate:
            let delay = Duration.milliseconds(500 + link.draw(20_000))
            link.drift(after: delay) { [trace] in
                let outcome = Self.outcome { () throws(CloudFSError) in try cloud.act(act) }
                trace("\(what): arrives late, \(outcome)")
            }
            return try await giveUp("\(what): the request is late")
        case .answerLost:
            let outcome = Self.outcome { () throws(CloudFSError) in try cloud.act(act) }
            return try await giveUp("\(what): \(outcome), and the answer is lost")
        case .requestTwice:
            link.drift(after: .milliseconds(link.draw(5_000))) { [trace] in
                let outcome = Self.outcome { () throws(CloudFSError) in try cloud.act(act) }
                trace("\(what): arrives again, \(outcome)")
            }
        case .delivered: break
        }
        let result = Result { () throws(CloudFSError) in try cloud.act(act) }
        trace("\(what): \(Self.outcome { () throws(CloudFSError) in try result.get() })")
        try await travel(what)
        return try result.get()
    }

    /// One way; it can end in a partition, and with the device.
    private func travel(_ what: String) async throws(CloudFSError) {
        try requireAlive(what)
        do {
            try await Task.sleep(for: link.latency())
        } catch {
            throw CloudFSError(.cancelled, "\(what) was cancelled", cause: error)
        }
        try requireAlive(what)
        guard link.isPartitioned else { return }
        let _: Void = try await giveUp("\(what): there is no way through")
    }

    private func requireAlive(_ what: String) throws(CloudFSError) {
        guard !hasEnded.load(ordering: .relaxed) else {
            throw CloudFSError(.offline, "\(what): the device is no more")
        }
    }

    /// The device waits for an answer until it does so no longer.
    private func giveUp<Value>(_ what: String) async throws(CloudFSError) -> Value {
        trace(what)
        do {
            try await Task.sleep(for: .milliseconds(100 + link.draw(3_000)))
        } catch {
            throw CloudFSError(.cancelled, what, cause: error)
        }
        throw CloudFSError(link.draw(2) == 0 ? .timedOut : .offline, what)
    }

    private static func outcome<Value>(_ body: () throws(CloudFSError) -> Value) -> String {
        do throws(CloudFSError) {
            let value = try body()
            return (value as? RemoteItem).map { "done, \($0.version.content)" } ?? "done"
        } catch {
            return error.code.rawValue
        }
    }

    // MARK: - Requests

    func connect(expecting: ContainerExpectation) async throws(CloudFSError) -> String {
        try await ask("connect") { _ throws(CloudFSError) in "simulated" }
    }

    func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        try await ask("item \(path)") { tree throws(CloudFSError) in try tree.item(at: path) }
    }

    func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        try await ask("children \(path)") { tree throws(CloudFSError) in
            try tree.children(of: path, after: page)
        }
    }

    /// How often everything is compared where not all changes are heard of.
    private static let scanInterval = Duration.seconds(60)
    private static let pollInterval = Duration.milliseconds(500)

    func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        let count = cloud.newsCount
        guard let anchor else {
            return try await ask("anchor") { _ throws(CloudFSError) in
                ChangePage(hints: [], anchor: SyncAnchor("a\(count)"))
            }
        }
        guard let position = Int(anchor.rawValue.dropFirst()), position <= count else {
            return ChangePage(hints: [.subtree(.root)], anchor: SyncAnchor("a\(count)"))
        }
        var waited = Duration.zero
        while cloud.newsCount == position {
            try await travel("changes")
            do {
                try await Task.sleep(for: Self.pollInterval)
            } catch {
                throw CloudFSError(.cancelled, "waiting for changes was cancelled", cause: error)
            }
            waited += Self.pollInterval
            if !cloud.traits.hearsAll, waited >= Self.scanInterval {
                return ChangePage(hints: [.subtree(.root)], anchor: anchor)
            }
        }
        return try await news(after: position)
    }

    private func news(after position: Int) async throws(CloudFSError) -> ChangePage {
        let page = try await ask("news") { tree throws(CloudFSError) in
            let folders = tree.news[position...]
            return ChangePage(
                hints: folders.map { .children(of: $0) },
                anchor: SyncAnchor("a\(tree.news.count)")
            )
        }
        var hints = page.hints
        if hints.count > 1, link.draw(4) == 0 { hints.reverse() }
        if link.draw(8) == 0 { hints += hints }
        // Who does not hear all may miss some; the next scan finds what they were about.
        if !cloud.traits.hearsAll { hints = hints.filter { _ in link.draw(4) != 0 } }
        return ChangePage(hints: hints, anchor: page.anchor)
    }

    @discardableResult
    func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        let what = "fetch \(path) \(range) of \(version.content)"
        let pieceCount = [16, 64, 4_096, 1 << 20][link.draw(4)]
        let bytes = try await ask(what) { tree throws(CloudFSError) in
            try Self.bytes(of: path, range, version, in: tree)
        }
        let length = Int(range.upperBound - range.lowerBound)
        for start in stride(from: 0, to: length, by: pieceCount) {
            if start > 0 {
                try await travel(what)
                if link.cutsStream() { return try await giveUp("\(what): the stream is cut") }
                if !cloud.traits.keepsOpenVersions {
                    _ = try cloud.act { tree throws(CloudFSError) in
                        try Self.bytes(of: path, range, version, in: tree)
                    }
                }
            }
            let end = min(start + pieceCount, length)
            try await deliver(
                range.lowerBound + Int64(start),
                ContentPiece(bytes[start..<end])
            )
        }
        return nil
    }

    private static func bytes(
        of path: RemotePath,
        _ range: Range<Int64>,
        _ version: ItemVersion,
        in tree: CloudTree
    ) throws(CloudFSError) -> [UInt8] {
        let node = try tree.node(at: path)
        guard node.kind == .file, node.version.content == version.content else {
            throw CloudFSError(.remoteChanged, "\(path) is another version")
        }
        guard range.upperBound <= Int64(node.bytes.count) else {
            throw CloudFSError(.invalidArgument, "\(path) is shorter")
        }
        return Array(node.bytes[Int(range.lowerBound)..<Int(range.upperBound)])
    }

    func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest? {
        guard cloud.traits.hasDigests else { return nil }
        let bytes = try await ask("digest \(path)") { tree throws(CloudFSError) in
            let node = try tree.node(at: path)
            guard node.kind == .file, node.version.content == version.content else {
                throw CloudFSError(.remoteChanged, "\(path) is another version")
            }
            return node.bytes
        }
        return ContentDigest(Array(SHA256.hash(data: bytes)))
    }

    func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        let what = "upload \(path) over \(base?.content ?? "nothing")"
        let bytes = try await sent(source, what)
        let (document, metadata) = (source.documentID, source.metadata)
        let attributes = source.attributes
        trace("\(what): \(Token.text(of: bytes))")
        return try await ask(what) { tree throws(CloudFSError) in
            try tree.upload(
                bytes,
                to: path,
                replacing: base,
                document: document,
                metadata: metadata,
                attributes: attributes
            )
        }
    }

    /// What of a file arrives at the cloud, which takes all or nothing.
    private func sent(_ source: UploadSource, _ what: String) async throws(CloudFSError) -> [UInt8]
    {
        let pieceCount = [48, 1_000, 1 << 20][link.draw(3)]
        var bytes = [UInt8](repeating: 0, count: Int(source.byteCount))
        for start in stride(from: 0, to: bytes.count, by: pieceCount) {
            let count = min(pieceCount, bytes.count - start)
            try await source.willSend(count)
            if start > 0 { try await travel(what) }
            if link.cutsStream() { return try await giveUp("\(what): the stream is cut") }
            let result = bytes[start..<start + count].withUnsafeMutableBytes {
                pread(source.descriptor, $0.baseAddress, count, off_t(start))
            }
            guard result == count else {
                throw CloudFSError(.cancelled, "the file became shorter")
            }
            source.didSend(Int64(start + count))
        }
        guard source.isUnchanged() else { throw CloudFSError(.cancelled, "the file changed") }
        return bytes
    }

    func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await ask("folder \(path)") { tree throws(CloudFSError) in
            try tree.create(.folder, at: path, document: documentID, metadata: metadata)
        }
    }

    func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await ask("link \(path)") { tree throws(CloudFSError) in
            try tree.create(
                .symlink,
                at: path,
                document: documentID,
                metadata: metadata,
                target: target
            )
        }
    }

    func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await ask("metadata \(path)") { tree throws(CloudFSError) in
            try tree.setMetadata(update, at: path, base: base)
        }
    }

    func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await ask("move \(source) to \(destination)") { tree throws(CloudFSError) in
            try tree.move(from: source, to: destination, base: base)
        }
    }

    func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError) {
        try await ask("delete \(path) \(base.content)") { tree throws(CloudFSError) in
            try tree.delete(path, base: base)
        }
    }

    func quota() async throws(CloudFSError) -> Quota? { nil }
}

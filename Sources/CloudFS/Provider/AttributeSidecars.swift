import Collections
import Crypto
import Foundation
import Logging
import Synchronization

/// A provider whose items have room for attributes that the cloud has no room for.
///
/// Those of an item that do not fit lie in a sidecar, named by the hash of what is in it, and the
/// item has that name instead: so an item and its attributes change in one step, whichever device
/// looks meanwhile, and copies made by other tools keep theirs. A sidecar is there before any item
/// names it, and is never changed or removed.
///
/// Where a directory is itself copied by another tool, an item may come before its sidecar. Its
/// version is marked then: as soon as the sidecar is there it has another one.
final class AttributeSidecars: ProviderLayer {
    /// What an item may have of them: more than a drive lets programs set.
    private static let mostBytes = 4 << 20
    /// Of the sidecars that are remembered, as pages of a folder name the same ones again.
    private static let mostRemembered = 8 << 20

    private struct Remembered {
        var attributes: OrderedDictionary<String, [String: [UInt8]]> = [:]
        var byteCount = 0
    }

    public let base: any CloudProvider
    private let logger: Logger
    private let remembered = Mutex(Remembered())

    init(_ base: any CloudProvider, logger: Logger) {
        self.base = base
        self.logger = logger
    }

    // MARK: - Sending

    public func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing version: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        try await sending(source.attributes, over: version) {
            attributes async throws(CloudFSError) in
            var source = source
            source.attributes = attributes
            return try await base.upload(source, to: path, replacing: version.map(Self.plain))
        }
    }

    public func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base version: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let plain = Self.plain(version)
        guard let attributes = update.attributes else {
            return try await whole(try await base.setMetadata(update, at: path, base: plain))
        }
        return try await sending(attributes, over: version) {
            attributes async throws(CloudFSError) in
            var update = update
            update.attributes = attributes
            return try await base.setMetadata(update, at: path, base: plain)
        }
    }

    private typealias Request = ([String: [UInt8]]) async throws(CloudFSError) -> RemoteItem

    /// Sends attributes with their item, or in a sidecar if they do not fit there.
    ///
    /// - Parameter version: What is replaced; `nil` for a new item.
    private func sending(
        _ attributes: [String: [UInt8]],
        over version: ItemVersion?,
        _ send: Request
    ) async throws(CloudFSError) -> RemoteItem {
        if let digest = version.flatMap(Self.lacked) {
            return try await sending(attributes, beside: digest, send)
        }
        if !fits(attributes), let sidecars = base.sidecars {
            return try await whole(try await send(try await store(attributes, in: sidecars)))
        }
        let item: RemoteItem
        do throws(CloudFSError) {
            item = try await send(attributes)
        } catch {
            guard error.code == .attributesFull, let sidecars = base.sidecars else { throw error }
            item = try await send(try await store(attributes, in: sidecars))
        }
        return try await whole(item)
    }

    /// Sends attributes of an item that has others, which nobody here has seen: they stay.
    ///
    /// - Returns: The item as it was sent; another version of it has all of its attributes, as
    ///   soon as their sidecar is there.
    private func sending(
        _ attributes: [String: [UInt8]],
        beside digest: String,
        _ send: Request
    ) async throws(CloudFSError) -> RemoteItem {
        var sent = attributes
        sent[RemoteAttribute.elsewhere] = Array(digest.utf8)
        do throws(CloudFSError) {
            guard fits(sent) else { throw Self.noPlace }
            return Self.told(attributes, of: try await send(sent), lacking: digest)
        } catch {
            guard error.code == .attributesFull, let sidecars = base.sidecars,
                let found = try await self.attributes(digest)
            else { throw error }
            let all = try await store(Self.merged(attributes, over: found), in: sidecars)
            return Self.told(attributes, of: try await send(all), lacking: digest)
        }
    }

    private static let noPlace = CloudFSError(
        .attributesFull,
        "attributes from another device did not arrive, and these need their place"
    )

    private static func told(
        _ attributes: [String: [UInt8]],
        of item: RemoteItem,
        lacking digest: String
    ) -> RemoteItem {
        var item = item
        item.attributes = attributes
        item.version = lacking(digest, item.version)
        return item
    }

    private func fits(_ attributes: [String: [UInt8]]) -> Bool {
        attributes.reduce(0) { $0 + $1.key.utf8.count + $1.value.count } <= base.attributeRoom
    }

    /// - Returns: What the item gets in their place.
    private func store(
        _ attributes: [String: [UInt8]],
        in sidecars: any SidecarStore
    ) async throws(CloudFSError) -> [String: [UInt8]] {
        let bytes = try Self.bytes(of: attributes)
        let digest = Hexadecimal.text(SHA256.hash(data: bytes))
        try await sidecars.write(bytes, to: SidecarName(room: .attributes, name: digest))
        remember(attributes, digest, bytes.count)
        return [RemoteAttribute.elsewhere: Array(digest.utf8)]
    }

    // MARK: - Receiving

    public func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        try await whole(try await base.item(at: path))
    }

    public func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        var listing = try await base.children(of: path, after: page)
        listing.items = try await whole(listing.items)
        return listing
    }

    public func details(
        of items: [RemoteItem],
        in folder: RemotePath
    ) async throws(CloudFSError) -> [RemoteItem] {
        let known = items.map { item in
            var item = item
            item.version = Self.plain(item.version)
            return item
        }
        return try await whole(try await base.details(of: known, in: folder))
    }

    public func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        let version = Self.plain(version)
        let item = try await base.fetch(path, range: range, version: version, deliver: deliver)
        guard let item else { return nil }
        return try await whole(item)
    }

    public func move(
        from source: RemotePath,
        to destination: RemotePath,
        base version: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let version = Self.plain(version)
        return try await whole(try await base.move(from: source, to: destination, base: version))
    }

    // MARK: - Versions

    /// Before and behind the name of the sidecar that an item lacks, if it is one, in front of the
    /// token of its metadata: where listings tell the beginning of tokens only, it is asked again.
    private static let lackingMark: Character = "?"

    private static func lacking(_ digest: String?, _ version: ItemVersion) -> ItemVersion {
        let mark = "\(lackingMark)\(digest ?? "")\(lackingMark)"
        return ItemVersion(content: version.content, metadata: mark + version.metadata)
    }

    /// A version as the provider below knows it.
    private static func plain(_ version: ItemVersion) -> ItemVersion {
        guard let mark = mark(of: version) else { return version }
        return ItemVersion(content: version.content, metadata: mark.token)
    }

    /// The digest of the sidecar that an item lacked when a version was seen.
    private static func lacked(_ version: ItemVersion) -> String? {
        mark(of: version).flatMap { digest(Array($0.name.utf8)) }
    }

    private static func mark(of version: ItemVersion) -> (name: String, token: String)? {
        guard version.metadata.first == lackingMark else { return nil }
        let rest = version.metadata.dropFirst()
        guard let end = rest.firstIndex(of: lackingMark) else { return nil }
        return (String(rest[..<end]), String(rest[rest.index(after: end)...]))
    }

    public func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest? {
        try await base.digest(of: path, version: Self.plain(version))
    }

    public func isContent(
        of version: ItemVersion,
        _ descriptor: Int32,
        byteCount: Int64
    ) async throws(CloudFSError) -> Bool? {
        try await base.isContent(of: Self.plain(version), descriptor, byteCount: byteCount)
    }

    public func delete(_ path: RemotePath, base version: ItemVersion) async throws(CloudFSError) {
        try await base.delete(path, base: Self.plain(version))
    }

    /// How many sidecars are asked for at once, as a folder may name one for each of its items.
    private static let parallelReads = 16

    private func whole(_ items: [RemoteItem]) async throws(CloudFSError) -> [RemoteItem] {
        let found = try await sidecars(of: items)
        return items.map { whole($0, with: found) }
    }

    private func whole(_ item: RemoteItem) async throws(CloudFSError) -> RemoteItem {
        try await whole([item])[0]
    }

    /// An item with the attributes that lie elsewhere.
    private func whole(_ item: RemoteItem, with found: Sidecars) -> RemoteItem {
        guard let name = item.attributes[RemoteAttribute.elsewhere] else { return item }
        var item = item
        item.attributes[RemoteAttribute.elsewhere] = nil
        let digest = Self.digest(name)
        guard let digest, let attributes = found[digest] else {
            logger.notice(
                "the attributes of an item are not in the cloud",
                metadata: ["item.name": "\(item.name)"]
            )
            item.version = Self.lacking(digest, item.version)
            return item
        }
        // Not copied for each of the items that name it.
        item.attributes =
            item.attributes.isEmpty ? attributes : Self.merged(item.attributes, over: attributes)
        return item
    }

    /// What was set by somebody who had not seen the others is added to them: tags one by one.
    private static func merged(
        _ attributes: [String: [UInt8]],
        over others: [String: [UInt8]]
    ) -> [String: [UInt8]] {
        let tags = [others, attributes].compactMap { $0[TagList.attribute] }
        var merged = others.merging(attributes) { _, new in new }
        if tags.count == 2 {
            merged[TagList.attribute] =
                TagList.merged(
                    base: TagList(attribute: []),
                    ours: TagList(attribute: tags[1]),
                    theirs: TagList(attribute: tags[0])
                ).bytes
        }
        return merged
    }

    /// Attributes by the names of their sidecars.
    private typealias Sidecars = [String: [String: [UInt8]]]

    /// Reads each sidecar that items name, once.
    ///
    /// - Throws: `offline` and the like: what cannot be read now is not taken for absent.
    private func sidecars(of items: [RemoteItem]) async throws(CloudFSError) -> Sidecars {
        let names = Set(
            items.compactMap { $0.attributes[RemoteAttribute.elsewhere].flatMap(Self.digest) }
        )
        guard !names.isEmpty else { return [:] }
        var found: Sidecars = [:]
        var failure: CloudFSError?
        await withTaskGroup(of: Reading.self) { group in
            var left = Array(names)[...]
            var running = 0
            while true {
                while running < Self.parallelReads, failure == nil, let name = left.popFirst() {
                    group.addTask { await self.reading(name) }
                    running += 1
                }
                guard let reading = await group.next() else { return }
                running -= 1
                switch reading.result {
                case .success(let attributes): found[reading.name] = attributes
                case .failure(let error): failure = error
                }
            }
        }
        if let failure { throw failure }
        return found
    }

    private struct Reading: Sendable {
        var name: String
        var result: Result<[String: [UInt8]]?, CloudFSError>
    }

    private func reading(_ name: String) async -> Reading {
        do throws(CloudFSError) {
            return Reading(name: name, result: .success(try await attributes(name)))
        } catch {
            return Reading(name: name, result: .failure(error))
        }
    }

    /// - Returns: `nil` if the cloud has nothing of this name that can be read, or something else:
    ///   one sidecar keeps no folder from being listed.
    /// - Throws: What may be over in a moment.
    private func attributes(_ digest: String) async throws(CloudFSError) -> [String: [UInt8]]? {
        if let known = remembered.withLock({ $0.attributes[digest] }) { return known }
        let name = SidecarName(room: .attributes, name: digest)
        let read: [UInt8]?
        do throws(CloudFSError) {
            read = try await base.sidecars?.read(name, atMost: Self.mostBytes)
        } catch {
            guard !error.isTransient, error.code != .unauthenticated, error.code != .cancelled
            else { throw error }
            read = nil
        }
        guard let bytes = read, Hexadecimal.text(SHA256.hash(data: bytes)) == digest,
            let attributes = Self.attributes(in: bytes)
        else { return nil }
        remember(attributes, digest, bytes.count)
        return attributes
    }

    private func remember(_ attributes: [String: [UInt8]], _ digest: String, _ byteCount: Int) {
        remembered.withLock { remembered in
            guard remembered.attributes[digest] == nil else { return }
            if remembered.byteCount + byteCount > Self.mostRemembered { remembered = Remembered() }
            remembered.attributes[digest] = attributes
            remembered.byteCount += byteCount
        }
    }

    // MARK: - Forms

    /// The same for the same attributes, on every device.
    private static func bytes(
        of attributes: [String: [UInt8]]
    ) throws(CloudFSError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(attributes.mapValues { Data($0) }))
        } catch {
            throw CloudFSError(.internalFailure, "attributes cannot be written", cause: error)
        }
    }

    /// - Returns: `nil` for what is not of that form, or more than programs may set; what a cloud
    ///   may not say is left out.
    private static func attributes(in bytes: [UInt8]) -> [String: [UInt8]]? {
        guard let fields = try? JSONDecoder().decode([String: Data].self, from: Data(bytes)) else {
            return nil
        }
        let attributes = fields.mapValues { Array($0) }.filter {
            RemoteAttribute.isSynced($0.key) && $0.key != RemoteAttribute.elsewhere
        }
        return AttributeLimits.allowFromCloud(attributes) ? attributes : nil
    }

    /// - Returns: `nil` for what is no hash.
    private static func digest(_ bytes: [UInt8]) -> String? {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let digest = Hexadecimal.bytes(bytes), digest.count == 32, text == text.lowercased()
        else { return nil }
        return text
    }
}

import Crypto

/// Items, listings and bytes.
extension S3Provider {
    // MARK: - Items

    func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        let place = try await place(path)
        guard let name = path.name else { return try root() }
        if !place.isFolderOnly {
            do throws(CloudFSError) {
                return try await describe(try await client.head(place.key), as: name)
            } catch  where error.code == .notFound {
                // Perhaps a folder.
            }
        }
        guard let folder = try await folder(place, as: name) else { throw Self.notFound(path) }
        return folder
    }

    private func root() throws(CloudFSError) -> RemoteItem {
        RemoteItem(
            id: RemoteID("root"),
            documentID: S3Metadata.documentID([:], key: keys.prefix, container: identity),
            name: try ItemName("root"),
            kind: .folder,
            size: 0,
            metadata: S3Metadata.metadata(
                [:],
                kind: .folder,
                lastModified: Timestamp(nanoseconds: 0)
            ),
            version: ItemVersion(content: Self.folderToken, metadata: Self.unmarkedToken)
        )
    }

    /// The item that an object is.
    func describe(_ head: S3ObjectHead, as name: ItemName) async throws(CloudFSError) -> RemoteItem
    {
        var kind = S3Metadata.kind(head.userMetadata) ?? .file
        if kind == .folder { kind = .file }
        var item = sketch(head.object, as: name)
        item.isSketch = false
        item.version = Self.version(of: head)
        item.kind = kind
        item.metadata = S3Metadata.metadata(
            head.userMetadata,
            kind: kind,
            lastModified: head.object.lastModified
        )
        item.attributes = S3Metadata.attributes(head.userMetadata)
        item.documentID = S3Metadata.documentID(
            head.userMetadata,
            key: head.object.key,
            container: identity
        )
        item.isIdentified = S3Metadata.isIdentified(head.userMetadata)
        guard kind == .symlink else { return item }
        guard (1...Self.longestTarget).contains(head.object.size) else {
            item.kind = .file
            return item
        }
        let target = try await target(of: head.object)
        // No link can lead there.
        if target.contains(0) { item.kind = .file } else { item.linkTarget = target }
        return item
    }

    /// The longest target of a link, in bytes; `PATH_MAX` without its NUL.
    static let longestTarget: Int64 = 4_095

    private func target(of object: S3Object) async throws(CloudFSError) -> [UInt8] {
        let collected = S3Bytes()
        _ = try await client.get(object.key, range: 0..<object.size, ifMatch: object.entityTag) {
            _,
            bytes in
            collected.append(bytes)
        }
        return collected.all
    }

    /// What a listing tells of an object.
    func sketch(_ object: S3Object, as name: ItemName) -> RemoteItem {
        RemoteItem(
            id: Self.remoteID(object.key),
            documentID: S3Metadata.documentID([:], key: object.key, container: identity),
            name: name,
            kind: .file,
            size: object.size,
            metadata: S3Metadata.metadata([:], kind: .file, lastModified: object.lastModified),
            version: Self.version(of: object),
            isSketch: true,
            isIdentified: false
        )
    }

    private func folderSketch(_ key: [UInt8], as name: ItemName) -> RemoteItem {
        RemoteItem(
            id: Self.remoteID(key),
            documentID: S3Metadata.documentID([:], key: key, container: identity),
            name: name,
            kind: .folder,
            size: 0,
            metadata: S3Metadata.metadata(
                [:],
                kind: .folder,
                lastModified: client.serverNow ?? Timestamp(nanoseconds: 0)
            ),
            // A listing says nothing of what is written on a folder.
            version: ItemVersion(content: Self.folderToken, metadata: ""),
            isSketch: true,
            isIdentified: false
        )
    }

    /// A folder with what is written on its marker, or `nil` if there is none.
    func folder(_ place: Place, as name: ItemName) async throws(CloudFSError) -> RemoteItem? {
        guard let first = try await firstObjects(in: place, limit: 1).first else { return nil }
        noteFolder(place.folderKey, isMarked: first.key == place.folderKey)
        guard first.key == place.folderKey else {
            var folder = folderSketch(place.folderKey, as: name)
            folder.version.metadata = Self.unmarkedToken
            folder.isSketch = false
            return folder
        }
        return markedFolder(try await client.head(place.folderKey), as: name)
    }

    func markedFolder(_ head: S3ObjectHead, as name: ItemName) -> RemoteItem {
        var folder = folderSketch(head.object.key, as: name)
        folder.isSketch = false
        folder.metadata = S3Metadata.metadata(
            head.userMetadata,
            kind: .folder,
            lastModified: head.object.lastModified
        )
        folder.attributes = S3Metadata.attributes(head.userMetadata)
        folder.documentID = S3Metadata.documentID(
            head.userMetadata,
            key: head.object.key,
            container: identity
        )
        folder.isIdentified = S3Metadata.isIdentified(head.userMetadata)
        folder.version.metadata = Self.version(of: head).metadata
        return folder
    }

    // MARK: - Versions

    static let folderToken = "folder"
    static let unmarkedToken = "unmarked"

    /// What a listing tells of a version: tag and size, and the second of the last write.
    static func version(of object: S3Object) -> ItemVersion {
        ItemVersion(
            content: "\(object.entityTag):\(object.size)",
            metadata: String(object.lastModified.seconds)
        )
    }

    /// A version with what is written on the object: two writes in one second differ.
    static func version(of head: S3ObjectHead) -> ItemVersion {
        var version = version(of: head.object)
        let fields = head.userMetadata.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        let digest = SHA256.hash(data: Array(fields.joined(separator: "\n").utf8)).prefix(6)
        version.metadata += "." + Hexadecimal.text(digest)
        return version
    }

    /// Whether an object is what `version` means: the same bytes and the same metadata.
    ///
    /// Not the same second: a folder that moved has copies of what was in it.
    static func isMeant(_ head: S3ObjectHead, by version: ItemVersion) -> Bool {
        let found = Self.version(of: head)
        guard found.content == version.content else { return false }
        guard let known = metadataDigest(version) else { return true }
        return metadataDigest(found) == known
    }

    /// Whether an object can be a copy of what `version` means.
    ///
    /// The tag of what was uploaded in parts changes by a copy: there the size must do.
    static func hasSameBytes(_ head: S3ObjectHead, as version: ItemVersion) -> Bool {
        let isInParts = entityTag(version).contains("-")
        return isInParts
            ? head.object.size == byteCount(version)
            : Self.version(of: head.object).content == version.content
    }

    func provesOtherBytes(_ version: ItemVersion, than other: ItemVersion) -> Bool {
        let tags = [version, other].map(Self.entityTag)
        return rules.tagsAreDigests && version.content != other.content
            && !tags.contains { $0.contains("-") }
    }

    /// `nil` for a version that is known from a listing only.
    static func metadataDigest(_ version: ItemVersion) -> Substring? {
        let parts = version.metadata.split(separator: ".")
        return parts.count == 2 ? parts[1] : nil
    }

    static func entityTag(_ version: ItemVersion) -> String {
        // Before the size; a tag may have colons.
        let content = version.content
        return String(content.lastIndex(of: ":").map { content[..<$0] } ?? content[...])
    }

    private static func byteCount(_ version: ItemVersion) -> Int64? {
        version.content.split(separator: ":").last.flatMap { Int64($0) }
    }

    /// The key, or what is left of it in the room for an id.
    private static func remoteID(_ key: [UInt8]) -> RemoteID {
        let text = URIEncoding.encode(key, keepingSlash: true)
        guard text.utf8.count > 400 else { return RemoteID(text) }
        let digest = S3Metadata.digest(of: key[...], in: "")
        return RemoteID(text.prefix(360) + "#\(digest)")
    }

    // MARK: - Listings

    func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        let place = try await place(path)
        guard !isHidden(place.folderKey), !place.isFileOnly else { throw Self.notFound(path) }
        let (listing, hidden) = try await steadyListing(place.folderKey, after: page)
        let isEmpty =
            listing.objects.isEmpty && listing.prefixes.isEmpty && listing.undecoded.isEmpty
        if page == nil, isEmpty, !place.isRoot {
            if listing.next == nil { throw try await absence(of: path, place) }
        }
        let marker = listing.objects.first.flatMap { $0.key == place.folderKey ? $0 : nil }
        noteFolder(place.folderKey, isMarked: marker != nil)
        var items: [RemoteItem] = []
        var files: Set<[UInt8]> = []
        for object in listing.objects where object.key != place.folderKey {
            let part = Array(object.key.dropFirst(place.folderKey.count))
            let name = try S3Keys.name(of: part, isInRoot: place.isRoot)
            files.insert(part)
            items.append(sketch(object, as: name))
        }
        let start = Self.firstPart(of: listing, in: place.folderKey)
        for key in listing.prefixes
        where key != keys.room && !hidden.contains(where: { key.starts(with: $0) }) {
            let part = Array(key.dropFirst(place.folderKey.count).dropLast())
            var hasFile = files.contains(part)
            // The file, if there is one, stands at the end of the page before. A part without a
            // byte has none: its key would be that of the folder.
            let mayHaveFile = !hasFile && !part.isEmpty && page != nil
            if mayHaveFile, let start, start != part, start.starts(with: part) {
                hasFile = try await exists(place.folderKey + part)
            }
            let name =
                try hasFile
                ? S3Keys.nameOfFolderBesideFile(part)
                : S3Keys.name(of: part, isInRoot: place.isRoot)
            noteFolder(key)
            items.append(folderSketch(key, as: name))
        }
        return ListingPage(
            items: items,
            unreadable: try unreadable(listing),
            folder: page == nil ? path.name.map { sketch(ofFolder: place, marker, as: $0) } : nil,
            next: listing.next.map { PageToken($0) }
        )
    }

    /// Names for what stands in a listing and cannot be decoded: it is there, whatever it is.
    private func unreadable(_ listing: S3ListPage) throws(CloudFSError) -> [ItemName] {
        var names: [ItemName] = []
        for entry in listing.undecoded {
            logger.notice(
                "a key of the bucket is not encoded rightly and is left out",
                metadata: ["key": "\(S3ErrorMapping.shown(String(decoding: entry, as: UTF8.self)))"]
            )
            let part = entry.split(separator: UInt8(ascii: "/")).last ?? []
            names.append(try S3Keys.name(of: Array(part), isInRoot: false))
        }
        return names
    }

    /// What a folder's own listing tells of it.
    private func sketch(
        ofFolder place: Place,
        _ marker: S3Object?,
        as name: ItemName
    ) -> RemoteItem {
        var folder = folderSketch(place.folderKey, as: name)
        folder.version.metadata = marker.map { Self.version(of: $0).metadata } ?? Self.unmarkedToken
        return folder
    }

    /// A page that was listed while no move became hidden or shown, and what was hidden then: it
    /// would have both or neither.
    private func steadyListing(
        _ folderKey: [UInt8],
        after page: PageToken?
    ) async throws(CloudFSError) -> (page: S3ListPage, hidden: [[UInt8]]) {
        while true {
            let (mark, hidden) = hiddenFolders
            let listing = try await client.list(
                prefix: folderKey,
                delimiter: true,
                after: page?.rawValue,
                mayLackKeys: true
            )
            if hiddenChanges == mark { return (listing, hidden) }
        }
    }

    private static func firstPart(of listing: S3ListPage, in folder: [UInt8]) -> [UInt8]? {
        let firsts = [listing.objects.first?.key, listing.prefixes.first].compactMap { $0 }
        return firsts.min { $0.lexicographicallyPrecedes($1) }
            .map { Array($0.dropFirst(folder.count)) }
    }

    func exists(_ key: [UInt8]) async throws(CloudFSError) -> Bool {
        try await client.headIfPresent(key) != nil
    }

    /// The object of a file, if it is the version that is meant.
    ///
    /// - Throws: `notFound`; `remoteChanged` for another version, or if it is a folder by now.
    func meantFile(
        _ place: Place,
        _ version: ItemVersion,
        _ path: RemotePath
    ) async throws(CloudFSError) -> S3ObjectHead {
        do throws(CloudFSError) {
            guard !place.isFolderOnly else { throw Self.changed(path) }
            let head = try await client.head(place.key)
            guard Self.isMeant(head, by: version) else { throw Self.changed(path) }
            return head
        } catch  where error.code == .notFound {
            let isFolder = try await folder(place, as: ItemName("folder")) != nil
            throw isFolder ? Self.changed(path) : Self.notFound(path)
        }
    }

    private func absence(
        of path: RemotePath,
        _ place: Place
    ) async throws(CloudFSError) -> CloudFSError {
        guard !place.isFolderOnly, try await exists(place.key) else { return Self.notFound(path) }
        return CloudFSError(.notDirectory, "\"\(path)\" is not a folder")
    }

    func details(
        of items: [RemoteItem],
        in folder: RemotePath
    ) async throws(CloudFSError) -> [RemoteItem] {
        let looks = await withTaskGroup(of: S3Look.self) { group in
            var looks: [S3Look] = []
            for (number, item) in items.enumerated() {
                if number >= settings.parallelLooks, let look = await group.next() {
                    looks.append(look)
                }
                group.addTask { await self.look(at: item, in: folder) }
            }
            return await group.reduce(into: looks) { $0.append($1) }
        }
        var found: [RemoteItem] = []
        for look in looks {
            if let error = look.failure { throw error }
            if let item = look.item { found.append(item) }
        }
        return found
    }

    private func look(at item: RemoteItem, in folder: RemotePath) async -> S3Look {
        guard item.isSketch else { return S3Look(item: item) }
        do throws(CloudFSError) {
            let place = try await place(folder.appending(item.name))
            guard item.kind == .file else {
                return S3Look(item: try await self.folder(place, as: item.name))
            }
            return S3Look(item: try await describe(try await client.head(place.key), as: item.name))
        } catch  where error.code == .notFound {
            return S3Look()
        } catch  where !error.isOfConnection && error.code != .cancelled {
            // Encrypted with a key of somebody's own, another account's, or in an archive: it hides
            // no other, and whoever reads it is told.
            logger.debug("an object may not be looked at", metadata: ["error": "\(error)"])
            return S3Look(item: item)
        } catch {
            return S3Look(failure: error)
        }
    }

    // MARK: - Bytes

    @discardableResult
    func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        let place = try await place(path)
        let tag = Self.entityTag(version)
        guard let size = Self.byteCount(version), !place.isFolderOnly else {
            throw CloudFSError(.isDirectory, "\"\(path)\" is no file")
        }
        guard range.lowerBound >= 0, range.upperBound <= size else {
            throw CloudFSError(.invalidArgument, "\"\(path)\" has no bytes at \(range)")
        }
        guard !range.isEmpty else {
            let head = try await client.head(place.key)
            guard head.object.entityTag == tag else { throw Self.changed(path) }
            return nil
        }
        let head: S3ObjectHead
        do throws(CloudFSError) {
            head = try await client.get(place.key, range: range, ifMatch: tag, deliver: deliver)
        } catch  where error.cause as? S3Failure == .noSuchKey {
            guard let moved = movedKey(of: place.key) else { throw error }
            head = try await client.get(moved, range: range, ifMatch: tag, deliver: deliver)
        }
        guard head.object.size == size else { throw Self.changed(path) }
        guard version.isSketch, let name = path.name else { return nil }
        var item = try await describe(head, as: name)
        if !settings.tellsOwners { item.metadata.hideOwner() }
        return item.tellsMore(than: sketch(head.object, as: name)) ? item : nil
    }

    /// S3 has no digest of the whole content that could be relied on.
    func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest? {
        _ = try await meantFile(try await place(path), version, path)
        return nil
    }

    /// A bucket has no limit that it tells.
    func quota() async throws(CloudFSError) -> Quota? { nil }
}

/// What looking at one item gave: neither if it is gone.
private struct S3Look: Sendable {
    var item: RemoteItem?
    var failure: CloudFSError?
}

import Glibc

/// `.cloudfs` and what is below it: folders of links to items, which nobody can change.
///
/// They are for the user who mounted alone: what they show is found through folders of the drive
/// whose modes may keep other users out.
///
/// The kernel keeps none of it, but for the targets of links: a link that leads elsewhere has
/// another generation.
extension Filesystem {
    /// Refuses changes of what is below `.cloudfs`.
    ///
    /// - Throws: `readOnly`.
    func requireNotVirtual(_ id: ItemID) throws(CloudFSError) {
        guard id.isVirtual else { return }
        throw CloudFSError(.readOnly, "what is below .cloudfs follows from items", item: id)
    }

    /// Answers at once, but off the kernel's threads where a query has to be answered first.
    func answer<Value: Sendable>(
        about id: ItemID,
        _ work: @escaping @Sendable () throws(CloudFSError) -> Value
    ) throws(CloudFSError) -> Answer<Value> {
        guard let node = VirtualNode(id), node.isOfQueries else { return .ready(try work()) }
        return .pending { () throws(CloudFSError) in
            try await self.hydrator.pool.engine { try work() }
        }
    }

    func lookUp(
        _ name: ItemName,
        inVirtual folder: ItemID
    ) throws(CloudFSError) -> LookupResult {
        let node = try node(folder)
        if node.showsUses { storeUses() }
        guard let found = try find(name, in: node) else { return .absent(isCacheable: false) }
        do throws(CloudFSError) {
            let attributes = try attributes(ofVirtual: found.id)
            return .found(Entry(attributes: attributes, isCacheable: false))
        } catch  where error.code == .notFound {
            return .absent(isCacheable: false)
        }
    }

    /// What has a name in a folder; a text that is no query has no folder.
    private func find(
        _ name: ItemName,
        in folder: VirtualNode
    ) throws(CloudFSError) -> VirtualNode? {
        do throws(CloudFSError) {
            return try virtual.find(name, in: folder, of: catalog, plan: planOfSearch)
        } catch  where folder == .folder(.search) {
            guard error.code == .invalidArgument else {
                logger.warning("a query gets no folder", metadata: ["error": "\(error)"])
                throw error
            }
            logger.debug("no query has that text", metadata: ["error": "\(error)"])
            return nil
        }
    }

    private func planOfSearch(_ text: String) throws(CloudFSError) -> QueryPlan {
        try plan(for: text)
    }

    private func node(_ id: ItemID) throws(CloudFSError) -> VirtualNode {
        guard let node = VirtualNode(id) else {
            throw CloudFSError(.notFound, "there is no such folder below .cloudfs", item: id)
        }
        return node
    }

    /// What was opened last, and only this process knows, is to be found in the catalog.
    private func storeUses() {
        do throws(CloudFSError) {
            try files.saveUses()
        } catch {
            logger.warning(
                "what was used last cannot be stored",
                metadata: ["error": "\(error)"]
            )
        }
    }

    func attributes(ofVirtual id: ItemID) throws(CloudFSError) -> Attributes {
        let node = try node(id)
        return try catalog.readFew { try attributes(of: node, $0) }
    }

    private func attributes(of node: VirtualNode, _ reader: CatalogReader) throws -> Attributes {
        guard case .link(let item, let depth) = node else {
            if case .tag(let tag) = node, try reader.tag(tag) == nil {
                throw CloudFSError(.notFound, "nothing has that tag any more", item: node.id)
            }
            if case .search(let search) = node, try reader.search(search) == nil {
                throw VirtualFolders.forgotten(node.id)
            }
            return folderAttributes(of: node, like: try reader.existing(.root).item)
        }
        let target = try target(of: item, depth: depth, reader)
        let record = try reader.existing(item)
        let shown = try reader.opened(item) ?? record.item.metadata.modified
        return Attributes(
            id: node.id,
            kind: .symlink,
            permissions: 0o777,
            linkCount: 1,
            userID: record.item.metadata.shownUserID,
            groupID: record.item.metadata.shownGroupID,
            size: Int64(target.count),
            blocks: 1,
            accessed: shown,
            modified: shown,
            changed: record.item.changed,
            isCacheable: false,
            generation: Self.fingerprint(target)
        )
    }

    private func folderAttributes(of node: VirtualNode, like root: Item) -> Attributes {
        Attributes(
            id: node.id,
            kind: .folder,
            permissions: 0o500,
            linkCount: 2,
            userID: ItemMetadata.mounter.userID,
            groupID: ItemMetadata.mounter.groupID,
            size: 0,
            blocks: 0,
            accessed: root.metadata.modified,
            modified: root.metadata.modified,
            changed: root.changed,
            isCacheable: false
        )
    }

    func linkTarget(ofVirtual id: ItemID) throws(CloudFSError) -> [UInt8] {
        guard case .link(let item, let depth) = try node(id) else {
            throw CloudFSError(.invalidArgument, "only symbolic links have a target", item: id)
        }
        return try catalog.readFew { try target(of: item, depth: depth, $0) }
    }

    /// Longer ones the kernel does not take.
    private static let longestTarget = 4_095

    private func target(
        of item: ItemID,
        depth: Int,
        _ reader: CatalogReader
    ) throws -> [UInt8] {
        guard let names = try reader.path(of: item) else {
            throw CloudFSError(.notFound, "the item has no name any more", item: item)
        }
        let up = Array(repeating: Array("..".utf8), count: depth)
        let target = Array((up + names).joined(separator: [UInt8(ascii: "/")]))
        guard target.count <= Self.longestTarget else {
            throw CloudFSError(.notFound, "the item's path is too long for a link", item: item)
        }
        return target
    }

    /// FNV-1a.
    private static func fingerprint(_ bytes: [UInt8]) -> UInt64 {
        bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
    }

    // MARK: - Listing

    /// Opens a folder below `.cloudfs`; what the kernel kept of it is never right.
    func openVirtualFolder(
        _ id: ItemID,
        by request: RequestStamp?
    ) throws(CloudFSError) -> OpenedFolder {
        let node = try node(id)
        guard node.isFolder else {
            throw CloudFSError(.notDirectory, "not a folder", item: id)
        }
        if node.showsUses { storeUses() }
        if node == .folder(.recents) { recents?.noteLook() }
        if let request, request.isRepeated, let handle = handles.folder(openedBy: request.mark) {
            return OpenedFolder(item: id, handle: handle, keepsCache: false)
        }
        let handle = try handles.add(folder: id, by: request)
        return OpenedFolder(item: id, handle: handle, keepsCache: false)
    }

    /// Emits entries from `offset` on: that of a link is the number of its item, so that a stream
    /// goes on where it was whatever comes and goes.
    func readVirtualFolder(
        _ id: ItemID,
        offset: Int64,
        emit: (DirectoryEntry) -> Bool
    ) throws(CloudFSError) {
        let node = try node(id)
        guard try emitDots(of: node, from: offset, emit) else { return }
        let position = max(0, offset - Self.firstVirtualName)
        let children = try children(of: node, after: position)
        try catalog.read { reader in
            for child in children {
                let attributes: Attributes
                do {
                    attributes = try self.attributes(of: child.node, reader)
                } catch let error as CloudFSError where error.code == .notFound {
                    // Gone since it was listed.
                    continue
                }
                let entry = DirectoryEntry(
                    name: child.name,
                    attributes: attributes,
                    offset: child.position + Self.firstVirtualName,
                    isCacheable: false
                )
                guard emit(entry) else { return }
            }
        }
    }

    /// Offsets 1 and 2 are behind `.` and `..`; names follow.
    private static let firstVirtualName: Int64 = 2

    private struct VirtualChild {
        var position: Int64
        var name: [UInt8]
        var node: VirtualNode
    }

    private func children(
        of node: VirtualNode,
        after position: Int64
    ) throws(CloudFSError) -> [VirtualChild] {
        switch node {
        case .top:
            return VirtualFolder.allCases.filter { $0.rawValue > position }.map {
                VirtualChild(
                    position: $0.rawValue,
                    name: Array($0.name.utf8),
                    node: .folder($0)
                )
            }
        case .folder(.tags):
            let tags = try catalog.read {
                try $0.tags(after: position, limit: VirtualFolders.capacity)
            }
            return tags.compactMap { tag in
                EscapedName.name(of: tag.name).map {
                    VirtualChild(position: tag.id, name: $0, node: .tag(tag.id))
                }
            }
        case .folder, .tag, .search:
            let listing = try virtual.listing(of: node, in: catalog, plan: planOfSearch)
            return listing.entries(after: ItemID(position)).map {
                VirtualChild(
                    position: $0.item.rawValue,
                    name: $0.name,
                    node: .link($0.item, depth: node.depthOfLinks)
                )
            }
        case .link: return []
        }
    }

    private func emitDots(
        of node: VirtualNode,
        from offset: Int64,
        _ emit: (DirectoryEntry) -> Bool
    ) throws(CloudFSError) -> Bool {
        guard offset < Self.firstVirtualName else { return true }
        let above = node.parent ?? .root
        let dots = [
            (".", try attributes(ofVirtual: node.id)),
            ("..", try attributes(of: above, handle: nil)),
        ]
        for (index, (name, attributes)) in dots.enumerated() where Int64(index) >= offset {
            let entry = DirectoryEntry(
                name: Array(name.utf8),
                attributes: attributes,
                offset: Int64(index) + 1,
                isCacheable: false
            )
            guard emit(entry) else { return false }
        }
        return true
    }
}

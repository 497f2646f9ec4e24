import Glibc

extension Filesystem {
    /// What the announcing process finds under a name; `nil` for any other, and where that is what
    /// everybody finds.
    func announcedLookup(
        _ name: ItemName,
        in parent: ItemID,
        process: Int32?
    ) throws(CloudFSError) -> LookupResult? {
        guard let process, announced.isOwn(process) else { return nil }
        let isThere = try catalog.readFew { try $0.child(name.bytes, of: parent) != nil }
        let place = WatchEvent.Place(folder: parent, name: name)
        switch announced.sight(of: place, isThere: isThere) {
        case .truth: return nil
        // Not to be kept: whoever else looks at it asks anew, and is told the truth.
        case .nothing: return .absent(isCacheable: false)
        case .former(let isFolder):
            let former = formerAttributes(isFolder: isFolder)
            return .found(Entry(attributes: former, isCacheable: false))
        }
    }

    /// What has appeared, if the announcing process makes it; `nil` for any other.
    func announcedMaking(
        _ name: ItemName,
        in parent: ItemID,
        by caller: Caller
    ) throws(CloudFSError) -> Entry? {
        guard try announced.isAnnouncing(caller.processID) else { return nil }
        guard announced.takeMaking(at: WatchEvent.Place(folder: parent, name: name)) else {
            throw AnnouncedCalls.refusal
        }
        return entry(try catalog.read { try Self.child(name, of: parent, $0) })
    }

    /// Whether it is the announcing process that removes what is gone.
    func isAnnouncedRemoval(
        _ name: ItemName,
        from parent: ItemID,
        by caller: Caller
    ) throws(CloudFSError) -> Bool {
        guard try announced.isAnnouncing(caller.processID) else { return false }
        guard announced.takeRemoval(at: WatchEvent.Place(folder: parent, name: name)) else {
            throw AnnouncedCalls.refusal
        }
        return true
    }

    /// Whether it is the announcing process that sets times, to what they are.
    func isAnnouncedChange(by caller: Caller) throws(CloudFSError) -> Bool {
        try announced.isAnnouncing(caller.processID)
    }

    /// What stands for something that is gone, until it is removed once more.
    private func formerAttributes(isFolder: Bool) -> Attributes {
        Attributes(
            id: isFolder ? VirtualNode.formerFolder : VirtualNode.formerFile,
            kind: isFolder ? .folder : .file,
            permissions: 0o700,
            linkCount: isFolder ? 2 : 1,
            userID: ItemMetadata.mounter.userID,
            groupID: ItemMetadata.mounter.groupID,
            size: 0,
            blocks: 0,
            accessed: Timestamp(nanoseconds: 0),
            modified: Timestamp(nanoseconds: 0),
            changed: Timestamp(nanoseconds: 0),
            // It is never asked for by its number, which says nothing of what is gone.
            isCacheable: true
        )
    }
}

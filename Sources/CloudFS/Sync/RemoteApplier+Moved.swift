/// A file that another device moved, while a program here moves it over itself: in a cloud without
/// stable ids it is two items until both of its places are known.
///
/// Whatever hears first that the one that was moved here is not where it was leaves it where the
/// cloud has what it replaced. The deletion of that would be the end of its bytes.
extension RemoteApplier {
    /// What an item has replaced here that may be the item itself, as its old place has another
    /// version.
    func lookalike(
        of known: BaseRecord,
        since version: ItemVersion,
        _ reader: CatalogReader
    ) throws -> BaseRecord? {
        guard !hasStableIDs, version.content != known.version.content else { return nil }
        return try reader.replacedLookalike(of: known.item)
    }

    /// Whether what an item has replaced here may be the item itself.
    enum Lookalike: Sendable {
        case hasNone
        /// It has that one's place now.
        case isSettled
        /// That one is being deleted.
        case isUnsure
    }

    /// Leaves a file where the cloud has what it replaced, as its old place has nothing any more;
    /// blocks on the disk.
    func settleWithLookalike(_ known: BaseRecord) throws(CloudFSError) -> Lookalike {
        guard !hasStableIDs else { return .hasNone }
        return try catalog.write { writer in
            guard try writer.reader.base(of: known.item) == known,
                let lookalike = try writer.reader.replacedLookalike(of: known.item)
            else { return .hasNone }
            guard !mutations.isActive(lookalike.item) else { return .isUnsure }
            try writer.settle(known.item, inPlaceOf: lookalike)
            return .isSettled
        }
    }
}

extension Uploader {
    /// Whether what is to be deleted stays in the cloud, as what was moved over it here was the
    /// same version and is not where it was.
    ///
    /// - Precondition: Listings hear of the deletion already.
    /// - Throws: `cancelled` if another item has its place by now.
    func staysForLookalike(_ base: BaseRecord) async throws(CloudFSError) -> Bool {
        let moved = try await pool.engine {
            try self.catalog.read { try self.moved(over: base, $0) }
        }
        guard let moved, try await !isThere(moved.base, at: moved.path) else { return false }
        let id = moved.base.item
        try await pool.engine {
            try self.catalog.write { writer in
                guard let now = try self.moved(over: base, writer.reader), now.base == moved.base
                else { throw CloudFSError(.cancelled, "it was changed meanwhile", item: id) }
                try writer.settle(id, inPlaceOf: now.lookalike)
            }
        }
        refreshBase(of: id)
        if let parent = moved.base.parent { feed.hint([parent]) }
        return true
    }

    /// What was moved here over an item that is to be deleted, and where the cloud has both.
    private struct Moved: Sendable {
        var base: BaseRecord
        var path: RemotePath
        var lookalike: BaseRecord
    }

    private func moved(over base: BaseRecord, _ reader: CatalogReader) throws -> Moved? {
        guard try reader.base(of: base.item)?.isInPlace(of: base) == true else {
            throw CloudFSError(.cancelled, "another item has its place", item: base.item)
        }
        guard !applier.hasStableIDs, let parent = base.parent,
            let heir = try reader.child(base.name, of: parent),
            let lookalike = try reader.replacedLookalike(of: heir.id), lookalike.item == base.item,
            let own = try reader.base(of: heir.id), let path = try reader.remotePath(of: heir.id)
        else { return nil }
        return Moved(base: own, path: path, lookalike: lookalike)
    }

    private func isThere(
        _ base: BaseRecord,
        at path: RemotePath
    ) async throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            let found = try await provider.item(at: path)
            return found.kind == .file && found.version.content == base.version.content
        } catch  where error.code == .notFound || error.code == .notDirectory {
            return false
        }
    }
}

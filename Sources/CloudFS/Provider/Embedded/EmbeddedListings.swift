import Glibc
import Synchronization

/// Listings that are handed out page by page.
///
/// The names are read once, at the first page, and kept; each item is looked at when its page is
/// made. After the last name the folder is read again: names that appeared meanwhile follow, but
/// if others are gone as well something may have been renamed past the listing, and then it has
/// to begin again. A listing is complete or it throws.
final class EmbeddedListings: Sendable {
    private struct Listing {
        var path: RemotePath
        var names: [ItemName]
    }

    private struct State {
        var listings: [UInt64: Listing] = [:]
        /// The one that was asked for last comes last.
        var order: [UInt64] = []
        var nameCount = 0
        var next: UInt64 = 0

        mutating func keep(_ listing: Listing, as number: UInt64) {
            forget(number)
            listings[number] = listing
            order.append(number)
            nameCount += listing.names.count
        }

        mutating func forget(_ number: UInt64) {
            guard let listing = listings.removeValue(forKey: number) else { return }
            order.removeAll { $0 == number }
            nameCount -= listing.names.count
        }
    }

    /// How an item that was found is looked at.
    typealias Look =
        @Sendable (EmbeddedFoundItem, EmbeddedRoot) throws(EmbeddedFailure) -> RemoteItem?

    private let look: Look
    private let state = Mutex(State())

    private static let pageItemCount = 1_000
    /// Listings under way at once; one that was left unfinished makes room for later ones.
    ///
    /// There is always room for all that a comparison lists at once, and what programs open beside
    /// it.
    private static let keptCount = 24...64
    /// Of more names than this in all of them, no more listings are kept than must be.
    private static let mostNames = 500_000
    private static let attemptCount = 5

    init(
        look: @escaping Look = { found, root throws(EmbeddedFailure) in
            try found.remoteItem(of: root.identity)
        }
    ) {
        self.look = look
    }

    func page(
        after token: PageToken?,
        of path: RemotePath,
        in root: EmbeddedRoot
    ) throws
        -> ListingPage
    {
        let folder = try openFolder(path, in: root)
        guard let token else {
            for _ in 0..<Self.attemptCount {
                let listing = Listing(path: path, names: try names(in: folder, of: path))
                if let page = try page(of: listing, number: nil, from: 0, in: folder, root) {
                    return page
                }
            }
            throw restart(path)
        }
        let parts = token.rawValue.split(separator: ".").compactMap { UInt64($0) }
        guard parts.count == 2, let start = Int(exactly: parts[1]),
            let listing = state.withLock({ $0.listings[parts[0]] }),
            listing.path == path, start < listing.names.count,
            let page = try page(of: listing, number: parts[0], from: start, in: folder, root)
        else { throw restart(path) }
        return page
    }

    /// Makes one page, or `nil` when the listing cannot become complete.
    private func page(
        of listing: Listing,
        number: UInt64?,
        from start: Int,
        in folder: EmbeddedDescriptor,
        _ root: EmbeddedRoot
    ) throws -> ListingPage? {
        var listing = listing
        let end = min(start + Self.pageItemCount, listing.names.count)
        let handle = try EmbeddedHandle(of: folder)
        var items: [RemoteItem] = []
        items.reserveCapacity(end - start)
        var (hidden, unreadable) = ([ItemName](), [ItemName]())
        var damages: [EmbeddedFailure] = []
        for name in listing.names[start..<end] {
            do {
                if let item = try item(name, in: folder, handle, root) { items.append(item) }
            } catch let failure as EmbeddedFailure where failure.errorNumber == EXDEV {
                hidden.append(name)
            } catch let failure as EmbeddedFailure where failure.isDamage {
                unreadable.append(name)
                damages.append(failure)
            } catch let failure as EmbeddedFailure where failure.errorNumber == EBUSY {
                // It is written all the time, as a log is: each look found it changed.
                unreadable.append(name)
            }
        }
        // Where nothing at all can be looked at, it is not one item that is damaged.
        let isNothingElse =
            start == 0 && items.isEmpty && hidden.isEmpty && damages.count == unreadable.count
        if let damage = damages.last, isNothingElse, damages.count > 1 { throw damage }
        if end == listing.names.count {
            guard let added = try namesAdded(since: listing, in: folder) else { return nil }
            listing.names += added
        }
        guard end < listing.names.count else {
            if let number { state.withLock { $0.forget(number) } }
            return ListingPage(items: items, hidden: hidden, unreadable: unreadable, next: nil)
        }
        let kept = keep(listing, as: number)
        return ListingPage(
            items: items,
            hidden: hidden,
            unreadable: unreadable,
            next: PageToken("\(kept).\(end)")
        )
    }

    /// The item of a name, or `nil` if it went away or has no place in a cloud.
    private func item(
        _ name: ItemName,
        in folder: EmbeddedDescriptor,
        _ handle: EmbeddedHandle,
        _ root: EmbeddedRoot
    ) throws -> RemoteItem? {
        do {
            return try look(EmbeddedFoundItem(name: name, in: folder, handle: handle), root)
        } catch  where error.errorNumber == ENOENT {
            return nil
        }
    }

    /// Names that are new since the listing began; `nil` when others are gone too.
    private func namesAdded(
        since listing: Listing,
        in folder: EmbeddedDescriptor
    ) throws -> [ItemName]? {
        let now = try names(in: folder, of: listing.path)
        let before = Set(listing.names)
        let added = now.filter { !before.contains($0) }
        let isAnyGone = now.count - added.count < before.count
        return added.isEmpty || !isAnyGone ? added : nil
    }

    private func names(in folder: EmbeddedDescriptor, of path: RemotePath) throws -> [ItemName] {
        try EmbeddedSystem.names(in: folder)
            .map { bytes throws(CloudFSError) in try ItemName(bytes) }
            .filter { !(path.isRoot && $0 == .reserved) }
    }

    private func openFolder(
        _ path: RemotePath,
        in root: EmbeddedRoot
    ) throws -> EmbeddedDescriptor {
        let found = try root.openItem(path)
        guard let kind = found.status.kind else {
            throw EmbeddedFailure(call: "fstat", errorNumber: ENOENT)
        }
        guard kind == .folder else {
            throw CloudFSError(.notDirectory, "\"\(path)\" is not a folder")
        }
        return found.descriptor
    }

    /// Keeps a listing for its next pages, under its number if it has one.
    private func keep(_ listing: Listing, as number: UInt64?) -> UInt64 {
        state.withLock { state in
            let kept = number ?? state.next
            if number == nil { state.next += 1 }
            state.keep(listing, as: kept)
            let (least, most) = (Self.keptCount.lowerBound, Self.keptCount.upperBound)
            while state.order.count > most
                || state.order.count > least && state.nameCount > Self.mostNames
            {
                state.forget(state.order[0])
            }
            return kept
        }
    }

    private func restart(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.remoteChanged, "\"\(path)\" changed while it was listed; list it again")
    }
}

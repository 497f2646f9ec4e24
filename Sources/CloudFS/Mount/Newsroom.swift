import Synchronization

/// Passes news between parts that are built before those who want to hear it.
final class Newsroom: Sendable {
    private struct Desk: Sendable {
        var feed: ChangeFeed
        var uploader: Uploader
        var downloader: Downloader
        var thumbnails: Thumbnails
        var desktop: DesktopThumbnails?
        var recents: RecentUses?
    }

    private let desk = Mutex<Desk?>(nil)

    func deliver(
        to feed: ChangeFeed,
        _ uploader: Uploader,
        _ downloader: Downloader,
        _ thumbnails: Thumbnails,
        _ desktop: DesktopThumbnails?,
        _ recents: RecentUses?
    ) {
        desk.withLock {
            $0 = Desk(
                feed: feed,
                uploader: uploader,
                downloader: downloader,
                thumbnails: thumbnails,
                desktop: desktop,
                recents: recents
            )
        }
    }

    /// An item has another thumbnail.
    func pictured(_ id: ItemID) {
        desk.withLock { $0 }?.desktop?.noticeChanged(id)
    }

    func connected() {
        guard let desk = desk.withLock({ $0 }) else { return }
        desk.uploader.wake.raise()
        desk.downloader.noticeWanted()
        desk.recents?.noteConnected()
        Task { await desk.thumbnails.noticeConnected() }
    }

    /// A coordinated program let go of what it had claimed.
    func letGo() {
        guard let desk = desk.withLock({ $0 }) else { return }
        desk.uploader.wake.raise()
        let postponed = desk.uploader.applier.takePostponed()
        guard !postponed.isEmpty else { return }
        Task {
            for id in postponed { await desk.feed.hintParent(of: id) }
        }
    }

    func fetched(_ id: ItemID, _ told: Hydrator.News) async {
        guard let desk = desk.withLock({ $0 }) else { return }
        switch told {
        case .mismatch: await desk.feed.lookFor(id)
        case .details(let item): await desk.feed.note(item, of: id)
        }
    }
}

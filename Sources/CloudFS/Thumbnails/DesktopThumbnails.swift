import Collections
import Synchronization

/// Filling the desktop's cache for folders that are opened, before a file manager begins to read
/// their files.
final class DesktopThumbnails: Sendable {
    private struct State {
        /// Folders that were opened and are to be filled; the last one first.
        var waiting: Deque<ItemID> = []
        /// Folders that are or were, of which changes matter.
        var filled: OrderedSet<ItemID> = []
        /// Files that have changed; most are of other folders.
        var changed: OrderedSet<ItemID> = []
        var vanished: Deque<(name: ItemName, folder: ItemID)> = []
    }

    /// A walk through a whole tree opens many: only the last ones are somebody's view.
    private static let mostWaiting = 16
    private static let mostFilled = 256
    /// How many files of a folder are looked after.
    private static let mostFiles = 2_000

    private let thumbnails: Thumbnails
    private let cache: DesktopCache
    /// Where the drive is seen; absolute paths.
    private let mountpoints: @Sendable () -> [String]
    private let state = Mutex(State())
    private let wake = Signal()
    private let staging: String

    private var drive: Thumbnails.Surroundings { thumbnails.drive }

    init(
        _ thumbnails: Thumbnails,
        cache: DesktopCache,
        staging: String,
        mountpoints: @escaping @Sendable () -> [String]
    ) {
        self.thumbnails = thumbnails
        self.cache = cache
        self.staging = staging
        self.mountpoints = mountpoints
    }

    /// A program has opened a folder.
    func noticeOpened(_ folder: ItemID) {
        let isNew = state.withLock { state in
            guard !state.filled.contains(folder), !state.waiting.contains(folder) else {
                return false
            }
            state.waiting.prepend(folder)
            if state.waiting.count > Self.mostWaiting { state.waiting.removeLast() }
            return true
        }
        if isNew { wake.raise() }
    }

    /// Something about an item, or its thumbnail, is another now.
    func noticeChanged(_ id: ItemID) {
        let isSeen = state.withLock { state in
            guard !state.filled.isEmpty, state.changed.count < Self.mostFiles else { return false }
            return state.changed.append(id).inserted
        }
        if isSeen { wake.raise() }
    }

    /// A folder has a name that it did not have.
    func noticeAppeared(in folder: ItemID) {
        if state.withLock({ $0.filled.remove(folder) != nil }) { noticeOpened(folder) }
    }

    /// A name is gone from a folder: so is what shows it.
    func noticeVanished(_ name: ItemName, from folder: ItemID) {
        let isSeen = state.withLock { state in
            guard state.filled.contains(folder), state.vanished.count < Self.mostFiles else {
                return false
            }
            state.vanished.append((name, folder))
            return true
        }
        if isSeen { wake.raise() }
    }

    /// Where the largest picture of an item lies in the cache.
    func path(of id: ItemID) throws(CloudFSError) -> String? {
        try subjects(of: id).lazy.compactMap { self.cache.path(of: $0) }.first
    }

    // MARK: - Filling

    private enum Work {
        case folder(ItemID)
        case file(ItemID)
        case vanished(ItemName, ItemID)
    }

    /// Works until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            guard let work = next() else {
                await wake.wait()
                continue
            }
            do throws(CloudFSError) {
                switch work {
                case .folder(let id): try await fill(id)
                case .file(let id): try await renew(id)
                case .vanished(let name, let folder): try await remove(name, from: folder)
                }
            } catch {
                drive.logger.notice(
                    "thumbnails for the desktop are not made",
                    metadata: ["error": "\(error)"]
                )
            }
        }
    }

    private func next() -> Work? {
        state.withLock { state in
            if let folder = state.waiting.popFirst() {
                state.filled.append(folder)
                if state.filled.count > Self.mostFilled { state.filled.removeFirst() }
                return .folder(folder)
            }
            if let (name, folder) = state.vanished.popFirst() { return .vanished(name, folder) }
            guard !state.changed.isEmpty else { return nil }
            return .file(state.changed.removeFirst())
        }
    }

    private func remove(_ name: ItemName, from folder: ItemID) async throws(CloudFSError) {
        try await drive.pool.engine {
            guard let path = try self.drive.catalog.readFew({ try $0.path(of: folder) }) else {
                return
            }
            for path in self.paths(path + [name.bytes]) { self.cache.remove(path) }
        }
    }

    private func renew(_ id: ItemID) async throws(CloudFSError) {
        let parent = try await drive.pool.engine {
            try self.drive.catalog.readFew { try $0.name(of: id)?.parent }
        }
        guard let parent, state.withLock({ $0.filled.contains(parent) }) else { return }
        try await fill(file: id)
    }

    private func fill(_ folder: ItemID) async throws(CloudFSError) {
        let files = try await drive.pool.engine {
            try self.drive.catalog.read { reader in
                try reader.children(of: folder, after: 0, limit: Self.mostFiles)
                    .filter { $0.record.item.kind == .file && $0.record.item.size > 0 }
                    .map(\.record.id)
            }
        }
        for id in files {
            guard !Task.isCancelled else { return }
            try await fill(file: id)
        }
    }

    private func fill(file id: ItemID) async throws(CloudFSError) {
        let subjects = try await drive.pool.engine { try self.subjects(of: id) }
        let lacking = subjects.filter { subject in
            ThumbnailSize.small.contains { !cache.isFresh(subject, $0) }
        }
        guard !lacking.isEmpty else { return }
        // Asked for here as `getfattr` would: what is not there comes back as a change.
        let image: ThumbnailImage
        do throws(CloudFSError) {
            image = try await drive.pool.engine {
                try self.thumbnails.image(of: id, atMost: .large)
            }
        } catch  where error.code == .noAttribute {
            return
        }
        let path = "\(staging)/desktop.\(id)"
        let made = try await thumbnails.workshop.engine { () throws(CloudFSError) in
            try StagedFile.with(image.bytes, at: path) {
                self.thumbnails.maker.convert(path, to: ThumbnailSize.small)
            }
        }
        guard case .pictures(let pictures) = made else { return }
        try await drive.pool.engine {
            for subject in lacking {
                for (size, picture) in pictures {
                    try self.cache.write(picture, of: subject, size)
                }
            }
        }
    }

    private func subjects(of id: ItemID) throws(CloudFSError) -> [DesktopCache.Subject] {
        let found = try drive.catalog.readFew { reader -> (Item, [[UInt8]])? in
            guard let item = try reader.item(id)?.item, let path = try reader.path(of: id) else {
                return nil
            }
            return (item, path)
        }
        guard let (item, names) = found, let name = names.last else { return [] }
        let type = drive.type(String(decoding: name, as: UTF8.self))
        return paths(names).map { path in
            DesktopCache.Subject(
                path: path,
                modified: item.metadata.modified.seconds,
                size: item.size,
                type: type
            )
        }
    }

    private func paths(_ names: [[UInt8]]) -> [String] {
        let below = names.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
        return mountpoints().map { $0 + "/" + below }
    }
}

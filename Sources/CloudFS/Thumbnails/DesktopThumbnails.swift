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
    /// How many pictures one program converts.
    private static let batch = 32

    private let thumbnails: Thumbnails
    private let cache: DesktopCache
    /// Where the drive is seen; absolute paths.
    private let mountpoints: @Sendable () -> [String]
    private let state = Mutex(State())
    private let wake = Signal()
    private let staging: String
    /// The attribute whose setting changes nothing.
    private let announcement: String
    /// A thread that waits for processes which this drive has to answer.
    private let announcers: BlockingPool

    private var drive: Thumbnails.Surroundings { thumbnails.drive }

    init(
        _ thumbnails: Thumbnails,
        cache: DesktopCache,
        staging: String,
        announcement: String,
        mountpoints: @escaping @Sendable () -> [String]
    ) {
        self.thumbnails = thumbnails
        self.cache = cache
        self.staging = staging
        self.announcement = announcement
        announcers = thumbnails.drive.pool.another(name: "cloudfs.announcer", width: 1)
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
        case files([ItemID])
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
                case .files(let ids): try await renew(ids)
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
            let files = Array(state.changed.prefix(Self.batch))
            state.changed.removeFirst(files.count)
            return .files(files)
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

    private func renew(_ ids: [ItemID]) async throws(CloudFSError) {
        let parents = try await drive.pool.engine {
            try self.drive.catalog.readFew { reader in
                try ids.map { try reader.name(of: $0)?.parent }
            }
        }
        let seen = state.withLock { state in
            zip(ids, parents).filter { $1.map(state.filled.contains) ?? false }.map(\.0)
        }
        try await fill(files: seen[...])
    }

    private func fill(_ folder: ItemID) async throws(CloudFSError) {
        let files = try await drive.pool.engine {
            try self.drive.catalog.read { reader in
                try reader.children(of: folder, after: 0, limit: Self.mostFiles)
                    .filter { $0.record.item.shownKind == .file && $0.record.item.size > 0 }
                    .map(\.record.id)
            }
        }
        var start = files.startIndex
        while start < files.endIndex, !Task.isCancelled {
            let end = min(start + Self.batch, files.endIndex)
            try await fill(files: files[start..<end])
            start = end
        }
    }

    /// A picture, and every path under which file managers look for it.
    private struct Job: Sendable {
        var item: ItemID
        var image: ThumbnailImage
        var subjects: [DesktopCache.Subject]
    }

    private func fill(files: ArraySlice<ItemID>) async throws(CloudFSError) {
        let jobs = try await drive.pool.engine { try files.compactMap { try self.job($0) } }
        guard !jobs.isEmpty else { return }
        let pictures = try await thumbnails.workshop.engine { () throws -> Pictures in
            try StagedFile.with(jobs.map(\.image.bytes), inFolder: self.staging) {
                try self.thumbnails.maker.convert(self.staging, to: ThumbnailSize.small)
            }
        }
        try await drive.pool.engine {
            for (number, made) in pictures where jobs.indices.contains(number) {
                for subject in jobs[number].subjects {
                    for (size, picture) in made {
                        try self.cache.write(picture, of: subject, size)
                    }
                }
            }
        }
        let shown = pictures.keys.filter(jobs.indices.contains).compactMap { number in
            jobs[number].subjects.first.map {
                Announcement.Place(item: jobs[number].item, path: $0.path)
            }
        }
        guard !shown.isEmpty else { return }
        try await announcers.engine { [announcement] in
            try Announcement.make(of: shown, by: announcement)
        }
    }

    private typealias Pictures = [Int: [ThumbnailSize: [UInt8]]]

    /// - Returns: `nil` if the cache has it, or if there is no picture yet: that was asked for, and
    ///   comes back as a change.
    private func job(_ id: ItemID) throws(CloudFSError) -> Job? {
        let lacking = try subjects(of: id).filter { subject in
            ThumbnailSize.small.contains { !cache.isFresh(subject, $0) }
        }
        guard !lacking.isEmpty else { return nil }
        do throws(CloudFSError) {
            return Job(
                item: id,
                image: try thumbnails.image(of: id, atMost: .large),
                subjects: lacking
            )
        } catch  where error.code == .noAttribute {
            return nil
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

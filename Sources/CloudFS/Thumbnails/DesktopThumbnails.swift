import Collections
import Synchronization

/// Filling the desktop's cache for folders that are opened, before a file manager begins to read
/// their files.
final class DesktopThumbnails: Sendable {
    /// Where the drive is seen; absolute paths.
    struct Places: Sendable {
        var roots: [String]
        /// What is mounted below them, and hides what is there.
        var covered: [String]
    }

    private struct State {
        /// Folders that were opened and are to be filled; the last one first.
        var waiting: Deque<ItemID> = []
        /// Folders that are or were, of which changes matter, with those that they lie in.
        var filled: OrderedDictionary<ItemID, Set<ItemID>> = [:]
        /// Files that have changed; most are of other folders.
        var changed: OrderedSet<ItemID> = []
        var vanished: Deque<(name: ItemName, folder: ItemID)> = []
        /// Whether the cache may have pictures of what is gone.
        var isStale = true
        var swept: Duration?

        var nextSweep: Duration {
            guard let swept else { return .zero }
            return swept
                + (isStale ? DesktopThumbnails.leastSweepInterval : DesktopThumbnails.sweepInterval)
        }
    }

    /// A walk through a whole tree opens many: only the last ones are somebody's view.
    private static let mostWaiting = 16
    private static let mostFilled = 256
    /// How many files of a folder are looked after.
    private static let mostFiles = 2_000
    /// How many pictures one program converts.
    private static let batch = 32
    /// Large ones, of some MB each.
    private static let largeBatch = 8

    let thumbnails: Thumbnails
    let cache: DesktopCache
    let places: @Sendable () -> Places
    private let state = Mutex(State())
    private let wake = Signal()
    private let staging: String
    /// Has who watches files look at them again; does not block.
    private let announce: @Sendable ([ItemID]) -> Void

    var drive: Thumbnails.Surroundings { thumbnails.drive }

    init(
        _ thumbnails: Thumbnails,
        cache: DesktopCache,
        staging: String,
        announce: @escaping @Sendable ([ItemID]) -> Void,
        places: @escaping @Sendable () -> Places
    ) {
        self.thumbnails = thumbnails
        self.cache = cache
        self.staging = staging
        self.announce = announce
        self.places = places
    }

    /// A program has opened a folder.
    func noticeOpened(_ folder: ItemID) {
        let isNew = state.withLock { state in
            guard state.filled[folder] == nil, !state.waiting.contains(folder) else {
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
        if state.withLock({ $0.filled.removeValue(forKey: folder) != nil }) {
            noticeOpened(folder)
        }
    }

    /// A name is gone from a folder: so is what shows it.
    ///
    /// - Parameter item: What had the name; a folder may have another one now, and whatever lies
    ///   below it another path.
    func noticeVanished(_ name: ItemName, from folder: ItemID, item: ItemID) {
        let moved = state.withLock { state -> [ItemID] in
            if state.filled[folder] != nil {
                if state.vanished.count < Self.mostFiles {
                    state.vanished.append((name, folder))
                } else {
                    state.isStale = true
                }
            }
            let moved = state.filled.filter { $0.value.contains(item) }.map(\.key)
            for folder in moved { state.filled.removeValue(forKey: folder) }
            if !moved.isEmpty { state.isStale = true }
            return moved
        }
        for folder in moved { noticeOpened(folder) }
        wake.raise()
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
        case sweep
    }

    /// How often pictures of what is gone are looked for without a reason.
    private static let sweepInterval = Duration.seconds(3_600)
    /// A tree that is removed gives a reason with each of its folders.
    private static let leastSweepInterval = Duration.seconds(10)

    /// Works until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            guard let work = next() else {
                await wake.wait(atMost: untilSweep())
                continue
            }
            do throws(CloudFSError) {
                switch work {
                case .folder(let id): try await fill(id)
                case .files(let ids): try await renew(ids)
                case .vanished(let name, let folder): try await remove(name, from: folder)
                case .sweep: try await sweep()
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
        let now = drive.clocks.elapsed()
        return state.withLock { state in
            if let folder = state.waiting.popFirst() { return .folder(folder) }
            if let (name, folder) = state.vanished.popFirst() { return .vanished(name, folder) }
            if !state.changed.isEmpty {
                let files = Array(state.changed.prefix(Self.batch))
                state.changed.removeFirst(files.count)
                return .files(files)
            }
            guard now >= state.nextSweep else { return nil }
            state.isStale = false
            state.swept = now
            return .sweep
        }
    }

    private func untilSweep() -> Duration {
        let now = drive.clocks.elapsed()
        return state.withLock { max(.milliseconds(50), $0.nextSweep - now) }
    }

    private func remove(_ name: ItemName, from folder: ItemID) async throws(CloudFSError) {
        try await drive.pool.engine {
            guard let path = try self.drive.catalog.readFew({ try $0.path(of: folder) }) else {
                // The folder is gone, too, and with it the path.
                return self.state.withLock { $0.isStale = true }
            }
            // Another file may have taken the name, and has its own picture by now.
            let names = path + [name.bytes]
            guard try self.drive.catalog.readFew({ try $0.item(at: names) }) == nil else { return }
            for path in self.paths(names) { self.cache.remove(path) }
        }
    }

    private func renew(_ ids: [ItemID]) async throws(CloudFSError) {
        let parents = try await drive.pool.engine {
            try self.drive.catalog.readFew { reader in
                try ids.map { try reader.name(of: $0)?.parent }
            }
        }
        let seen = state.withLock { state in
            zip(ids, parents).filter { $1.map { state.filled[$0] != nil } ?? false }.map(\.0)
        }
        let sizes = try await drive.pool.engine { self.cache.sizes() }
        for start in stride(from: 0, to: seen.count, by: Self.largeBatch) {
            let batch = seen[start..<min(start + Self.largeBatch, seen.count)]
            if let failure = try await fill(files: batch, sizes) { throw failure }
        }
    }

    private func fill(_ folder: ItemID) async throws(CloudFSError) {
        let found = try await drive.pool.engine {
            try self.drive.catalog.read { reader -> ([ItemID], Set<ItemID>)? in
                guard try reader.path(of: folder) != nil else { return nil }
                let files = try reader.children(of: folder, after: 0, limit: Self.mostFiles)
                    .filter { $0.record.item.shownKind == .file && $0.record.item.size > 0 }
                    .map(\.record.id)
                return (files, try reader.folders(above: folder))
            }
        }
        guard let (files, above) = found else { return }
        // Before the pictures are made: what happens meanwhile matters.
        state.withLock { state in
            state.filled[folder] = above
            if state.filled.count > Self.mostFilled { state.filled.removeFirst() }
        }
        var failure: CloudFSError?
        var left = files[...]
        while !left.isEmpty, !Task.isCancelled {
            let sizes = try await drive.pool.engine { self.cache.sizes() }
            let batch = left.prefix(sizes.allSatisfy(\.isSmall) ? Self.batch : Self.largeBatch)
            left = left.dropFirst(batch.count)
            // A folder of one size that cannot be written keeps nothing from the others.
            if let failed = try await fill(files: batch, sizes) { failure = failed }
        }
        if let failure { throw failure }
    }

    /// A picture, and every path under which file managers look for it.
    private struct Job: Sendable {
        var item: ItemID
        var image: ThumbnailImage
        var stamp: String
        var subjects: [DesktopCache.Subject]
        var sizes: [ThumbnailSize]
    }

    /// - Returns: Why something could not be written.
    private func fill(
        files: ArraySlice<ItemID>,
        _ wanted: [ThumbnailSize]
    ) async throws(CloudFSError) -> CloudFSError? {
        let jobs = try await drive.pool.engine {
            try files.compactMap { try self.job($0, wanted) }
        }
        let sizes = Set(jobs.flatMap(\.sizes)).sorted()
        guard !jobs.isEmpty else { return nil }
        let pictures = try await thumbnails.workshop.engine { () throws -> Pictures in
            try StagedFile.with(jobs.map(\.image.bytes), inFolder: self.staging) {
                try self.thumbnails.maker.convert(self.staging, to: sizes)
            }
        }
        let (written, failure) = try await drive.pool.engine { self.write(pictures, of: jobs) }
        announce(written.map(\.item))
        return failure
    }

    private typealias Pictures = [Int: [ThumbnailSize: [UInt8]]]

    /// Writes what can be written: a folder of one size that is another user's, or no folder,
    /// keeps none of the others.
    ///
    /// - Returns: Those of which something was, and why the last one that could not be was not.
    private func write(_ pictures: Pictures, of jobs: [Job]) -> ([Job], CloudFSError?) {
        var failure: CloudFSError?
        var written: [Job] = []
        for (number, made) in pictures where jobs.indices.contains(number) {
            let job = jobs[number]
            var isWritten = false
            for subject in job.subjects {
                for size in job.sizes {
                    guard let picture = made[size] else { continue }
                    do throws(CloudFSError) {
                        try cache.write(picture, of: subject, size, stamp: job.stamp)
                        isWritten = true
                    } catch {
                        failure = error
                    }
                }
            }
            if isWritten { written.append(job) }
        }
        return (written, failure)
    }

    /// - Returns: `nil` if the cache has it, or if there is no picture yet: that was asked for, and
    ///   comes back as a change.
    private func job(_ id: ItemID, _ sizes: [ThumbnailSize]) throws(CloudFSError) -> Job? {
        let subjects = try subjects(of: id)
        guard !subjects.isEmpty else { return nil }
        let image: ThumbnailImage
        do throws(CloudFSError) {
            image = try thumbnails.image(of: id, atMost: sizes.max() ?? .large)
        } catch {
            guard error.code == .noAttribute else { throw error }
            return nil
        }
        let stamp = DesktopCache.stamp(of: image)
        let lacking = sizes.filter { size in
            subjects.contains { !cache.isFresh($0, size, stamp: stamp) }
        }
        guard !lacking.isEmpty else { return nil }
        return Job(item: id, image: image, stamp: stamp, subjects: subjects, sizes: lacking)
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
        return places().roots.map { $0 + "/" + below }
    }
}

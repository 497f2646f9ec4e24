import Collections

/// Notices that a program opens the files of a folder one after the other, and tells which small
/// ones come next.
///
/// A pure value: what is opened goes in, with a way to look at the folder; what to fetch comes out.
/// Three files in a row are a habit; the further it goes, the further is looked ahead.
struct ReadingOrder: Sendable {
    /// At most `limit` files that come after `item` in its folder.
    typealias Following = (_ item: ItemID, _ order: FolderOrder, _ limit: Int) throws ->
        [SiblingRecord]

    private struct Reader {
        var folder: ItemID
        var last: ItemID
        /// `nil` until a file was opened after the one before it.
        var order: FolderOrder?
        /// How many files in a row came in that order.
        var run = 0
        /// What is expected next, the nearest first.
        var ahead: Deque<SiblingRecord> = []
        /// How many of those were told.
        var toldCount = 0
    }

    /// The programs, by process; who opened something last is the last.
    private var readers: OrderedDictionary<Int32, Reader> = [:]

    /// Longer files are fetched when they are read, and ahead by what is read of them.
    static let longestFile = HydrationPlan.smallByteCount
    /// How many files, and how many bytes, are fetched before they are opened.
    static let mostFiles = 64
    static let mostBytes: Int64 = 8 << 20
    /// How many programs are followed.
    private static let mostReaders = 64
    /// How many files a program may leave out, as those that a pattern does not match.
    private static let tolerance = 8
    private static let habit = 2

    /// Whether any program goes on from file to file, so that opens of present files count too.
    private(set) var isFollowing = false

    /// Notes that a program opened a file.
    ///
    /// - Returns: The files to fetch, the nearest first.
    mutating func noteOpened(
        _ id: ItemID,
        in folder: ItemID,
        by process: Int32,
        following: Following
    ) rethrows -> [ItemID] {
        let known = readers.removeValue(forKey: process)
        defer { isFollowing = readers.values.contains { $0.order != nil } }
        guard var reader = known else {
            if readers.count >= Self.mostReaders { readers.removeFirst() }
            readers[process] = Reader(folder: folder, last: id)
            return []
        }
        // A program opens a file more than once: that says nothing.
        if reader.last != id { try Self.advance(&reader, to: id, in: folder, following) }
        let wanted = try Self.lookAhead(&reader, following)
        readers[process] = reader
        return wanted
    }

    /// The same for a file that was expected, where enough is known of what comes next.
    ///
    /// - Returns: `nil` if the folder has to be looked at, and nothing was noted.
    mutating func noteExpected(_ id: ItemID, by process: Int32) -> [ItemID]? {
        guard let reader = readers[process], reader.order != nil, reader.last != id,
            let index = reader.ahead.prefix(Self.tolerance).firstIndex(where: { $0.id == id }),
            reader.ahead.count > index + Self.mostFiles
        else { return nil }
        return noteOpened(id, in: reader.folder, by: process) { _, _, _ in [] }
    }

    private static func advance(
        _ reader: inout Reader,
        to id: ItemID,
        in folder: ItemID,
        _ following: Following
    ) rethrows {
        defer { reader.last = id }
        guard reader.folder == folder else {
            // Who went through one folder goes through the next one alike.
            let run = reader.order == nil ? 0 : max(reader.run / 2, habit)
            reader = Reader(folder: folder, last: id, order: reader.order, run: run)
            return
        }
        if reader.order != nil {
            if let index = reader.ahead.prefix(tolerance).firstIndex(where: { $0.id == id }) {
                reader.ahead.removeFirst(index + 1)
                reader.toldCount = max(0, reader.toldCount - index - 1)
                reader.run += 1
                return
            }
            reader = Reader(folder: folder, last: reader.last)
        }
        for order in FolderOrder.allCases {
            let next = try following(reader.last, order, tolerance)
            guard let index = next.firstIndex(where: { $0.id == id }) else { continue }
            reader.order = order
            reader.run = 1
            reader.ahead = Deque(next[(index + 1)...])
            return
        }
    }

    private static func lookAhead(
        _ reader: inout Reader,
        _ following: Following
    ) rethrows -> [ItemID] {
        guard let order = reader.order else { return [] }
        let window = min(mostFiles, reader.run < habit ? 0 : 4 << min(reader.run - habit, 4))
        if reader.ahead.count < max(window, tolerance) {
            let end = reader.ahead.last?.id ?? reader.last
            reader.ahead += try following(end, order, mostFiles)
        }
        var told = reader.ahead.prefix(reader.toldCount).reduce(0) { $0 + weight($1) }
        var wanted: [ItemID] = []
        while reader.toldCount < min(window, reader.ahead.count), told < mostBytes {
            let next = reader.ahead[reader.toldCount]
            told += weight(next)
            if weight(next) > 0 { wanted.append(next.id) }
            reader.toldCount += 1
        }
        return wanted
    }

    /// How many bytes are to be fetched of a file.
    private static func weight(_ file: SiblingRecord) -> Int64 {
        file.isHere || file.byteCount > longestFile ? 0 : file.byteCount
    }
}

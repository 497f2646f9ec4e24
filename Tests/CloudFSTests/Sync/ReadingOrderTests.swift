import Testing

@testable import CloudFS

@Suite struct ReadingOrderTests {
    private static let folder = ItemID(1)
    private static let program: Int32 = 7

    /// A folder of files whose numbers are their order in the directory stream.
    private struct Folder {
        var files: [SiblingRecord]
        var looks = 0

        init(_ numbers: ClosedRange<Int64>, byteCount: Int64 = 1_024) {
            files = numbers.map {
                SiblingRecord(id: ItemID($0), byteCount: byteCount, isHere: false)
            }
        }

        /// By name they come the other way round.
        func following(
            _ id: ItemID,
            _ order: FolderOrder,
            _ limit: Int
        ) -> [SiblingRecord] {
            let all = order == .listed ? files : files.reversed()
            guard let index = all.firstIndex(where: { $0.id == id }) else { return [] }
            return Array(all[(index + 1)...].prefix(limit))
        }
    }

    private static func open(
        _ number: Int64,
        _ order: inout ReadingOrder,
        _ content: Folder,
        in folder: ItemID = folder,
        by process: Int32 = program
    ) throws -> [Int64] {
        var withoutLooking = order
        let expected = withoutLooking.noteExpected(ItemID(number), by: process)
        let wanted = order.noteOpened(
            ItemID(number),
            in: folder,
            by: process,
            following: content.following
        )
        if let expected {
            #expect(expected == wanted)
            order = withoutLooking
        }
        return wanted.map(\.rawValue)
    }

    @Test func `a folder is looked at once for many files`() throws {
        let folder = Folder(10...1_000)
        var order = ReadingOrder()
        var looks = 0
        for number in Int64(10)..<900 {
            if order.noteExpected(ItemID(number), by: Self.program) != nil { continue }
            looks += 1
            _ = try Self.open(number, &order, folder)
        }
        #expect((5...25).contains(looks), "\(looks)")
    }

    @Test func `two files in a row are no habit, three are`() throws {
        let folder = Folder(10...200)
        var order = ReadingOrder()
        #expect(try Self.open(10, &order, folder).isEmpty)
        #expect(try Self.open(11, &order, folder).isEmpty)
        #expect(try Self.open(12, &order, folder) == [13, 14, 15, 16])
        #expect(order.isFollowing)
    }

    @Test func `the look ahead grows, has a limit, and names no file twice`() throws {
        let folder = Folder(10...1_000)
        var order = ReadingOrder()
        var told: [Int64] = []
        for number in Int64(10)..<100 {
            told += try Self.open(number, &order, folder)
            let ahead = (told.last ?? number) - number
            #expect(ahead <= ReadingOrder.mostFiles)
        }
        #expect(told == Array(13...(99 + Int64(ReadingOrder.mostFiles))))
    }

    @Test func `the order of names is followed as well`() throws {
        let folder = Folder(10...200)
        var order = ReadingOrder()
        #expect(try Self.open(100, &order, folder).isEmpty)
        #expect(try Self.open(99, &order, folder).isEmpty)
        #expect(try Self.open(98, &order, folder) == [97, 96, 95, 94])
    }

    @Test func `files that a pattern leaves out do not end it`() throws {
        let folder = Folder(10...200)
        var order = ReadingOrder()
        var told: [Int64] = []
        for number in stride(from: Int64(10), to: 40, by: 3) {
            told += try Self.open(number, &order, folder)
        }
        #expect(told.contains(40))
    }

    @Test func `who jumps about is followed nowhere`() throws {
        let folder = Folder(10...400)
        var order = ReadingOrder()
        for number: Int64 in [10, 100, 30, 200, 50, 300, 20, 150] {
            #expect(try Self.open(number, &order, folder).isEmpty)
        }
        #expect(!order.isFollowing)
    }

    @Test func `who leaves the order has to show it again`() throws {
        let folder = Folder(10...400)
        var order = ReadingOrder()
        for number: Int64 in [10, 11, 12] { _ = try Self.open(number, &order, folder) }
        #expect(try Self.open(200, &order, folder).isEmpty)
        #expect(try Self.open(201, &order, folder).isEmpty)
        #expect(try Self.open(202, &order, folder) == [203, 204, 205, 206])
    }

    @Test func `a file that is opened again says nothing`() throws {
        let folder = Folder(10...200)
        var order = ReadingOrder()
        for _ in 0..<5 { #expect(try Self.open(10, &order, folder).isEmpty) }
        #expect(try Self.open(11, &order, folder).isEmpty)
    }

    @Test func `large and present files are passed over`() throws {
        var folder = Folder(10...30)
        folder.files[3].byteCount = ReadingOrder.longestFile + 1
        folder.files[4].isHere = true
        folder.files[5].byteCount = 0
        var order = ReadingOrder()
        var told: [Int64] = []
        for number: Int64 in 10...12 { told += try Self.open(number, &order, folder) }
        #expect(told == [16])
    }

    @Test func `no more bytes are told than may be fetched ahead`() throws {
        let folder = Folder(1_000...3_000, byteCount: ReadingOrder.longestFile)
        var order = ReadingOrder()
        var last: Int64 = 0
        for number: Int64 in 1_000..<1_300 {
            last = try Self.open(number, &order, folder).last ?? last
            let bytes = max(0, last - number) * ReadingOrder.longestFile
            #expect(bytes <= ReadingOrder.mostBytes)
        }
    }

    @Test func `the next folder is gone through alike`() throws {
        let first = Folder(10...20)
        let second = Folder(100...200)
        var order = ReadingOrder()
        for number: Int64 in 10...20 { _ = try Self.open(number, &order, first) }
        #expect(try Self.open(100, &order, second, in: ItemID(2)).first == 101)
    }

    @Test func `programs are followed apart`() throws {
        let folder = Folder(10...400)
        var order = ReadingOrder()
        for step: Int64 in 0..<3 {
            let first = try Self.open(10 + step, &order, folder, by: 1)
            let second = try Self.open(100 + step, &order, folder, by: 2)
            #expect(first.isEmpty == (step < 2))
            #expect(second.isEmpty == (step < 2))
        }
        // Of many programs the first are forgotten.
        for process: Int32 in 10..<200 { _ = try Self.open(300, &order, folder, by: process) }
        #expect(!order.isFollowing)
    }
}

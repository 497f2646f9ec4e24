import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// Thumbnails on this machine.
@Suite struct ThumbnailStoreTests {
    private static let token = ThumbnailToken(rawValue: "v:1")

    private func image(_ fill: UInt8, count: Int = 100) throws -> ThumbnailImage {
        let bytes: [UInt8] = [0xff, 0xd8, 0xff] + [UInt8](repeating: fill, count: count - 3)
        return try #require(ThumbnailImage(bytes))
    }

    private func record(
        _ source: ThumbnailRecord.Source = .madeHere,
        _ token: ThumbnailToken = token,
        isSent: Bool = false,
        noted: Int64 = 7
    ) -> ThumbnailRecord {
        ThumbnailRecord(
            token: token,
            source: source,
            isSent: isSent,
            noted: Timestamp(nanoseconds: noted),
            sizes: []
        )
    }

    private func put(
        _ store: ThumbnailStore,
        _ images: ThumbnailImages,
        of id: ItemID,
        _ record: ThumbnailRecord
    ) throws {
        try store.put(images, of: id, record, insteadOf: try store.record(of: id))
    }

    @Test func `what a program sets meanwhile is not replaced by what was on its way`() throws {
        let folder = try TemporaryDirectory()
        let store = ThumbnailStore(path: folder.path("thumbnails.sqlite"))
        let id = ItemID(5)
        try put(store, [:], of: id, record(.absent))
        let began = try store.record(of: id)
        try put(store, [.doubleExtraLarge: try image(1)], of: id, record(.given, noted: 8))
        #expect(throws: CloudFSError.self) {
            try store.put([.large: try image(2)], of: id, record(.madeHere), insteadOf: began)
        }
        #expect(throws: CloudFSError.self) { try store.markSent(id, began) }
        #expect(throws: CloudFSError.self) { try store.remove(id, ifStill: began) }
        #expect(try store.record(of: id)?.source == .given)
        #expect(try store.record(of: id)?.sizes == [.doubleExtraLarge])
        try store.remove(id, ifStill: try store.record(of: id))
        #expect(try store.record(of: id) == nil)
    }

    @Test func `the largest that is small enough is given, of the right content only`() throws {
        let folder = try TemporaryDirectory()
        let store = ThumbnailStore(path: folder.path("thumbnails.sqlite"))
        let id = ItemID(5)
        #expect(try store.record(of: id) == nil)
        let images: ThumbnailImages = [.normal: try image(1), .extraLarge: try image(2)]
        try put(store, images, of: id, record())
        var expected = record()
        expected.sizes = [.normal, .extraLarge]
        #expect(try store.record(of: id) == expected)
        func fill(_ size: ThumbnailSize, _ token: ThumbnailToken = Self.token) throws -> UInt8? {
            try store.image(of: id, showing: [token], atMost: size)?.bytes.last
        }
        #expect(try fill(.normal) == 1)
        #expect(try fill(.large) == 1)
        #expect(try fill(.extraLarge) == 2)
        #expect(try fill(.doubleExtraLarge) == 2)
        #expect(try fill(.doubleExtraLarge, ThumbnailToken(rawValue: "v:2")) == nil)
        #expect(try store.images(of: id, showing: Self.token) == images)

        #expect(try store.unsent(limit: 9) == [id])
        // Another one was stored meanwhile.
        #expect(throws: CloudFSError.self) { try store.markSent(id, nil) }
        #expect(try store.unsent(limit: 9) == [id])
        try store.markSent(id, try store.record(of: id))
        #expect(try store.unsent(limit: 9).isEmpty)

        let other = ThumbnailToken(rawValue: "v:3")
        try put(store, [.large: try image(3)], of: id, record(.cloud, other, isSent: true))
        #expect(try store.images(of: id, showing: other) == [.large: try image(3)])
        try put(store, [.extraLarge: try image(4)], of: id, record(.cloud, other, isSent: true))
        #expect(try store.record(of: id)?.sizes == [.large, .extraLarge])
        try store.remove(id)
        #expect(try store.record(of: id) == nil)
    }

    @Test func `what shows a version no longer is noted, if the cloud has pictures of it`() throws {
        let folder = try TemporaryDirectory()
        let store = ThumbnailStore(path: folder.path("thumbnails.sqlite"))
        #expect(!store.exists)
        let other = ThumbnailToken(rawValue: "v:2")
        try put(store, [.normal: try image(1)], of: ItemID(1), record(isSent: true))
        try put(store, [.normal: try image(2)], of: ItemID(2), record(.madeHere, other))
        try put(
            store,
            [:],
            of: ItemID(3),
            record(.failed, ThumbnailToken(rawValue: "v:3"), isSent: true)
        )
        #expect(store.exists)
        #expect(try store.items(after: ItemID(1), limit: 9) == [ItemID(2), ItemID(3)])
        #expect(try store.retired(limit: 9).isEmpty)
        for id in Int64(1)...3 { try store.remove(ItemID(id)) }
        #expect(try store.retired(limit: 9) == [Self.token])
        #expect(Self.token.version == "1")
        #expect(ThumbnailToken(rawValue: "l:1:2:3").version == nil)
        try store.forgetRetired([Self.token])
        #expect(try store.retired(limit: 9).isEmpty)
    }

    @Test func `a damaged file is thrown away`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("thumbnails.sqlite")
        do {
            let store = ThumbnailStore(path: path)
            try put(store, [.normal: try image(1)], of: ItemID(1), record())
        }
        let file = try #require(fopen(path, "r+"))
        fwrite([UInt8](repeating: 0x55, count: 4_096), 1, 4_096, file)
        fclose(file)
        let store = ThumbnailStore(path: path)
        #expect(try store.record(of: ItemID(1)) == nil)
        try put(store, [.normal: try image(2)], of: ItemID(1), record())
        #expect(try store.record(of: ItemID(1))?.sizes == [.normal])
    }

    @Test func `the oldest that the cloud has go when there are too many`() throws {
        let folder = try TemporaryDirectory()
        let store = ThumbnailStore(path: folder.path("thumbnails.sqlite"), limit: 100_000)
        for number in Int64(1)...128 {
            try put(
                store,
                [.normal: try image(1, count: 2_000)],
                of: ItemID(number),
                record(isSent: number != 1, noted: number)
            )
        }
        let left = try (Int64(1)...128).filter { try store.record(of: ItemID($0)) != nil }
        #expect(left.contains(1), "it is nowhere else")
        #expect(left.contains(128))
        #expect((40...46).contains(left.count), "\(left.count)")
        #expect(Array(left.dropFirst()) == Array((128 - Int64(left.count) + 2)...128))
    }

    @Test func `pictures that cannot be sent are bounded too, but for what a program gave`()
        throws
    {
        let folder = try TemporaryDirectory()
        let limit: Int64 = 100_000
        let store = ThumbnailStore(path: folder.path("thumbnails.sqlite"), limit: limit)
        for number in Int64(1)...128 {
            try put(
                store,
                [.normal: try image(1, count: 2_000)],
                of: ItemID(number),
                record(number == 1 ? .given : .madeHere, isSent: number == 70, noted: number)
            )
        }
        let left = try (Int64(1)...128).filter { try store.record(of: ItemID($0)) != nil }
        #expect(left.contains(1) && left.contains(128) && !left.contains(70))
        #expect(left.count * 2_000 <= limit, "\(left.count)")
    }
}

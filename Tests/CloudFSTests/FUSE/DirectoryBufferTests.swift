import Testing

@testable import CloudFS

@Suite struct DirectoryBufferTests {
    @Test(arguments: [false, true], [512, 4096, 65_536])
    func `all entries come exactly once however the pages fall`(
        withAttributes: Bool,
        capacity: Int
    ) throws {
        let entries = (1...500).map { Self.entry("file-\($0)", number: $0) }
        var found: [Packed] = []
        var pages = 0
        while true {
            var page = DirectoryBuffer(capacity: capacity, withAttributes: withAttributes)
            for entry in entries where entry.offset > (found.last?.offset ?? 0) {
                guard page.append(entry) else { break }
            }
            #expect(page.bytes.count <= capacity)
            if page.bytes.isEmpty { break }
            found += Packed.all(in: page.bytes, withAttributes: withAttributes)
            pages += 1
        }
        #expect(found.map(\.name) == entries.map { String(decoding: $0.name, as: UTF8.self) })
        #expect(found.map(\.number) == (1...500).map { UInt64($0) + 100 })
        #expect(pages > 1 || capacity == 65_536)
    }

    @Test func `an entry that does not fit leaves the page as it was`() {
        var page = DirectoryBuffer(capacity: 64, withAttributes: false)
        let fits = page.append(Self.entry("a", number: 1))
        #expect(fits)
        let before = page.bytes
        let fitsToo = page.append(Self.entry(String(repeating: "x", count: 200), number: 2))
        #expect(!fitsToo)
        #expect(page.bytes == before)
    }

    @Test func `the folder itself and its parent do not count as looked up`() throws {
        var page = DirectoryBuffer(capacity: 4096, withAttributes: true)
        for name in [".", "..", "..."] { _ = page.append(Self.entry(name, number: 7)) }
        let packed = Packed.all(in: page.bytes, withAttributes: true)
        #expect(packed.map(\.lookedUp) == [0, 0, 107])
        #expect(packed.map(\.number) == [107, 107, 107])
    }

    @Test func `only what is cacheable gets a time to live`() throws {
        var page = DirectoryBuffer(capacity: 4096, withAttributes: true)
        for (name, attributes) in [(true, true), (true, false), (false, true)] {
            _ = page.append(Self.entry("x", number: 1, isCacheable: name, attributes: attributes))
        }
        let packed = Packed.all(in: page.bytes, withAttributes: true)
        #expect(packed.map { $0.nameSeconds > 0 } == [true, true, false])
        #expect(packed.map { $0.attributeSeconds > 0 } == [true, false, false])
    }

    @Test func `names are bytes, not text`() {
        var page = DirectoryBuffer(capacity: 4096, withAttributes: false)
        var entry = Self.entry("", number: 1)
        entry.name = [0xff, 0x80, 0x41]
        _ = page.append(entry)
        #expect(page.bytes[24..<27] == [0xff, 0x80, 0x41])
    }

    private static func entry(
        _ name: String,
        number: Int,
        isCacheable: Bool = true,
        attributes: Bool = true
    ) -> DirectoryEntry {
        DirectoryEntry(
            name: Array(name.utf8),
            attributes: .sample(id: Int64(number) + 100, isCacheable: attributes),
            offset: Int64(number),
            isCacheable: isCacheable
        )
    }
}

/// An entry as the kernel reads it: `struct fuse_dirent`, `struct fuse_direntplus`.
private struct Packed {
    var name: String
    var number: UInt64
    var offset: Int64
    var lookedUp: UInt64 = 0
    var nameSeconds: UInt64 = 0
    var attributeSeconds: UInt64 = 0

    static func all(in bytes: [UInt8], withAttributes: Bool) -> [Packed] {
        var result: [Packed] = []
        var start = 0
        while start < bytes.count {
            // The entry's reply to a lookup comes first: 40 bytes and the attributes' 88.
            let base = start + (withAttributes ? 128 : 0)
            let length = Int(integer(bytes, base + 16, 4))
            var packed = Packed(
                name: String(decoding: bytes[(base + 24)..<(base + 24 + length)], as: UTF8.self),
                number: integer(bytes, base, 8),
                offset: Int64(integer(bytes, base + 8, 8))
            )
            if withAttributes {
                packed.lookedUp = integer(bytes, start, 8)
                packed.nameSeconds = integer(bytes, start + 16, 8)
                packed.attributeSeconds = integer(bytes, start + 24, 8)
            }
            result.append(packed)
            start = base + (24 + length + 7) / 8 * 8
        }
        return result
    }

    private static func integer(_ bytes: [UInt8], _ start: Int, _ count: Int) -> UInt64 {
        bytes[start..<(start + count)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}

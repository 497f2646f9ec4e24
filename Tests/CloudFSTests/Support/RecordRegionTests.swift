import Glibc
import Testing

@testable import CloudFS

@Suite struct RecordRegionTests {
    private struct Sample: BitwiseCopyable, Equatable {
        var number: Int64
        var small: UInt8
    }

    private struct Larger: BitwiseCopyable {
        var first: Int64
        var second: Int64
        var third: Int64
    }

    @Test func `records are read back, changed and freed`() throws {
        let region = try RecordRegion<Sample>(capacity: 2)
        let one = try region.allocate(Sample(number: 1, small: 1))
        let two = try region.allocate(Sample(number: 2, small: 2))
        #expect([one, two] == [0, 1])
        region.write(Sample(number: 20, small: 3), to: two)
        region.free(one)
        #expect(region.read(one) == nil)
        #expect(region.read(two) == Sample(number: 20, small: 3))
        #expect(try region.allocate(Sample(number: 3, small: 0)) == one)
        #expect(region.count == 2)
    }

    @Test func `a slot that does not exist holds nothing`() throws {
        let region = try RecordRegion<Sample>(capacity: 2)
        #expect(region.read(-1) == nil)
        #expect(region.read(2) == nil)
        #expect(region.read(.max) == nil)
    }

    @Test func `a region grows to its limit and no further`() throws {
        let region = try RecordRegion<Sample>(capacity: 1, maximumCapacity: 1000)
        for number in 0..<1000 {
            #expect(try region.allocate(Sample(number: Int64(number), small: 7)) == number)
        }
        #expect(throws: RecordRegionError.self) {
            try region.allocate(Sample(number: 0, small: 0))
        }
        #expect(region.slots.map(\.record.number) == Array(0..<1000))
    }

    @Test func `a second mapping sees the records, also when they outgrow the first memory`() throws
    {
        let region = try RecordRegion<Sample>(capacity: 4)
        for number in 0..<300 { _ = try region.allocate(Sample(number: Int64(number), small: 9)) }
        region.free(17)
        let next = try RecordRegion<Sample>(adopting: dup(region.descriptor))
        #expect(next.count == 299)
        #expect(next.slots.map(\.index) == Array(0..<300).filter { $0 != 17 })
        #expect(next.read(299) == Sample(number: 299, small: 9))
        #expect(try next.allocate(Sample(number: -1, small: 1)) == 17)
        #expect(region.read(17) == Sample(number: -1, small: 1))
    }

    @Test func `records outlive the region that made them`() throws {
        let descriptor: Int32
        do {
            let region = try RecordRegion<Sample>(capacity: 4)
            _ = try region.allocate(Sample(number: 5, small: 5))
            descriptor = dup(region.descriptor)
        }
        let next = try RecordRegion<Sample>(adopting: descriptor)
        #expect(next.slots.map(\.record) == [Sample(number: 5, small: 5)])
    }

    @Test func `other records, an empty file and a cut one are refused`() throws {
        let region = try RecordRegion<Sample>(capacity: 100)
        #expect(throws: RecordRegionError.self) {
            try RecordRegion<Larger>(adopting: region.descriptor)
        }
        let copy = dup(region.descriptor)
        defer { close(copy) }
        #expect(throws: RecordRegionError.self) {
            try RecordRegion<Sample>(adopting: copy, maximumCapacity: 99)
        }
        #expect(ftruncate(copy, 200) == 0)
        #expect(throws: RecordRegionError.self) { try RecordRegion<Sample>(adopting: copy) }
        #expect(ftruncate(copy, 0) == 0)
        #expect(throws: RecordRegionError.self) { try RecordRegion<Sample>(adopting: copy) }
    }
}

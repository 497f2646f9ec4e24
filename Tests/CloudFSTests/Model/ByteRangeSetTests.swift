import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Compares the set with a bitmap, all small cases first and then random ones.
@Suite struct ByteRangeSetTests {
    /// The naive model: one flag a byte.
    private struct Bitmap {
        var bits: [Bool]

        init(count: Int) { bits = Array(repeating: false, count: count) }

        mutating func set(_ range: Range<Int64>, to value: Bool) {
            for offset in range { bits[Int(offset)] = value }
        }

        /// The runs of `value` within `range`.
        func runs(of value: Bool, in range: Range<Int64>) -> [Range<Int64>] {
            var runs: [Range<Int64>] = []
            for offset in range where bits[Int(offset)] == value {
                if let last = runs.last, last.upperBound == offset {
                    runs[runs.count - 1] = last.lowerBound..<offset + 1
                } else {
                    runs.append(offset..<offset + 1)
                }
            }
            return runs
        }
    }

    private func expectSame(_ set: ByteRangeSet, _ model: Bitmap, _ note: Comment) {
        let whole = 0..<Int64(model.bits.count)
        set.checkInvariants()
        #expect(set.ranges == model.runs(of: true, in: whole), note)
        #expect(set.byteCount == Int64(model.bits.filter { $0 }.count), note)
        #expect(set.isEmpty == !model.bits.contains(true), note)
    }

    private func expectSameAnswers(
        _ set: ByteRangeSet,
        _ model: Bitmap,
        in range: Range<Int64>,
        _ note: Comment
    ) {
        let flags = range.map { model.bits[Int($0)] }
        #expect(set.contains(range) == flags.allSatisfy { $0 }, note)
        #expect(set.intersects(range) == flags.contains(true), note)
        #expect(set.covered(in: range) == model.runs(of: true, in: range), note)
        let missing = model.runs(of: false, in: range)
        #expect(set.missing(in: range) == missing, note)
        #expect(
            set.firstMissing(from: range.lowerBound, limit: range.upperBound) == missing.first,
            note
        )
    }

    @Test func `every set of eight bytes answers every question as a bitmap does`() {
        let count: Int64 = 8
        for pattern in 0..<(1 << count) {
            var model = Bitmap(count: Int(count))
            var set = ByteRangeSet()
            for offset in 0..<count where pattern >> offset & 1 == 1 {
                model.set(offset..<offset + 1, to: true)
                set.insert(offset..<offset + 1)
            }
            for low in 0...count {
                for high in low...count {
                    let range = low..<high
                    expectSameAnswers(set, model, in: range, "\(pattern) \(range)")
                    var larger = (set, model)
                    larger.0.insert(range)
                    larger.1.set(range, to: true)
                    expectSame(larger.0, larger.1, "\(pattern) + \(range)")
                    var smaller = (set, model)
                    smaller.0.remove(range)
                    smaller.1.set(range, to: false)
                    expectSame(smaller.0, smaller.1, "\(pattern) - \(range)")
                }
            }
        }
    }

    @Test(arguments: UInt64(1)...8)
    func `random changes keep the set equal to a bitmap`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let count: Int64 = 400
        var model = Bitmap(count: Int(count))
        var set = ByteRangeSet()
        for step in 0..<400 {
            let range = random.range(below: count, longest: 40)
            if random.below(3) == 0 {
                set.remove(range)
                model.set(range, to: false)
            } else {
                set.insert(range)
                model.set(range, to: true)
            }
            expectSame(set, model, "seed \(seed) step \(step)")
            let asked = random.range(below: count, longest: 80)
            expectSameAnswers(set, model, in: asked, "seed \(seed) step \(step) \(asked)")
        }
    }

    @Test(arguments: UInt64(1)...10)
    func `union and subtraction go byte by byte`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let count: Int64 = 200
        let ones = (0..<10).map { _ in random.range(below: count, longest: 30) }
        let others = (0..<10).map { _ in random.range(below: count, longest: 30) }
        let one = ByteRangeSet(ones)
        let other = ByteRangeSet(others)
        for offset in 0..<count {
            let byte = offset..<offset + 1
            let isInOne = ones.contains { $0.contains(offset) }
            let isInOther = others.contains { $0.contains(offset) }
            #expect(one.union(other).contains(byte) == (isInOne || isInOther), "seed \(seed)")
            #expect(one.subtracting(other).contains(byte) == (isInOne && !isInOther))
        }
        one.union(other).checkInvariants()
        one.subtracting(other).checkInvariants()
    }

    @Test func `ranges that touch are joined`() {
        var set = ByteRangeSet(10..<20)
        set.insert(30..<40)
        set.insert(20..<30)
        #expect(set.ranges == [10..<40])
        #expect(set.bounds == 10..<40)
        #expect(set.run(at: 39) == 10..<40)
        #expect(set.run(at: 40) == nil)
    }

    @Test func `offsets up to the largest one are held`() {
        var set = ByteRangeSet(0..<Int64.max)
        set.remove(100..<200)
        #expect(set.byteCount == Int64.max - 100)
        #expect(set.missing(in: 0..<Int64.max) == [100..<200])
    }

    @Test func `an empty range is contained in nothing and touches nothing`() {
        let set = ByteRangeSet()
        #expect(set.contains(5..<5))
        #expect(!set.intersects(5..<5))
        #expect(set.missing(in: 5..<5).isEmpty)
        #expect(set.bounds == nil)
    }
}

/// A random number generator that repeats itself: SplitMix64 from a seed.
///
/// Tests print `seed` in their comments, so that a failure can be run again.
public struct SeededRandom: RandomNumberGenerator, Sendable {
    public let seed: UInt64
    private var state: UInt64

    public init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    public mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    /// `count` random bytes.
    public mutating func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 8)
        while bytes.count < count {
            withUnsafeBytes(of: next()) { bytes.append(contentsOf: $0) }
        }
        return Array(bytes.prefix(count))
    }

    public mutating func below(_ bound: Int) -> Int {
        Int.random(in: 0..<bound, using: &self)
    }

    /// A range within 0 to `bound`, at most `longest` bytes and sometimes empty.
    public mutating func range(below bound: Int64, longest: Int64) -> Range<Int64> {
        let start = Int64.random(in: 0...bound, using: &self)
        let count = Int64.random(in: 0...longest, using: &self)
        return start..<min(bound, start + count)
    }
}

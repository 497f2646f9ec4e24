/// Random numbers that a seed determines (SplitMix64), for tests of pure values.
struct TestRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed &* 0x9e37_79b9_7f4a_7c15
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    mutating func below(_ bound: Int) -> Int {
        Int.random(in: 0..<bound, using: &self)
    }

    /// A range within 0 to `bound`, at most `longest` bytes and sometimes empty.
    mutating func range(below bound: Int64, longest: Int64) -> Range<Int64> {
        let start = Int64.random(in: 0...bound, using: &self)
        let count = Int64.random(in: 0...longest, using: &self)
        return start..<min(bound, start + count)
    }
}

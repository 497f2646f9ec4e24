/// How long to wait before trying again: doubling, with jitter, up to a limit.
///
/// The random part keeps many that failed together from coming back together.
struct Backoff: Sendable {
    /// The longest wait after the first failure.
    var first: Duration
    /// The longest wait ever.
    var longest: Duration
    /// The part of a wait that is not left to chance, from 0 (full jitter) to 1 (none).
    var certainPart: Double

    init(first: Duration, longest: Duration, certainPart: Double = 0) {
        precondition(first > .zero && first <= longest, "waits grow from a first one")
        precondition((0...1).contains(certainPart), "a part is between nothing and all")
        self.first = first
        self.longest = longest
        self.certainPart = certainPart
    }

    /// The longest wait after a number of failures in a row.
    func ceiling(afterFailures count: Int) -> Duration {
        var ceiling = first
        var left = count - 1
        // Not a shift: it would overflow long before `longest` does.
        while left > 0, ceiling < longest {
            ceiling *= 2
            left -= 1
        }
        return min(ceiling, longest)
    }

    /// The wait after a number of failures in a row, drawn from `random`.
    func delay(
        afterFailures count: Int,
        using random: inout some RandomNumberGenerator
    ) -> Duration {
        let part = certainPart + (1 - certainPart) * Double.random(in: 0...1, using: &random)
        return ceiling(afterFailures: count) * part
    }
}

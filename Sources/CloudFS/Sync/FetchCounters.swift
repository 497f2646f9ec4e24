/// What was fetched from the provider.
struct FetchCounters: Sendable, Equatable {
    var requests = 0
    var bytes: Int64 = 0

    /// One more request, and what it brought.
    mutating func add(_ count: Int64) {
        requests += 1
        bytes += count
    }
}

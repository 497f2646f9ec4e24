/// How files are hydrated.
struct HydrationSettings: Sendable {
    var policy: HydrationPlan.Policy
    var settings = HydrationPlan.Settings()
    /// Room on the disk that the rest of changed files leaves.
    var keptFree: Int64 = 0
}

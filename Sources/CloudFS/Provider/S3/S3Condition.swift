/// What must be so for a write to happen.
enum S3Condition: Sendable, Equatable {
    case none
    /// Nothing is there: `If-None-Match: *`.
    case ifNoneMatchAny
    /// What is there has this tag, given without quotes; servers differ in wanting them.
    case ifMatch(String, quoted: Bool)
}

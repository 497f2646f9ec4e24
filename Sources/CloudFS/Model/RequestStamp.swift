/// Which request of the kernel asks for something, so that what is asked again is not done twice.
///
/// The kernel sends again what a worker had read and could not answer before it was killed.
struct RequestStamp: Hashable, Sendable {
    /// The same each time the request is sent, and that of no other request of any connection.
    var mark: Int64
    /// Whether an earlier worker may have done what it asks for.
    var isRepeated: Bool
}

import CloudFSControlAPI

/// Who asks: as the kernel noted it when the connection was made.
struct ControlPeer: Sendable, Hashable {
    var process: Int32 = 0
    var user: UInt32 = .max
    var group: UInt32 = .max
}

/// What the control API needs of a drive for programs that coordinate with others.
///
/// Methods with a `tell` go on until their task is cancelled or `tell` answers that nobody listens
/// any more. What is wrong with the request is thrown before the first event.
protocol CoordinatedDrive: Sendable {
    /// Waits for a claim and holds it.
    ///
    /// - Throws: `notFound`, `invalidArgument`; `claimed` when somebody takes the claim away; what
    ///   a presenter answers as an error.
    func hold(
        _ order: ClaimOrder,
        for peer: ControlPeer,
        tell: @escaping @Sendable (ClaimEvent) -> Bool
    ) async throws(CloudFSError)

    /// Everybody who holds or awaits a claim, or presents an item.
    func claims() async throws(CloudFSError) -> ClaimList

    /// Takes a claim from a program.
    ///
    /// - Throws: `notFound` if there is none of that number; `denied` for one of a plain program.
    func endClaim(_ id: UInt64) async throws(CloudFSError)

    /// Has a program present an item.
    func present(
        _ order: PresenterOrder,
        for peer: ControlPeer,
        tell: @escaping @Sendable (PresenterEvent) -> Bool
    ) async throws(CloudFSError)

    /// Passes a presenter's answer on.
    ///
    /// - Throws: `notFound` if nobody waits for it any more.
    func answer(_ answer: PresenterAnswer) async throws(CloudFSError)

    /// Tells what happens to the items of the drive.
    func watch(tell: @escaping @Sendable (DriveEvent) -> Bool) async throws(CloudFSError)

    /// Tells what a query finds, and then how that changes.
    ///
    /// - Throws: As `query`; `tooLarge` for more results than are followed.
    func follow(
        _ request: QueryRequest,
        tell: @escaping @Sendable (QueryEvent) -> Bool
    ) async throws(CloudFSError)
}

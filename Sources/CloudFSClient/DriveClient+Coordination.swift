public import CloudFSControlAPI

extension DriveClient {
    /// Asks for a claim, and has it for as long as the events are listened to.
    public func claim(_ order: ClaimOrder) -> DriveEvents<ClaimEvent> {
        stream(.claims, order)
    }

    /// Presents an item for as long as the events are listened to.
    public func present(_ order: PresenterOrder) -> DriveEvents<PresenterEvent> {
        stream(.presenters, order)
    }

    /// What happens to the items of the drive, from now on.
    public func events() -> DriveEvents<DriveEvent> {
        stream(.events)
    }

    /// What a query finds, and then how that changes.
    public func follow(_ request: QueryRequest) -> DriveEvents<QueryEvent> {
        stream(.liveQuery, request)
    }

    /// Answers a question that a presenter got.
    public func answer(_ answer: PresenterAnswer) async throws(DriveClientError) {
        let _: Done = try await post(.presenterAnswer, answer)
    }

    /// Everybody who holds or awaits a claim, or presents an item.
    public func claims() async throws(DriveClientError) -> ClaimList {
        try await get(.claims)
    }

    /// Takes a claim from the program that has it.
    public func endClaim(_ id: UInt64) async throws(DriveClientError) {
        let _: Done = try await post(.endClaim, ClaimEnding(id: id))
    }
}

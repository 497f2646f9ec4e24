/// One link in the chain of a document's leases, as it lies in the cloud.
///
/// Taking, renewing and ending a lease each store the link with the next number, which a cloud
/// lets one device do only. So whoever stored the latest link knows that nobody came between.
public struct LeaseRecord: Hashable, Sendable {
    public let document: DocumentID
    /// The place in the chain, from 1.
    public let number: Int64
    /// The number with which this lease was taken: it rises with every taking.
    public let generation: Int64
    /// `nil` when what lies in the cloud cannot be read.
    public let holder: LeaseHolder?
    /// How long the lease lasts unless another link follows.
    public let duration: Duration
    /// Whether the holder gave it up.
    public let isEnded: Bool

    /// Beyond it a chain is taken for damaged: numbers have 15 digits.
    public static let highestNumber: Int64 = 999_999_999_999_999
    /// What a lease may last: a device that is gone must not keep others out for days.
    public static let durations = Duration.seconds(1)...Duration.seconds(300)

    public init(
        document: DocumentID,
        number: Int64,
        generation: Int64,
        holder: LeaseHolder?,
        duration: Duration,
        isEnded: Bool = false
    ) {
        self.document = document
        self.number = number
        self.generation = generation
        self.holder = holder
        self.duration = min(max(duration, Self.durations.lowerBound), Self.durations.upperBound)
        self.isEnded = isEnded
    }

    /// A link that cannot be read: whoever holds it keeps it for as long as anybody may.
    public static func unreadable(_ document: DocumentID, number: Int64) -> LeaseRecord {
        LeaseRecord(
            document: document,
            number: number,
            generation: number,
            holder: nil,
            duration: durations.upperBound
        )
    }

    /// How often it was renewed.
    public var renewalCount: Int64 { number - generation }
}

public import CloudFS

/// How a `FakeS3Server` differs from an ideal one; may be changed at any time.
public struct FakeS3Settings: Sendable {
    /// The forms of an entity tag.
    public struct EntityTagForms: OptionSet, Sendable {
        public let rawValue: Int

        public init(rawValue: Int) {
            self.rawValue = rawValue
        }

        public static let quoted = EntityTagForms(rawValue: 1)
        public static let unquoted = EntityTagForms(rawValue: 2)
        public static let all: EntityTagForms = [.quoted, .unquoted]
    }

    /// What a server makes of a condition on a write.
    public enum Conditions: Sendable {
        case honoured
        /// As if the header were not there.
        case ignored
        /// 501 NotImplemented.
        case refused
    }

    // MARK: - Conditional writes

    /// The forms in which an entity tag is understood in `If-Match` of a PUT.
    ///
    /// A tag in another form never matches: the write is refused with 412.
    public var ifMatchForms: EntityTagForms = .all
    public var ifMatchOnPut: Conditions = .honoured
    public var ifNoneMatchOnPut: Conditions = .honoured
    /// What becomes of an entity tag in `If-None-Match` of a PUT; AWS only has `*`.
    public var ifNoneMatchTagsOnPut: Conditions = .refused
    public var conditionsOnDelete: Conditions = .honoured
    public var conditionsOnCopy: Conditions = .honoured
    public var conditionsOnCompletion: Conditions = .honoured
    /// Conditions on the source of a copy.
    public var conditionsOnCopySource: Conditions = .honoured
    /// Whether a copy's answer has the entity tag in quotes.
    public var quotesEntityTagOfCopies = true
    /// Whether the answer to a PUT has the entity tag.
    public var tellsEntityTagOfUploads = true
    /// Whether CompleteMultipartUpload answers with an entity tag.
    public var tellsEntityTagOfCompletions = true

    // MARK: - Who may ask

    /// The only access key that is accepted; `nil` for anybody, also without a signature.
    ///
    /// Signatures are not checked.
    public var accessKeyID: String?
    /// The region that requests have to be signed for; `nil` for any.
    public var region: String?
    /// Whether requests that are dated 15 minutes or more off are refused.
    public var checksRequestTime = false
    /// Whether everything that writes is refused with 403.
    public var isReadOnly = false
    /// Host names below this one name the bucket; all others mean path style.
    public var virtualHostDomain = "localhost"

    // MARK: - Time

    /// The server's clock without `clockOffset`; `nil` for the system's.
    public var now: (@Sendable () -> Timestamp)?
    /// Added to the clock: seen in `Date` and in `Last-Modified`.
    public var clockOffset: Duration = .zero
    /// From the end of a request to the first byte of its answer.
    public var latency: Duration = .zero
    /// Bytes a second in each direction of each connection; `nil` for no limit.
    public var bandwidth: Int?

    // MARK: - Limits

    /// The most entries of a listing, whatever is asked for.
    public var maximumPage = 1_000
    public var maximumMetadataByteCount = 2_048
    /// The smallest part of a multipart upload but the last.
    public var minimumPartByteCount = 5 << 20
    /// The largest object or part in one request.
    public var maximumBodyByteCount = 5 << 30
    /// Whether listings write a space as `+`, as AWS does, or as `%20`.
    public var encodesSpaceAsPlus = true

    public init() {}

    /// As Ceph's RADOS Gateway was measured to be.
    public static var ceph: FakeS3Settings {
        var settings = FakeS3Settings()
        settings.ifMatchForms = .unquoted
        settings.ifNoneMatchTagsOnPut = .ignored
        settings.conditionsOnDelete = .ignored
        settings.conditionsOnCopy = .ignored
        settings.conditionsOnCompletion = .ignored
        settings.quotesEntityTagOfCopies = false
        settings.tellsEntityTagOfCompletions = false
        settings.encodesSpaceAsPlus = false
        return settings
    }

    /// A server that has never heard of conditional writes.
    public static var unconditional: FakeS3Settings {
        var settings = FakeS3Settings()
        settings.ifMatchOnPut = .ignored
        settings.ifNoneMatchOnPut = .ignored
        settings.conditionsOnDelete = .ignored
        settings.conditionsOnCopy = .ignored
        settings.conditionsOnCompletion = .ignored
        return settings
    }
}

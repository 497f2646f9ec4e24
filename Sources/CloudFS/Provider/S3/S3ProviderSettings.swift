/// What one provider may be told.
struct S3ProviderSettings: Sendable {
    /// What this machine is called in the names of conflict versions.
    var deviceName = "device"
    /// Files up to this length are sent in one request, larger ones in parts of it; 8 MiB.
    var partByteCount: Int64 = 8 << 20
    /// How many parts of one file are sent at once.
    var parallelParts = 4
    /// Up to which length a server copies an object in one request; 5 GiB.
    var longestCopy: Int64 = 5 << 30
    /// In parts of which length a server copies longer ones; 512 MiB.
    var copyPartByteCount: Int64 = 512 << 20
    /// Whether anybody wants to know whom objects belong to.
    var tellsOwners = true
    /// How many objects are looked at at once.
    var parallelLooks = 32
    /// The time between two looks into the journal, while the drive is in use and when it is not.
    var pollInterval: Duration = .seconds(1)
    var idlePollInterval: Duration = .seconds(30)
    /// After which time without use or changes the drive counts as idle.
    var idleAfter: Duration = .seconds(300)
    /// How often everything is compared, to find what other tools did.
    var scanInterval: Duration = .seconds(900)
    /// How long after the start, and then how often, what is left behind is cleared away.
    var firstSweep: Duration = .seconds(60)
    var sweepInterval: Duration = .seconds(21_600)
    /// How old a record of the journal must be to be swept.
    var recordAge: Duration = .seconds(7 * 86_400)
    /// How old a probe must be to count as left behind.
    var probeAge: Duration = .seconds(86_400)
    /// How long an upload in parts that nobody goes on with is kept.
    var uploadAge: Duration = .seconds(3 * 86_400)
    /// How often a device that moves a folder says that it is still at it, and for how long others
    /// believe it.
    var moveToldEvery: Duration = .seconds(600)
    var moveAge: Duration = .seconds(3_600)
}

/// Which conditions a server honours when objects are written.
struct S3WriteRules: Sendable, Equatable {
    enum Replacing: String, Sendable {
        /// `If-Match` means nothing: what is there is looked at before.
        case none
        case quoted
        case unquoted
    }

    enum Deleting: String, Sendable {
        /// `If-Match` means nothing: what is there is looked at before.
        case none
        /// A deletion with a condition fails, also where it holds: so it has none.
        case refused
        case quoted
        case unquoted

        var isHonoured: Bool { self == .quoted || self == .unquoted }
    }

    /// Whether `If-None-Match: *` keeps what is there.
    var create = false
    var replace = Replacing.none
    /// Whether copies honour the same.
    var copy = false
    /// Whether `If-Match` keeps what is there from being deleted, and how the tag is to be given.
    var delete = Deleting.none
    var isProbed = false
    /// Whether the tag of what was sent at once is the digest of its bytes.
    var tagsAreDigests = false
    /// Whether nothing can be written at all.
    var isReadOnly = false

    func condition(replacing tag: String?) -> S3Condition {
        guard let tag else { return create ? .ifNoneMatchAny : .none }
        switch replace {
        case .none: return .none
        case .quoted: return .ifMatch(tag, quoted: true)
        case .unquoted: return .ifMatch(tag, quoted: false)
        }
    }

    /// Sent with every deletion, after a look at what is there: that it means nothing may change.
    func conditionOfDeletion(of object: S3Object) -> S3Condition {
        guard !object.entityTag.isEmpty, delete != .refused else { return .none }
        return .ifMatch(object.entityTag, quoted: delete != .unquoted)
    }

    func conditionOfCopy(replacing tag: String?) -> S3Condition {
        copy ? condition(replacing: tag) : .none
    }
}

/// What a program wants to do with one item; the words of `POST /v1/claims`.
public struct ClaimIntent: Codable, Sendable, Hashable {
    public enum Access: String, Codable, Sendable, Hashable, CaseIterable {
        case read
        case write
    }

    /// How it is read or written, named as in `NSFileCoordinator`.
    public enum Option: String, Codable, Sendable, Hashable, CaseIterable {
        /// Reading: presenters are not asked to save first.
        case withoutChanges
        /// Reading: only what is known without a download; waits for nobody.
        case immediatelyAvailableMetadataOnly
        /// Reading: a copy is made, nothing else.
        case forUploading
        case forDeleting
        case forMoving
        case forMerging
        case forReplacing
        /// Writing: tags and the like, which do not depend on the content.
        case contentIndependentMetadataOnly
    }

    public var path: DrivePath
    public var access: Access
    /// Of writing options, one at most.
    public var options: [Option]

    public init(path: DrivePath, access: Access, options: [Option] = []) {
        self.path = path
        self.access = access
        self.options = options
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        path = try container.decode(DrivePath.self, forKey: .path)
        access = try container.decode(Access.self, forKey: .access)
        options = try container.decodeIfPresent([Option].self, forKey: .options) ?? []
    }
}

/// The body of `POST /v1/claims`: the claim lives as long as the answer is read.
public struct ClaimOrder: Codable, Sendable, Hashable {
    /// 1 to `ControlAPI.maximumIntentCount`, granted together.
    public var intents: [ClaimIntent]
    /// Claims of one purpose never wait for each other, whichever process has them; by default
    /// each claim has its own.
    public var purpose: String?
    /// How long to wait, in seconds, 0 to 86,400; 30 by default.
    public var timeoutSeconds: Double?
    /// The presenter that asks, and so is not asked itself.
    public var presenter: UInt64?

    public init(
        intents: [ClaimIntent],
        purpose: String? = nil,
        timeoutSeconds: Double? = nil,
        presenter: UInt64? = nil
    ) {
        self.intents = intents
        self.purpose = purpose
        self.timeoutSeconds = timeoutSeconds
        self.presenter = presenter
    }
}

/// One event of a claim: `waiting`, then `downloading` if bytes are absent, then `granted`.
///
/// The stream then stays open until one side ends it; `event: error` tells why the drive did.
public struct ClaimEvent: Codable, Sendable, Hashable {
    public enum State: String, Codable, Sendable, Hashable {
        case waiting
        case downloading
        case granted
    }

    public var state: State
    /// Where the items are now, in the order they were asked for.
    public var paths: [DrivePath]?
    /// Who is in the way of a claim that waits.
    public var behind: [ClaimStatus.Holder]?
    /// Why a granted claim to write has no turn among devices, as a sentence; `nil` if it has one.
    public var withoutTurn: String?

    public init(
        _ state: State,
        paths: [DrivePath]? = nil,
        behind: [ClaimStatus.Holder]? = nil,
        withoutTurn: String? = nil
    ) {
        self.state = state
        self.paths = paths
        self.behind = behind
        self.withoutTurn = withoutTurn
    }
}

/// A claim as `GET /v1/claims` shows it.
public struct ClaimStatus: Codable, Sendable, Hashable {
    /// Who has a claim.
    public struct Holder: Codable, Sendable, Hashable {
        public enum Kind: String, Codable, Sendable, Hashable {
            /// A program that has opened a file, and knows nothing of claims.
            case plain
            /// A program that asked for the claim.
            case program
            /// The drive itself.
            case drive
        }

        public var kind: Kind
        /// What it calls its purpose; empty for all but programs.
        public var purpose: String
        /// 0 for the drive itself.
        public var process: Int32
        /// The name of that process; empty if it is gone.
        public var command: String

        public init(kind: Kind, purpose: String, process: Int32, command: String) {
            self.kind = kind
            self.purpose = purpose
            self.process = process
            self.command = command
        }
    }

    public var id: UInt64
    public var isHeld: Bool
    public var holder: Holder
    public var intents: [ClaimIntent]
    /// Since it was asked for; `nil` for plain programs.
    public var ageSeconds: Double?
    /// Who is in the way of one that waits.
    public var behind: [Holder]

    public init(
        id: UInt64,
        isHeld: Bool,
        holder: Holder,
        intents: [ClaimIntent],
        ageSeconds: Double?,
        behind: [Holder]
    ) {
        self.id = id
        self.isHeld = isHeld
        self.holder = holder
        self.intents = intents
        self.ageSeconds = ageSeconds
        self.behind = behind
    }
}

/// A program that presents an item.
public struct PresenterStatus: Codable, Sendable, Hashable {
    public var id: UInt64
    public var path: DrivePath?
    public var holder: ClaimStatus.Holder
    /// Whether it let a question go unanswered.
    public var isSilent: Bool

    public init(id: UInt64, path: DrivePath?, holder: ClaimStatus.Holder, isSilent: Bool) {
        self.id = id
        self.path = path
        self.holder = holder
        self.isSilent = isSilent
    }
}

/// A device's turn to write a document.
public struct LeaseStatus: Codable, Sendable, Hashable {
    public var path: DrivePath?
    public var device: String
    /// The program there, as its device calls it.
    public var process: String
    /// Whether it is this device's.
    public var isOwn: Bool

    public init(path: DrivePath?, device: String, process: String, isOwn: Bool) {
        self.path = path
        self.device = device
        self.process = process
        self.isOwn = isOwn
    }
}

/// The answer of `GET /v1/claims`.
public struct ClaimList: Codable, Sendable, Hashable {
    public var claims: [ClaimStatus]
    public var presenters: [PresenterStatus]
    /// Whose turn it is to write documents, of all devices as far as that is known.
    public var leases: [LeaseStatus]

    public init(
        claims: [ClaimStatus],
        presenters: [PresenterStatus],
        leases: [LeaseStatus] = []
    ) {
        self.claims = claims
        self.presenters = presenters
        self.leases = leases
    }
}

/// The body of `POST /v1/claims/end`: takes a claim from the program that holds or awaits it.
public struct ClaimEnding: Codable, Sendable, Hashable {
    public var id: UInt64

    public init(id: UInt64) {
        self.id = id
    }
}

/// The body of `POST /v1/presenters`: the program presents the item for as long as it reads the
/// answer.
public struct PresenterOrder: Codable, Sendable, Hashable {
    public var path: DrivePath
    /// The messages it understands; by default all of them.
    public var hears: [PresenterEvent.Kind]?
    /// As in `ClaimOrder`: its own accesses raise no messages.
    public var purpose: String?

    public init(path: DrivePath, hears: [PresenterEvent.Kind]? = nil, purpose: String? = nil) {
        self.path = path
        self.hears = hears
        self.purpose = purpose
    }
}

/// One event of a presenter; the first is `presenting`.
public struct PresenterEvent: Codable, Sendable, Hashable {
    public enum Kind: String, Codable, Sendable, Hashable, CaseIterable {
        case presenting
        case relinquishToReader
        case relinquishToWriter
        case saveChanges
        case accommodateDeletion
        case accommodateSubitemDeletion
        /// Reserved: eviction asks nobody yet.
        case accommodateEviction
        case reacquire
        case didChange
        case didMove
        case wasDeleted
        case didChangeAttributes
        case didGainVersion
        case didResolveVersion
        case subitemDidAppear
        case subitemDidChange
        case subitemDidMove
        case subitemWasDeleted
    }

    /// What an answer names; of `presenting`, the number of the presenter.
    public var id: UInt64
    public var kind: Kind
    /// Where the item is that it is about; `nil` if it is gone.
    public var path: DrivePath?
    /// Whether somebody waits for the answer, 5 seconds at most.
    public var wantsAnswer: Bool

    public init(id: UInt64, kind: Kind, path: DrivePath?, wantsAnswer: Bool) {
        self.id = id
        self.kind = kind
        self.path = path
        self.wantsAnswer = wantsAnswer
    }
}

/// The body of `POST /v1/presenters/answer`.
public struct PresenterAnswer: Codable, Sendable, Hashable {
    public var presenter: UInt64
    public var message: UInt64
    /// Why it could not be done; whoever waits then fails with it.
    public var failure: String?

    public init(presenter: UInt64, message: UInt64, failure: String? = nil) {
        self.presenter = presenter
        self.message = message
        self.failure = failure
    }
}

/// One event of `GET /v1/events`.
public struct DriveEvent: Codable, Sendable, Hashable {
    public enum Kind: String, Codable, Sendable, Hashable, CaseIterable {
        /// The stream begins: what happened before was not told.
        case listening
        case appeared
        case vanished
        case moved
        /// The content changed.
        case changed
        /// Size, times, mode, attributes or state changed.
        case attributes
        /// So much happened that some was left out: look at everything again.
        case overflow
    }

    public enum Origin: String, Codable, Sendable, Hashable {
        case cloud
        case local
    }

    public var kind: Kind
    public var path: DrivePath?
    /// Where it was, of `moved`.
    public var from: DrivePath?
    public var origin: Origin?
    /// The process that did it, if it is known and of this machine.
    public var process: Int32?

    public init(
        _ kind: Kind,
        path: DrivePath? = nil,
        from: DrivePath? = nil,
        origin: Origin? = nil,
        process: Int32? = nil
    ) {
        self.kind = kind
        self.path = path
        self.from = from
        self.origin = origin
        self.process = process
    }
}

/// Nothing: the answer of what is simply done.
public struct Done: Codable, Sendable, Hashable {
    public init() {}
}

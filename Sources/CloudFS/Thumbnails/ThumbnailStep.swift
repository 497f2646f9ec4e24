/// Everything a decision about one item's thumbnail rests on.
struct ThumbnailFacts: Sendable {
    /// Whether a program is installed that makes pictures of this type.
    var canBeMade: Bool
    /// Whether programs that make pictures can be run now.
    var canRun = true
    /// Whether few of its bytes may hold a small picture, and somebody wants to see one.
    var canPeek: Bool
    /// Whether all bytes are here, and no program is about to change them.
    var isReadable: Bool
    /// The version that the content is in the cloud; `nil` while only this machine has it.
    var version: ItemVersion?
    /// The state of the content file, if there is one.
    var local: ThumbnailToken?
    /// What is stored, whichever content it shows.
    var record: ThumbnailRecord?
    /// Whether somebody wants to see it: no request is made for what only passes by.
    var isAsked: Bool
    /// Whether somebody asked for more than folders show.
    var wantsBig: Bool
    var isOnline: Bool
    var mayWrite: Bool
    var now: Timestamp

    /// The contents that are the present one, the one to store first.
    var tokens: [ThumbnailToken] {
        [version.map { ThumbnailToken($0) }, local].compactMap { $0 }
    }
}

/// What is to be done next about the thumbnail of one item.
enum ThumbnailStep: Sendable, Equatable {
    case nothing
    /// It shows what was sent meanwhile: it gets the version's name.
    case adopt(ThumbnailToken)
    /// Pictures of the content.
    case make
    /// The sizes that are lacking, from the largest that a program gave.
    case derive
    case fetch(isSmall: Bool)
    /// The small picture that cameras put into a photo.
    case peek
    case send

    /// How long the cloud is not asked again for what it did not have: another device may be about
    /// to leave it there, 2 s at first, then twice as long each time, up to an hour.
    static func absence(after attempts: Int) -> Duration {
        .seconds(attempts > 11 ? 3_600 : min(3_600, 1 << max(1, attempts)))
    }

    static func next(_ facts: ThumbnailFacts) -> ThumbnailStep {
        guard let record = facts.record, facts.tokens.contains(record.token) else {
            return begin(facts)
        }
        let version = facts.version.map { ThumbnailToken($0) }
        if let version, record.token != version { return .adopt(version) }
        switch record.source {
        case .failed: return .nothing
        case .absent where facts.canPeek && !facts.isReadable && facts.isOnline: return .peek
        case .absent, .peeked:
            return facts.isReadable || !isRecent(record, facts.now) ? begin(facts) : .nothing
        case .cloud:
            let lacksBig = record.sizes.isDisjoint(with: ThumbnailSize.big)
            return lacksBig && facts.wantsBig && facts.isOnline ? .fetch(isSmall: false) : .nothing
        case .given where record.sizes.isDisjoint(with: ThumbnailSize.small) && facts.canRun:
            return .derive
        case .given, .madeHere:
            guard !record.isSent, facts.mayWrite, facts.isOnline, version != nil else {
                return .nothing
            }
            return .send
        }
    }

    private static func begin(_ facts: ThumbnailFacts) -> ThumbnailStep {
        // It takes no request, works offline, and looks as the content does.
        if facts.isReadable, !facts.tokens.isEmpty, facts.canBeMade { return .make }
        guard facts.isAsked, facts.version != nil, facts.isOnline,
            !facts.isReadable || !facts.canBeMade
        else { return .nothing }
        if let record = facts.record, [.absent, .peeked].contains(record.source),
            facts.tokens.contains(record.token), isRecent(record, facts.now)
        {
            return .nothing
        }
        return .fetch(isSmall: true)
    }

    /// A clock that was set back does not make it last.
    private static func isRecent(_ record: ThumbnailRecord, _ now: Timestamp) -> Bool {
        record.noted <= now && now < record.noted + absence(after: record.attempts)
    }
}

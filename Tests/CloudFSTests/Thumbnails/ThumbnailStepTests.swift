import Testing

@testable import CloudFS

/// What is done next about a thumbnail, for everything that decides it.
@Suite struct ThumbnailStepTests {
    private static let version = ItemVersion(content: "v2", metadata: "m")
    private static let local = ThumbnailToken(rawValue: "l:3:100:5")
    private static let now = Timestamp(seconds: 1_000_000, nanoseconds: 0)

    private func facts(_ change: (inout ThumbnailFacts) -> Void = { _ in }) -> ThumbnailFacts {
        var facts = ThumbnailFacts(
            canBeMade: true,
            canPeek: false,
            isReadable: true,
            version: Self.version,
            local: Self.local,
            record: nil,
            isAsked: true,
            wantsBig: false,
            isOnline: true,
            mayWrite: true,
            now: Self.now
        )
        change(&facts)
        return facts
    }

    private func record(
        _ source: ThumbnailRecord.Source,
        _ sizes: [ThumbnailSize] = ThumbnailSize.allCases,
        of token: ThumbnailToken = ThumbnailToken(version),
        isSent: Bool = true,
        age: Duration = .zero,
        attempts: Int = 20
    ) -> ThumbnailRecord {
        let noted = Timestamp(
            nanoseconds: Self.now.nanoseconds - age.components.seconds * 1_000_000_000
        )
        return ThumbnailRecord(
            token: token,
            source: source,
            isSent: isSent,
            noted: noted,
            attempts: attempts,
            sizes: Set(sizes)
        )
    }

    private func step(_ change: (inout ThumbnailFacts) -> Void) -> ThumbnailStep {
        .next(facts(change))
    }

    @Test func `content that is here is shown without asking the cloud`() {
        #expect(step { _ in } == .make)
        #expect(step { $0.isOnline = false } == .make)
        #expect(step { $0.version = nil } == .make)
        #expect(step { $0.canBeMade = false } == .fetch(isSmall: true))
        #expect(
            step {
                $0.canBeMade = false
                $0.isOnline = false
            } == .nothing
        )
    }

    @Test func `the cloud is asked again soon at first, then rarely`() {
        let waits = (1...12).map { ThumbnailStep.absence(after: $0).components.seconds }
        #expect(waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600])
        #expect(ThumbnailStep.absence(after: .max) == .seconds(3_600))
        #expect(ThumbnailStep.absence(after: 0) == .seconds(2))
    }

    @Test func `a placeholder's is fetched, and asked for again after an hour`() {
        func placeholder(_ record: ThumbnailRecord?, isOnline: Bool = true) -> ThumbnailStep {
            step {
                $0.isReadable = false
                $0.local = nil
                $0.record = record
                $0.isOnline = isOnline
            }
        }
        #expect(placeholder(nil) == .fetch(isSmall: true))
        #expect(placeholder(nil, isOnline: false) == .nothing)
        #expect(placeholder(record(.absent, [], age: .seconds(3_599))) == .nothing)
        #expect(placeholder(record(.absent, [], age: .seconds(3_600))) == .fetch(isSmall: true))
        // A clock that was set back must not keep it away for years.
        #expect(placeholder(record(.absent, [], age: .seconds(-9_999))) == .fetch(isSmall: true))
        #expect(placeholder(record(.cloud, ThumbnailSize.small)) == .nothing)
    }

    @Test func `what passes by is made, adopted and sent, and never asked for`() {
        func passing(_ change: (inout ThumbnailFacts) -> Void) -> ThumbnailStep {
            step {
                $0.isAsked = false
                change(&$0)
            }
        }
        #expect(passing { _ in } == .make)
        #expect(passing { $0.canBeMade = false } == .nothing)
        #expect(passing { $0.isReadable = false } == .nothing)
        #expect(passing { $0.record = record(.madeHere, isSent: false) } == .send)
        let local = record(.given, of: Self.local, isSent: false)
        #expect(passing { $0.record = local } == .adopt(ThumbnailToken(Self.version)))
    }

    @Test func `a photo that no device has shown is looked into, once`() {
        func photo(_ record: ThumbnailRecord?, isOnline: Bool = true) -> ThumbnailStep {
            step {
                $0.canPeek = true
                $0.isReadable = false
                $0.local = nil
                $0.record = record
                $0.isOnline = isOnline
            }
        }
        #expect(photo(nil) == .fetch(isSmall: true))
        #expect(photo(record(.absent, [])) == .peek)
        #expect(photo(record(.absent, []), isOnline: false) == .nothing)
        #expect(photo(record(.peeked, [.normal])) == .nothing)
        #expect(photo(record(.peeked, [], age: .seconds(3_600))) == .fetch(isSmall: true))
        #expect(step { $0.record = record(.peeked, [.normal]) } == .make)
    }

    @Test func `larger ones are fetched when somebody asks for them`() {
        let small = record(.cloud, ThumbnailSize.small)
        #expect(
            step {
                $0.record = small
                $0.wantsBig = true
            } == .fetch(isSmall: false)
        )
        #expect(
            step {
                $0.record = small
                $0.wantsBig = true
                $0.isOnline = false
            } == .nothing
        )
        #expect(
            step {
                $0.record = record(.cloud)
                $0.wantsBig = true
            } == .nothing
        )
    }

    @Test func `what is made is sent once the content is`() {
        let made = record(.madeHere, of: Self.local, isSent: false)
        #expect(
            step {
                $0.version = nil
                $0.record = made
            } == .nothing
        )
        #expect(step { $0.record = made } == .adopt(ThumbnailToken(Self.version)))
        let adopted = record(.madeHere, isSent: false)
        #expect(step { $0.record = adopted } == .send)
        #expect(
            step {
                $0.record = adopted
                $0.mayWrite = false
            } == .nothing
        )
        #expect(
            step {
                $0.record = adopted
                $0.isOnline = false
            } == .nothing
        )
        #expect(step { $0.record = record(.madeHere) } == .nothing)
    }

    @Test func `what a program gave gets the other sizes, and is sent`() {
        let given = record(.given, [.doubleExtraLarge], isSent: false)
        #expect(step { $0.record = given } == .derive)
        #expect(step { $0.record = record(.given, isSent: false) } == .send)
        #expect(step { $0.record = record(.given) } == .nothing)
    }

    @Test func `a failure lasts as long as the content, and no longer`() {
        #expect(step { $0.record = record(.failed, []) } == .nothing)
        let other = ThumbnailToken(rawValue: "v:v1")
        #expect(step { $0.record = record(.failed, [], of: other) } == .make)
        #expect(step { $0.record = record(.given, of: other) } == .make)
        #expect(
            step {
                $0.record = record(.cloud, of: other)
                $0.isReadable = false
            } == .fetch(isSmall: true)
        )
    }

    @Test func `what the cloud lacks is made when the content comes`() {
        #expect(step { $0.record = record(.absent, []) } == .make)
        #expect(
            step {
                $0.record = record(.absent, [])
                $0.canBeMade = false
            } == .nothing
        )
    }
}

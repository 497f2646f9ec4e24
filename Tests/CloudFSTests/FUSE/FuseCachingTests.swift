import CFuse
import Testing

@testable import CloudFS

/// How long the kernel is told to keep what it was told.
@Suite struct FuseCachingTests {
    /// The drive tells of every change, so that nothing has to be asked again.
    @Test func `what may be kept is kept for long, and nothing else for any time`() {
        let long = FuseReplies.cacheSeconds
        #expect(long >= 86_400)
        for (isItemKept, isNameKept) in [(true, true), (true, false), (false, true)] {
            let attributes = Attributes.sample(id: 12, isCacheable: isItemKept)
            let entry = FuseReplies.entry(Entry(attributes: attributes, isCacheable: isNameKept))
            #expect(entry.attr_timeout == (isItemKept ? long : 0))
            #expect(entry.entry_timeout == (isNameKept ? long : 0))
            // What the answer to a question for attributes has.
            #expect(FuseReplies.timeout(isItemKept) == (isItemKept ? long : 0))
        }
    }

    @Test func `that there is no such name is kept for as long`() {
        let absence = FuseReplies.cachedAbsence()
        #expect(absence.ino == 0 && absence.entry_timeout == FuseReplies.cacheSeconds)
    }
}

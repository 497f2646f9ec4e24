import Testing

@testable import CloudFS

/// Every combination of base, local and remote, held to the rules that no table may break.
@Suite struct ReconcilerTests {
    private static let versions: [ItemVersion?] = [
        nil, ItemVersion(content: "1", metadata: "a"), ItemVersion(content: "1", metadata: "b"),
        ItemVersion(content: "2", metadata: "a"),
    ]

    private static let locals: [Reconciler.Local?] =
        [nil]
        + (0..<32).map { bits in
            Reconciler.Local(
                isDirty: bits & 1 != 0,
                isInUse: bits & 2 != 0,
                isBeingWritten: bits & 18 == 18,
                hasChangedMetadata: bits & 4 != 0,
                isDeleted: bits & 8 != 0
            )
        }

    private struct Case {
        var base: ItemVersion?
        var local: Reconciler.Local?
        var remote: ItemVersion?
        var decision: Reconciler.Decision
    }

    private static let all: [Case] = versions.flatMap { base in
        locals.flatMap { local in
            versions.map { remote in
                Case(
                    base: base,
                    local: local,
                    remote: remote,
                    decision: Reconciler.decide(base: base, local: local, remote: remote)
                )
            }
        }
    }

    @Test func `bytes that exist only here are never dropped`() {
        let dropping: Set<Reconciler.Decision> = [
            .replaceContent, .remove, .removeAfterClose, .recordNewer,
        ]
        for each in Self.all where each.local?.isDirty == true && each.local?.isDeleted == false {
            #expect(!dropping.contains(each.decision), "\(each)")
        }
    }

    @Test func `a name is not taken from what a program may still write on`() {
        let unlinking: Set<Reconciler.Decision> = [.remove, .removeAfterClose]
        for each in Self.all where each.local?.isBeingWritten == true {
            #expect(!unlinking.contains(each.decision), "\(each)")
        }
    }

    @Test func `content that a program has open is never replaced`() {
        for each in Self.all where each.local?.isInUse == true {
            #expect(each.decision != .replaceContent && each.decision != .remove, "\(each)")
        }
    }

    @Test func `an edit beats a deletion, on either side`() {
        for each in Self.all {
            guard let base = each.base, let local = each.local else { continue }
            if local.isDeleted, let remote = each.remote, remote.content != base.content {
                #expect(each.decision == .restore, "\(each)")
            }
            if local.isDirty, !local.isDeleted, each.remote == nil {
                #expect(each.decision == .keepAsNew, "\(each)")
            }
        }
    }

    @Test func `nothing changes where nothing changed in the cloud`() {
        for each in Self.all where each.base != nil && each.base == each.remote {
            guard each.local != nil else { continue }
            #expect(each.decision == .nothing, "\(each)")
        }
    }

    @Test func `both sides' bytes are compared before anything is called a conflict`() {
        for each in Self.all {
            guard each.local?.isDirty == true, each.local?.isDeleted == false,
                let remote = each.remote, each.base.map({ $0.content != remote.content }) ?? true
            else { continue }
            #expect(each.decision == .compareOrKeepBoth, "\(each)")
        }
    }

    @Test func `an unknown item of the cloud is adopted`() {
        for remote in Self.versions {
            let decision = Reconciler.decide(base: nil, local: nil, remote: remote)
            #expect(decision == (remote == nil ? .nothing : .adopt))
        }
    }
}

import Testing

@testable import CloudFS

/// What is sent next, for every combination of facts that matters.
@Suite struct OutboxStepTests {
    private static let here = NamePlace(parent: .root, name: Array("a".utf8))
    private static let there = NamePlace(parent: .root, name: Array("b".utf8))

    private static func facts(
        _ kind: ItemKind = .file,
        at place: NamePlace?,
        base: NamePlace?,
        _ change: (inout OutboxStep.Facts) -> Void = { _ in }
    ) -> OutboxStep.Facts {
        var facts = OutboxStep.Facts(kind: kind)
        facts.place = place
        facts.base = base
        change(&facts)
        return facts
    }

    @Test(arguments: [
        (ItemKind.file, OutboxStep.upload), (.folder, .createFolder), (.symlink, .createSymlink),
        (.fifo, .done), (.socket, .done),
    ])
    func `a new item is made in the cloud as what it is`(kind: ItemKind, step: OutboxStep) {
        #expect(OutboxStep.next(Self.facts(kind, at: Self.here, base: nil)) == step)
    }

    @Test func `a deleted item is deleted there, or forgotten if the cloud never had it`() {
        #expect(OutboxStep.next(Self.facts(at: nil, base: Self.here)) == .delete)
        #expect(OutboxStep.next(Self.facts(at: nil, base: nil)) == .erase)
    }

    @Test func `what has no place that is known is left alone, whatever is to be sent`() {
        for place in [Self.here, Self.there, nil] {
            var facts = Self.facts(at: place, base: Self.here) {
                $0.isDirty = true
                $0.isDisplaced = true
            }
            #expect(OutboxStep.next(facts) == .waitForPlace)
            // Until it is heard of, listings say nothing of it: they would wait for each other.
            facts.isUnheard = true
            #expect(OutboxStep.next(facts) == .ask)
        }
    }

    @Test func `a folder goes after what the cloud still has in it`() {
        let facts = Self.facts(.folder, at: nil, base: Self.here) {
            $0.remainingChild = ItemID(7)
        }
        #expect(OutboxStep.next(facts) == .waitFor(ItemID(7)))
    }

    @Test func `content goes before a name, and a name before metadata`() {
        let all = Self.facts(at: Self.there, base: Self.here) {
            $0.isDirty = true
            $0.hasChangedMetadata = true
        }
        #expect(OutboxStep.next(all) == .upload)
        var occupied = all
        occupied.occupant = ItemID(9)
        #expect(OutboxStep.next(occupied) == .upload)
        var lost = all
        (lost.isResident, lost.isBaseLost) = (false, true)
        #expect(OutboxStep.next(lost) == .move)
        var placed = all
        placed.isDirty = false
        #expect(OutboxStep.next(placed) == .move)
        placed.base = Self.there
        #expect(OutboxStep.next(placed) == .updateMetadata)
        placed.hasChangedMetadata = false
        #expect(OutboxStep.next(placed) == .done)
    }

    @Test func `who has the wanted place goes first, unless both want each other's`() {
        var facts = Self.facts(at: Self.there, base: Self.here) { $0.occupant = ItemID(9) }
        #expect(OutboxStep.next(facts) == .waitFor(ItemID(9)))
        facts.isInCycle = true
        #expect(OutboxStep.next(facts) == .stepAside)
    }

    @Test func `folders above are made and moved first`() {
        let unmade = Self.facts(at: Self.here, base: nil) { $0.isParentInCloud = false }
        #expect(OutboxStep.next(unmade) == .waitFor(.root))
        let misplaced = Self.facts(at: Self.there, base: Self.here) {
            $0.misplacedFolder = ItemID(3)
        }
        #expect(OutboxStep.next(misplaced) == .waitFor(ItemID(3)))
    }

    @Test func `absent bytes are fetched before a file is sent, and never made up`() {
        let partial = Self.facts(at: Self.here, base: Self.here) {
            $0.isDirty = true
            $0.isResident = false
        }
        #expect(OutboxStep.next(partial) == .hydrate)
        var lost = partial
        lost.isBaseLost = true
        #expect(OutboxStep.next(lost) == .keepHere)
    }

    @Test func `a package's content is made before it is sent`() {
        for base in [nil, Self.here, Self.there] {
            var facts = Self.facts(at: Self.here, base: base) {
                $0.isTreeChanged = true
                $0.isResident = false
                $0.isBaseLost = true
            }
            #expect(OutboxStep.next(facts) == .pack)
            facts.place = nil
            #expect(OutboxStep.next(facts) == (base == nil ? .erase : .delete))
        }
    }

    @Test func `what was removed while it was excluded is left to the cloud`() {
        var facts = Self.facts(at: Self.here, base: Self.here) { $0.isExcluded = true }
        facts.place = nil
        #expect(OutboxStep.next(facts) == .forget)
        facts.remainingChild = ItemID(9)
        #expect(OutboxStep.next(facts) == .waitFor(ItemID(9)))
        facts.base = nil
        #expect(OutboxStep.next(facts) == .erase)
    }

    @Test func `ignored and excluded items stay here`() {
        #expect(
            OutboxStep.next(Self.facts(at: Self.here, base: nil) { $0.isIgnored = true }) == .hold
        )
        for base in [nil, Self.here] {
            let facts = Self.facts(at: Self.here, base: base) { $0.isExcluded = true }
            #expect(OutboxStep.next(facts) == .hold)
        }
    }
}

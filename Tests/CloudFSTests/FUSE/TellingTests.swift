import Glibc
import Testing

@testable import CloudFS

@Suite struct TellingTests {
    private let sizes = Untold<ItemID>()
    private let names = Untold<NamePlace>()
    private let file = ItemID(7)
    private let folder = ItemID(8)
    private let place = NamePlace(parent: ItemID(8), name: Array("name".utf8))

    private func change() {
        sizes.beginTelling()
        names.beginTelling()
        sizes.note([file])
        names.note([place])
    }

    /// The answer to a lookup, from before the change, may reach the kernel after it.
    @Test func `the size of a file that the kernel did not know when told stays untold`() {
        change()
        let told = Telling(sizes: sizes, names: names)
        told.note(.attributes(file), answeredWith: 0)
        told.note(.content(file), answeredWith: ENOENT)
        #expect(sizes.contains(file))
        told.note(.content(file), answeredWith: 0)
        #expect(!sizes.contains(file))
    }

    @Test func `a name is told whether the kernel knew it or not`() throws {
        for number in [0, ENOENT, EBUSY] {
            change()
            let told = Telling(sizes: sizes, names: names)
            told.note(.entry(parent: folder, name: try ItemName("other")), answeredWith: number)
            #expect(names.contains(place))
            told.note(.entry(parent: folder, name: try ItemName("name")), answeredWith: ENOMEM)
            #expect(names.contains(place))
            told.note(.entry(parent: folder, name: try ItemName("name")), answeredWith: number)
            #expect(!names.contains(place))
        }
    }

    @Test func `what changed after the telling began is untold`() throws {
        change()
        let told = Telling(sizes: sizes, names: names)
        change()
        told.note(.content(file), answeredWith: 0)
        told.note(.entry(parent: folder, name: try ItemName("name")), answeredWith: 0)
        #expect(sizes.contains(file) && names.contains(place))
    }
}

import Testing

@testable import CloudFS

struct LostFoldersTests {
    @Test func `a folder is lost from when it was first missed until it is found`() {
        let folders = LostFolders(limit: 2)
        #expect(folders.noteLost(ItemID(1), at: .seconds(5)) == .zero)
        #expect(folders.noteLost(ItemID(1), at: .seconds(8)) == .seconds(3))
        folders.noteFound(ItemID(1))
        #expect(folders.noteLost(ItemID(1), at: .seconds(9)) == .zero)
    }

    @Test func `of more than are remembered each is lost for long enough in the end`() {
        let folders = LostFolders(limit: 10)
        var waiting = Set((1...100).map { ItemID($0) })
        var now = Duration.zero
        while !waiting.isEmpty, now < .seconds(3_600) {
            for folder in waiting.sorted(by: { $0.rawValue < $1.rawValue })
            where folders.noteLost(folder, at: now) >= .seconds(2) {
                waiting.remove(folder)
            }
            now += .seconds(2)
        }
        #expect(waiting.isEmpty)
    }
}

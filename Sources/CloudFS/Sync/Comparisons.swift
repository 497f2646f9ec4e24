/// Which comparisons of everything are necessary and made, and what waits for one of them.
struct Comparisons: Sendable {
    /// How often something made one necessary.
    private(set) var needed: UInt64 = 1
    /// Up to which of them they are made.
    private(set) var made: UInt64 = 0
    /// Folders that lacked something before all was compared, and which comparison is to be made
    /// first.
    private var heldBack: [ItemID: UInt64] = [:]

    /// Whether nothing made another one necessary since the last.
    var areCurrent: Bool { made == needed }

    mutating func need() { needed += 1 }

    /// Whether what a folder lacks may not be taken for gone yet; the folder is remembered then.
    ///
    /// What makes another comparison necessary later changes nothing of that: they may follow each
    /// other without end.
    mutating func holdsBack(_ folder: ItemID) -> Bool {
        let awaited = heldBack[folder] ?? needed
        let isHeld = made < awaited
        heldBack[folder] = isHeld ? awaited : nil
        return isHeld
    }

    /// - Parameter needed: How many were necessary when it began.
    /// - Returns: The folders that need not be held back any more, to be listed again.
    mutating func noteMade(for needed: UInt64) -> [ItemID] {
        // Those that were told the last time were listed since.
        heldBack = heldBack.filter { $0.value > made }
        made = needed
        return heldBack.filter { $0.value <= made }.map(\.key).sorted { $0.rawValue < $1.rawValue }
    }
}

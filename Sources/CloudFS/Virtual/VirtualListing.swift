/// The links of one virtual folder, under names that tell them apart.
struct VirtualListing: Sendable {
    /// A link's name, and the item it leads to.
    struct Link: Sendable, Hashable {
        var name: [UInt8]
        var item: ItemID
    }

    /// By the numbers of their items, which is where a directory stream goes on.
    let entries: [Link]
    private let items: [[UInt8]: ItemID]

    /// Names links for what they lead to.
    ///
    /// Of items of one name the one that is here for longest keeps it; others get some digits of
    /// their document's identity, which stay the same whatever else comes and goes.
    init(_ members: [VirtualMember]) {
        let members = members.sorted { $0.item < $1.item }
        var items: [[UInt8]: ItemID] = [:]
        var names: [ItemID: [UInt8]] = [:]
        for member in members where items[member.name] == nil {
            items[member.name] = member.item
            names[member.item] = member.name
        }
        for member in members where names[member.item] == nil {
            let identity = member.document.description
            // The digits at the end: those of one folder of a bucket begin alike.
            let short = Self.marked(member.name, String(identity.suffix(8)))
            let name = items[short] == nil ? short : Self.marked(member.name, identity)
            guard items[name] == nil else { continue }
            items[name] = member.item
            names[member.item] = name
        }
        entries = members.compactMap { member in
            names[member.item].map { Link(name: $0, item: member.item) }
        }
        self.items = items
    }

    func item(named name: [UInt8]) -> ItemID? { items[name] }

    /// The first entries behind an item.
    func entries(after item: ItemID) -> ArraySlice<Link> {
        var (low, high) = (entries.startIndex, entries.endIndex)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].item <= item { low = middle + 1 } else { high = middle }
        }
        return entries[low...]
    }

    /// `name (mark).ext`, cut so that it is a name still.
    private static func marked(_ name: [UInt8], _ mark: String) -> [UInt8] {
        let dot = name.lastIndex(of: UInt8(ascii: ".")) ?? 0
        let hasSuffix = dot > 0 && name.count - dot <= 32
        let suffix = hasSuffix ? Array(name[dot...]) : []
        var stem = hasSuffix ? Array(name[..<dot]) : name
        let marking = Array(" (\(mark))".utf8)
        let room = ItemName.maximumByteCount - suffix.count - marking.count
        if stem.count > room {
            var end = room
            // Not within a character.
            while end > 0, stem[end] & 0xc0 == 0x80 { end -= 1 }
            stem.removeSubrange(end...)
        }
        return stem + marking + suffix
    }
}

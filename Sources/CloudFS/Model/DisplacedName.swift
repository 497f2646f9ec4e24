/// The names of items whose place in the cloud another item has got, until a listing tells where
/// they are now: `.cloudfs-displaced-ITEM-NUMBER-name`.
///
/// The cloud has nothing under such a name. The item's own number tells it from a name that a cloud
/// really has.
enum DisplacedName {
    /// The name under which `item` waits that was called `original`.
    ///
    /// `number` is more than 0 when the names before are taken.
    ///
    /// - Throws: Nothing for a sensible `number`.
    static func name(
        for original: ItemName,
        of item: ItemID,
        number: Int = 0
    ) throws(CloudFSError) -> ItemName {
        let kept = self.original(of: original.bytes, item) ?? original
        let prefix = prefix(of: item) + Array("\(number)-".utf8)
        let room = ItemName.maximumByteCount - prefix.count
        return try ItemName(prefix + ItemName.cut(kept.bytes[...], to: room))
    }

    /// What `item` was called before; `nil` if `name` is none that it waits under.
    ///
    /// Of a very long name the kept part.
    static func original(of name: [UInt8], _ item: ItemID) -> ItemName? {
        let prefix = prefix(of: item)
        guard name.starts(with: prefix) else { return nil }
        let parts = name[prefix.count...].split(
            separator: UInt8(ascii: "-"),
            maxSplits: 1,
            omittingEmptySubsequences: false
        )
        guard parts.count == 2, !parts[0].isEmpty,
            parts[0].allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        return try? ItemName(parts[1])
    }

    private static func prefix(of item: ItemID) -> [UInt8] {
        Array(".cloudfs-displaced-\(item)-".utf8)
    }
}

/// A name in a folder, whatever has it: on this machine, or in the cloud.
struct NamePlace: Hashable, Sendable {
    var parent: ItemID
    var name: [UInt8]
}

/// How much room applications' attributes have.
enum AttributeLimits {
    /// Longest value of one attribute, in bytes; the kernel's `XATTR_SIZE_MAX`.
    static let longestValue = 65_536
    /// Most bytes of all names and values of one item.
    static let mostBytes = 1 << 20
    /// Most bytes of all names, with a zero each; the kernel's `XATTR_LIST_MAX`: of more none
    /// could be listed.
    static let mostNameBytes = 65_536

    /// Whether an item may have these, as far as programs set them.
    static func allow(_ attributes: [String: [UInt8]]) -> Bool {
        allow(attributes, times: 1)
    }

    /// Whether these are taken from a cloud: it may have what two devices set, and merged.
    static func allowFromCloud(_ attributes: [String: [UInt8]]) -> Bool {
        allow(attributes, times: 2)
    }

    private static func allow(_ attributes: [String: [UInt8]], times factor: Int) -> Bool {
        let names = attributes.keys.reduce(0) { $0 + $1.utf8.count }
        let values = attributes.values.reduce(0) { $0 + $1.count }
        return names + attributes.count <= factor * mostNameBytes
            && names + values <= factor * mostBytes
            && attributes.values.allSatisfy { $0.count <= longestValue }
    }
}

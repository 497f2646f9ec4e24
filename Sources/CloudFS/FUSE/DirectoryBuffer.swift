import CFuse
import Glibc

/// One page of a folder's listing, packed as the kernel reads it.
struct DirectoryBuffer {
    private(set) var bytes: [UInt8] = []
    private let capacity: Int
    private let withAttributes: Bool

    /// - Parameters:
    ///   - capacity: How many bytes the kernel has room for.
    ///   - withAttributes: Whether this is for readdirplus, which counts as a lookup of each name.
    init(capacity: Int, withAttributes: Bool) {
        self.capacity = capacity
        self.withAttributes = withAttributes
        bytes.reserveCapacity(capacity)
    }

    /// Adds `entry` if there is room for it; otherwise the page is full and stays as it is.
    mutating func append(_ entry: DirectoryEntry) -> Bool {
        let packer = Packer(entry, withAttributes: withAttributes)
        let used = bytes.count
        let needed = packer.pack(into: nil, room: 0)
        guard needed <= capacity - used else { return false }
        bytes.append(contentsOf: repeatElement(0, count: needed))
        bytes.withUnsafeMutableBytes { space in
            _ = packer.pack(into: space.baseAddress.map { $0 + used }, room: needed)
        }
        return true
    }
}

/// One entry on its way into a page.
private struct Packer {
    private let name: [CChar]
    private let offset: off_t
    private let parameters: fuse_entry_param
    private let withAttributes: Bool

    init(_ entry: DirectoryEntry, withAttributes: Bool) {
        name = entry.name.map { CChar(bitPattern: $0) } + [0]
        offset = off_t(entry.offset)
        self.withAttributes = withAttributes
        var attributes = entry.attributes
        attributes.isCacheable = attributes.isCacheable && entry.isCacheable
        var parameters = FuseReplies.entry(
            Entry(attributes: attributes, isCacheable: entry.isCacheable)
        )
        // Number 0 says "no lookup happened": "." and ".." must not count as one.
        if entry.name == [0x2e] || entry.name == [0x2e, 0x2e] { parameters.ino = 0 }
        self.parameters = parameters
    }

    /// Writes the entry to `space` and tells how many bytes it takes; with no space only tells.
    ///
    /// libfuse's packers do not look at the request they want, so `nil` stands for it.
    func pack(into space: UnsafeMutableRawPointer?, room: Int) -> Int {
        let text = space?.assumingMemoryBound(to: CChar.self)
        if withAttributes {
            return withUnsafePointer(to: parameters) { parameters in
                fuse_add_direntry_plus(nil, text, room, name, parameters, offset)
            }
        }
        return withUnsafePointer(to: parameters.attr) { status in
            fuse_add_direntry(nil, text, room, name, status, offset)
        }
    }
}

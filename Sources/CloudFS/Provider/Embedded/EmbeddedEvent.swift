/// One event of inotify, taken out of the kernel's bytes.
struct EmbeddedEvent {
    var watch: Int32
    var mask: UInt32
    var cookie: UInt32
    /// The entry of the folder that it is about; `nil` when it is about the folder itself.
    var name: ItemName?

    func has(_ flag: UInt32) -> Bool { mask & flag != 0 }

    /// All events in a buffer: watch (4), mask (4), cookie (4), length (4), name padded by NULs.
    static func all(in bytes: ArraySlice<UInt8>) -> [EmbeddedEvent] {
        var events: [EmbeddedEvent] = []
        var start = bytes.startIndex
        while start + 16 <= bytes.endIndex {
            let word = { (index: Int) -> UInt32 in
                let at = start + index * 4
                return bytes[at..<(at + 4)].reversed().reduce(0) { $0 << 8 | UInt32($1) }
            }
            let end = start + 16 + Int(word(3))
            guard end <= bytes.endIndex else { break }
            let name = bytes[(start + 16)..<end].prefix { $0 != 0 }
            events.append(
                EmbeddedEvent(
                    watch: Int32(bitPattern: word(0)),
                    mask: word(1),
                    cookie: word(2),
                    name: try? ItemName(name)
                )
            )
            start = end
        }
        return events
    }
}

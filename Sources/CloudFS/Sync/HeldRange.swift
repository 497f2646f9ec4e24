import Synchronization

/// Bytes of a file that is not all here, on their way to a program: nobody drops them meanwhile.
///
/// To be made with the file's state locked, and to be kept until they are there.
final class HeldRange: Sendable {
    private let file: OpenFile
    private let number: UInt64

    init(_ range: Range<Int64>, of file: OpenFile) {
        self.file = file
        number = file.held.withLock { $0.hold(range) }
    }

    deinit { file.held.withLock { $0.end(number) } }
}

/// All that is held of one file.
struct HeldRanges: Sendable {
    private var held: [UInt64: Range<Int64>] = [:]
    private var last: UInt64 = 0

    var ranges: [Range<Int64>] { Array(held.values) }

    mutating func hold(_ range: Range<Int64>) -> UInt64 {
        last += 1
        held[last] = range
        return last
    }

    mutating func end(_ number: UInt64) { held[number] = nil }
}

/// What is known of a file: pieces of it, which were asked for one after the other.
///
/// Whoever looks for something in them begins anew each time that a piece was added, so a search
/// keeps no state.
struct KnownBytes: Sendable, Equatable {
    /// Why a search ends without a finding.
    enum Stop: Error, Equatable {
        /// These bytes have to be known first.
        case lacking(Range<Int64>)
        /// The file holds nothing of what is looked for, or is not what it says it is.
        case nothing
    }

    struct Piece: Sendable, Equatable {
        let start: Int64
        let bytes: [UInt8]

        var end: Int64 { start + Int64(bytes.count) }
    }

    /// Of the whole file, in bytes.
    let size: Int64
    private(set) var pieces: [Piece] = []

    init(size: Int64) {
        self.size = size
    }

    /// A whole file.
    init(_ bytes: [UInt8]) {
        self.init(size: Int64(bytes.count))
        add(bytes, at: 0)
    }

    mutating func add(_ bytes: [UInt8], at start: Int64) {
        pieces.append(Piece(start: start, bytes: bytes))
    }

    /// - Throws: `nothing` for what lies outside the file.
    func bytes(at start: Int64, count: Int64) throws(Stop) -> ArraySlice<UInt8> {
        let (end, isTooLarge) = start.addingReportingOverflow(count)
        guard start >= 0, count >= 0, !isTooLarge, end <= size else { throw .nothing }
        for piece in pieces where piece.start <= start && end <= piece.end {
            let first = Int(start - piece.start)
            return piece.bytes[first..<first + Int(count)]
        }
        throw .lacking(start..<end)
    }

    /// An unsigned number of at most 7 bytes; of none it is 0, of 8 it may be negative.
    func number(
        at start: Int64,
        bytes count: Int64,
        isBigEndian: Bool = true
    ) throws(Stop) -> Int64 {
        let bytes = try bytes(at: start, count: count)
        var value: Int64 = 0
        if isBigEndian {
            for byte in bytes { value = value << 8 | Int64(byte) }
        } else {
            for byte in bytes.reversed() { value = value << 8 | Int64(byte) }
        }
        return value
    }
}

import Glibc

/// Byte arrays by C's memory functions: unoptimised Swift takes 50 times as long per byte.
enum OperationBytes {
    static func zeros(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            if let base = buffer.baseAddress { memset(base, 0, count) }
            initialized = count
        }
    }

    static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        return left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                guard let first = left.baseAddress, let second = right.baseAddress else {
                    return true
                }
                return memcmp(first, second, left.count) == 0
            }
        }
    }

    /// Puts `bytes` at `start` of `target`, which grows by zeros as needed.
    static func put(_ bytes: [UInt8], in target: inout [UInt8], at start: Int) {
        grow(&target, to: start + bytes.count)
        target.withUnsafeMutableBytes { target in
            bytes.withUnsafeBytes { bytes in
                guard let to = target.baseAddress, let from = bytes.baseAddress else { return }
                memcpy(to + start, from, bytes.count)
            }
        }
    }

    static func grow(_ target: inout [UInt8], to count: Int) {
        guard count > target.count else { return }
        let old = target
        target = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            if let base = buffer.baseAddress {
                old.withUnsafeBytes {
                    if let from = $0.baseAddress { memcpy(base, from, $0.count) }
                }
                memset(base + old.count, 0, count - old.count)
            }
            initialized = count
        }
    }

    static func part(_ bytes: [UInt8], _ range: Range<Int>) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: range.count) { buffer, initialized in
            bytes.withUnsafeBytes {
                if let to = buffer.baseAddress, let from = $0.baseAddress {
                    memcpy(to, from + range.lowerBound, range.count)
                }
            }
            initialized = range.count
        }
    }
}

/// Bytes that are told by a seed and a count, so that a failing sequence prints on few lines.
public struct Fill: Sendable, Equatable, CustomStringConvertible {
    public var seed: UInt64
    public var count: Int

    public init(seed: UInt64, count: Int) {
        self.seed = seed
        self.count = count
    }

    public var bytes: [UInt8] {
        var random = SeededRandom(seed: seed)
        let words = (count + 7) / 8
        return [UInt8](unsafeUninitializedCapacity: words * 8) { buffer, initialized in
            let raw = UnsafeMutableRawBufferPointer(buffer)
            for word in 0..<words {
                raw.storeBytes(of: random.next(), toByteOffset: word * 8, as: UInt64.self)
            }
            initialized = count
        }
    }

    public var description: String { "\(count) bytes of \(seed)" }
}

/// One call of a program to the file system, or one deed of the engine that must not show.
public enum Operation: Sendable, Equatable {
    public enum Access: Sendable, Equatable, CaseIterable {
        case reading
        case writing
        case both
        case appending
    }

    case create(String, mode: UInt32)
    /// Opens for writing and writes at an offset.
    case write(String, offset: Int64, Fill)
    case append(String, Fill)
    /// Opens with `O_CREAT | O_TRUNC` and writes.
    case replace(String, Fill)
    case truncate(String, size: Int64)
    case read(String, offset: Int64, count: Int)
    case rename(String, String, RenameFlag)
    case remove(String)
    case makeFolder(String, mode: UInt32)
    case removeFolder(String)
    case makeSymlink(String, target: String)
    case readSymlink(String)
    case setMode(String, UInt32)
    case setTimes(String, nanoseconds: Int64)
    case setAttribute(String, name: String, Fill, AttributeFlag)
    case removeAttribute(String, name: String)
    case readAttribute(String, name: String)
    case list(String)
    case status(String)

    case open(Int, String, Access)
    case readHandle(Int, offset: Int64, count: Int)
    case writeHandle(Int, offset: Int64, Fill)
    case truncateHandle(Int, size: Int64)
    case synchronizeHandle(Int)
    case statusOfHandle(Int)
    case close(Int)

    /// Asks the engine to drop the local bytes; may be refused, must not show.
    case evict(String)
    /// Ends all handles and mounts again.
    case remount

    /// The items that are compared after the operation.
    public var touched: [String] {
        switch self {
        case .create(let path, _), .write(let path, _, _), .append(let path, _),
            .replace(let path, _), .truncate(let path, _), .read(let path, _, _),
            .remove(let path), .makeFolder(let path, _), .removeFolder(let path),
            .makeSymlink(let path, _), .readSymlink(let path), .setMode(let path, _),
            .setTimes(let path, _), .setAttribute(let path, _, _, _),
            .removeAttribute(let path, _), .readAttribute(let path, _), .list(let path),
            .status(let path), .open(_, let path, _), .evict(let path):
            [path]
        case .rename(let source, let destination, _): [source, destination]
        default: []
        }
    }
}

/// What an operation gave, from the model or from a system.
public enum Outcome: Sendable, CustomStringConvertible {
    /// Of an item, with what cannot be foretold left out.
    public struct Status: Sendable, Equatable {
        public var kind: FileStatus.Kind
        /// `nil` for folders, whose size is the system's own affair.
        public var size: Int64?
        public var mode: UInt32
        /// `nil` for folders.
        public var links: UInt64?
        /// Nanoseconds; `nil` when the system's clock said it.
        public var modified: Int64?
    }

    case done
    case failed(Int32)
    case count(Int)
    case bytes([UInt8])
    case names([String])
    case text(String)
    case status(Status)

    public var description: String {
        switch self {
        case .done: "done"
        case .failed(let code): "\(SystemError("failed", code)) (\(code))"
        case .count(let count): "\(count) bytes"
        case .bytes(let bytes): "\(bytes.count) bytes, beginning \(bytes.prefix(12))"
        case .names(let names): "\(names)"
        case .text(let text): "\"\(text)\""
        case .status(let status): "\(status)"
        }
    }
}

extension Outcome: Equatable {
    public static func == (left: Outcome, right: Outcome) -> Bool {
        switch (left, right) {
        case (.done, .done): true
        case (.failed(let left), .failed(let right)): left == right
        case (.count(let left), .count(let right)): left == right
        case (.bytes(let left), .bytes(let right)): OperationBytes.areEqual(left, right)
        case (.names(let left), .names(let right)): left == right
        case (.text(let left), .text(let right)): left == right
        case (.status(let left), .status(let right)): left == right
        default: false
        }
    }
}

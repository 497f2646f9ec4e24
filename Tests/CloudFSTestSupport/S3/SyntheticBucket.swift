public import CloudFS
import Glibc

/// Objects that a server makes up when it is asked for them: a million cost nothing.
///
/// Their keys are `prefix` + `folder-0000012/file-0000345.bin`, or without the folder if
/// `folderCount` is 0; all contain `SyntheticContent`.
public struct SyntheticBucket: Sendable {
    public var prefix: String
    public var folderCount: Int
    public var filesPerFolder: Int
    /// The size of every file.
    public var byteCount: Int64
    public var lastModified: Timestamp

    public init(
        prefix: String = "",
        folderCount: Int,
        filesPerFolder: Int,
        byteCount: Int64 = 4_096,
        lastModified: Timestamp = Timestamp(seconds: 1_700_000_000, nanoseconds: 0)
    ) {
        precondition((0..<10_000_000).contains(folderCount), "folders have seven digits")
        precondition((0..<10_000_000).contains(filesPerFolder), "files have seven digits")
        self.prefix = prefix
        self.folderCount = folderCount
        self.filesPerFolder = filesPerFolder
        self.byteCount = byteCount
        self.lastModified = lastModified
    }

    /// How many objects there are.
    public var count: Int { max(folderCount, 1) * filesPerFolder }

    /// The key at `index` in the order of a listing.
    public func key(at index: Int) -> FakeS3Key {
        FakeS3Key(text(at: index))
    }

    func text(at index: Int) -> String {
        var text = prefix
        if folderCount > 0 {
            text += "folder-"
            text += Self.digits(index / filesPerFolder)
            text += "/"
        }
        text += "file-"
        text += Self.digits(index % filesPerFolder)
        text += ".bin"
        return text
    }

    /// The index of the first key that is not less than `key`.
    func firstIndex(notBefore key: FakeS3Key) -> Int {
        var lower = 0
        var upper = count
        while lower < upper {
            let middle = (lower + upper) / 2
            if self.key(at: middle) < key {
                lower = middle + 1
            } else {
                upper = middle
            }
        }
        return lower
    }

    func contains(_ key: FakeS3Key) -> Bool {
        let index = firstIndex(notBefore: key)
        return index < count && self.key(at: index) == key
    }

    /// One for all objects, since all contain the same.
    var entityTag: String {
        let digits = String(byteCount, radix: 16)
        return String(repeating: "5", count: 32 - digits.count) + digits
    }

    private static func digits(_ number: Int) -> String {
        String(String(number + 10_000_000).dropFirst())
    }
}

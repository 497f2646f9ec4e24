public import CloudFS

/// An object as a test sees it.
public struct FakeS3Object: Sendable {
    public let bytes: [UInt8]
    /// Without quotes.
    public let entityTag: String
    public let lastModified: Timestamp
    /// The `x-amz-meta-` headers, without that prefix, in lower case.
    public let metadata: [String: String]
    public let contentType: String?

    init(_ stored: FakeS3StoredObject) {
        bytes = stored.content.allBytes
        entityTag = stored.entityTag
        lastModified = stored.lastModified
        metadata = stored.metadata
        contentType = stored.header("content-type")
    }
}

/// An object as the server keeps it.
struct FakeS3StoredObject: Sendable {
    var content: FakeS3Content
    var entityTag: String
    var lastModified: Timestamp
    /// `content-type` and its like, and `x-amz-meta-…`; names in lower case.
    var headers: [(name: String, value: String)]

    func header(_ name: String) -> String? {
        headers.first { $0.name == name }?.value
    }

    var metadata: [String: String] {
        let prefix = "x-amz-meta-"
        let pairs = headers.filter { $0.name.hasPrefix(prefix) }
            .map { (String($0.name.dropFirst(prefix.count)), $0.value) }
        return Dictionary(pairs, uniquingKeysWith: { first, _ in first })
    }
}

/// A multipart upload that is neither completed nor aborted.
struct FakeS3Upload: Sendable {
    struct Part: Sendable {
        let content: FakeS3Content
        let entityTag: String
        let lastModified: Timestamp
    }

    let key: FakeS3Key
    let headers: [(name: String, value: String)]
    let initiated: Timestamp
    var parts: [Int: Part] = [:]
}

/// The objects of a bucket: those that were stored, and those that are made up.
struct FakeS3Bucket: Sendable {
    /// Sorted.
    private var keys: [FakeS3Key] = []
    private var objects: [FakeS3Key: FakeS3StoredObject] = [:]
    private var synthetic: SyntheticBucket?
    /// Synthetic objects that were deleted.
    private var deleted: Set<FakeS3Key> = []
    var uploads: [String: FakeS3Upload] = [:]

    init(synthetic: SyntheticBucket? = nil) {
        self.synthetic = synthetic
    }

    var isEmpty: Bool {
        var cursor = Cursor(at: FakeS3Key([]), in: self)
        return next(&cursor) == nil
    }

    subscript(key: FakeS3Key) -> FakeS3StoredObject? {
        get {
            if let object = objects[key] { return object }
            guard let synthetic, !deleted.contains(key), synthetic.contains(key) else {
                return nil
            }
            return FakeS3StoredObject(
                content: .synthetic(byteCount: synthetic.byteCount),
                entityTag: synthetic.entityTag,
                lastModified: synthetic.lastModified,
                headers: [("content-type", "application/octet-stream")]
            )
        }
        set {
            let index = firstIndex(notBefore: key)
            let isStored = index < keys.count && keys[index] == key
            objects[key] = newValue
            if newValue == nil {
                if isStored { keys.remove(at: index) }
                if let synthetic, synthetic.contains(key) { deleted.insert(key) }
            } else if !isStored {
                keys.insert(key, at: index)
            }
        }
    }

    private func firstIndex(notBefore key: FakeS3Key) -> Int {
        var lower = 0
        var upper = keys.count
        while lower < upper {
            let middle = (lower + upper) / 2
            if keys[middle] < key {
                lower = middle + 1
            } else {
                upper = middle
            }
        }
        return lower
    }
}

// MARK: - In the order of the keys

extension FakeS3Bucket {
    /// A place between two keys.
    struct Cursor {
        fileprivate var stored: Int
        fileprivate var synthetic: Int
        /// The key at `synthetic`, so that it is not made for each comparison.
        fileprivate var syntheticKey: FakeS3Key?

        /// Before the first key that is not less than `key`.
        init(at key: FakeS3Key, in bucket: FakeS3Bucket) {
            stored = bucket.firstIndex(notBefore: key)
            synthetic = bucket.synthetic?.firstIndex(notBefore: key) ?? 0
        }
    }

    /// What a listing says of an object.
    struct Entry {
        let key: FakeS3Key
        let byteCount: Int64
        let entityTag: String
        let lastModified: Timestamp
    }

    /// The keys with this prefix, in their order.
    func keys(_ prefix: FakeS3Key) -> [FakeS3Key] {
        var keys: [FakeS3Key] = []
        var cursor = Cursor(at: prefix, in: self)
        while let entry = next(&cursor), entry.key.hasPrefix(prefix) { keys.append(entry.key) }
        return keys
    }

    /// The entry behind the cursor, which moves on.
    func next(_ cursor: inout Cursor) -> Entry? {
        while true {
            let made = syntheticKey(&cursor)
            let stored = cursor.stored < keys.count ? keys[cursor.stored] : nil
            if let stored, made.map({ stored <= $0 }) ?? true {
                cursor.stored += 1
                if made == stored { advanceSynthetic(&cursor) }
                guard let object = objects[stored] else { continue }
                return Entry(
                    key: stored,
                    byteCount: object.content.byteCount,
                    entityTag: object.entityTag,
                    lastModified: object.lastModified
                )
            }
            guard let made, let synthetic else { return nil }
            advanceSynthetic(&cursor)
            if !deleted.isEmpty, deleted.contains(made) { continue }
            return Entry(
                key: made,
                byteCount: synthetic.byteCount,
                entityTag: synthetic.entityTag,
                lastModified: synthetic.lastModified
            )
        }
    }

    private func syntheticKey(_ cursor: inout Cursor) -> FakeS3Key? {
        if let key = cursor.syntheticKey { return key }
        guard let synthetic, cursor.synthetic < synthetic.count else { return nil }
        let key = synthetic.key(at: cursor.synthetic)
        cursor.syntheticKey = key
        return key
    }

    private func advanceSynthetic(_ cursor: inout Cursor) {
        cursor.synthetic += 1
        cursor.syntheticKey = nil
    }
}

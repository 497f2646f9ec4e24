@testable import CloudFS

extension Attributes {
    /// Attributes of some file, for tests that look at a few of them.
    static func sample(
        id: Int64,
        kind: ItemKind = .file,
        size: Int64 = 0,
        isCacheable: Bool = true
    ) -> Attributes {
        Attributes(
            id: ItemID(id),
            kind: kind,
            permissions: 0o644,
            linkCount: 1,
            userID: 1000,
            groupID: 100,
            size: size,
            blocks: (size + 511) / 512,
            accessed: Timestamp(seconds: 1, nanoseconds: 5),
            modified: Timestamp(seconds: -1, nanoseconds: 7),
            changed: Timestamp(seconds: 3, nanoseconds: 999_999_999),
            isCacheable: isCacheable
        )
    }
}

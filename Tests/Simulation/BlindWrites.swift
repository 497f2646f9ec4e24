import CloudFSTestSupport

@testable import CloudFS

/// Which attributes were lost to requests that overwrite what was written on an object after their
/// device had looked at it: no condition of a server tells of that.
///
/// These are the windows that remain in buckets (docs/providers/s3.md): between a look and the
/// write that follows it at once, and before a late request arrives.
struct BlindWrites {
    /// What a device has seen of an object.
    struct Sight: Sendable, Equatable {
        /// `nil` if there was none.
        var entityTag: String?
        var metadata: [String: String] = [:]

        init(_ object: FakeS3Object?) {
            entityTag = object?.entityTag
            metadata = object?.metadata ?? [:]
        }

        /// The attributes that programs have written.
        var marks: Set<String> {
            Set(S3Metadata.attributes(metadata).keys.filter { $0.hasPrefix("user.mark") })
        }
    }

    /// What a device has seen, and when, by keys.
    typealias Memory = [FakeS3Key: (sight: Sight, moment: Timestamp)]

    /// How long before it is sent a request's device may have looked last.
    private static let patience = Duration.seconds(5)

    private var memories: [String: Memory] = [:]
    private(set) var marks: Set<String> = []

    func memory(of device: String) -> Memory { memories[device] ?? [:] }

    mutating func note(_ seen: Memory, by device: String) {
        memories[device, default: [:]].merge(seen) { $0.moment > $1.moment ? $0 : $1 }
    }

    /// Notes what a request did to an object.
    ///
    /// - Parameters:
    ///   - known: What its device had seen when it was sent, at `sent`.
    /// - Returns: Which attributes the object has not any more, without an excuse.
    mutating func compare(
        _ before: Sight,
        _ after: Sight,
        known: (sight: Sight, moment: Timestamp)?,
        sent: Timestamp
    ) -> Set<String> {
        let lost = before.marks.subtracting(after.marks)
        guard !lost.isEmpty, let known, known.sight != before,
            sent.since(known.moment) < Self.patience
        else { return lost }
        marks.formUnion(lost)
        return []
    }
}

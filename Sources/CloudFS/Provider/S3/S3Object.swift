/// An object as a listing has it.
struct S3Object: Sendable, Equatable {
    var key: [UInt8]
    var size: Int64
    /// As the server gives it, without the quotes.
    var entityTag: String
    /// Whole seconds.
    var lastModified: Timestamp
}

/// An object with its metadata, as HEAD and GET answer.
struct S3ObjectHead: Sendable, Equatable {
    /// Its `size` is that of the whole object, whatever part of it was asked for.
    var object: S3Object
    /// The `x-amz-meta-…` headers without that prefix: names in lower case.
    var userMetadata: [String: String]
    /// `content-type`, `cache-control` and the others that say what the bytes are: names in
    /// lower case.
    var contentHeaders: [String: String] = [:]
    /// `x-amz-version-id`, of a bucket with versions.
    var versionID: String?

    var contentType: String? { contentHeaders["content-type"] }

    /// The headers that belong to the object, and are lost unless they are sent with every copy.
    static let keptHeaders: Set<String> = [
        "cache-control", "content-disposition", "content-encoding", "content-language",
        "content-type", "expires",
    ]
}

/// One page of a listing; the listing is complete when `next` is `nil`.
struct S3ListPage: Sendable, Equatable {
    var objects: [S3Object]
    var prefixes: [[UInt8]]
    /// Entries, as they stand there, that are not encoded rightly: nobody knows their keys.
    var undecoded: [[UInt8]] = []
    var next: String?
}

/// What an upload made.
struct S3Written: Sendable, Equatable {
    /// Without the quotes; empty when the server did not tell.
    var entityTag: String
    /// The server's clock when it answered; whole seconds.
    var serverDate: Timestamp?
    var versionID: String?
}

/// What a server-side copy made.
struct S3Copied: Sendable, Equatable {
    var entityTag: String
    var lastModified: Timestamp?
}

/// A part of a multipart upload.
struct S3Part: Sendable, Equatable {
    var number: Int
    var size: Int64
    /// Without the quotes.
    var entityTag: String
}

/// A multipart upload that was begun and neither completed nor given up.
struct S3Upload: Sendable, Equatable {
    var key: [UInt8]
    var id: String
    var initiated: Timestamp
}

/// Why one key of a batch was not deleted.
struct S3DeleteError: Sendable, Equatable {
    var key: [UInt8]
    var failure: S3Failure
    var message: String
}

/// What an S3 server refused and why; the `cause` of the errors of `S3Client`.
///
/// For decisions that the code of a `CloudFSError` does not tell apart: a missing bucket from a
/// missing key, for one.
enum S3Failure: Error, Sendable, Equatable {
    case noSuchKey
    case noSuchBucket
    case noSuchUpload
    /// A part is missing or has another tag.
    case invalidPart
    case accessDenied
    case unknownAccessKey
    case signatureMismatch
    case expiredCredentials
    /// How much later than this machine's the server's clock is, if it told.
    case clockSkew(Duration?)
    /// The bucket is in another region.
    case wrongRegion(String?)
    /// The server sent us to another address, which is not followed.
    case redirected(String?)
    case conditionFailed
    /// Two conditional writes came at once.
    case conditionConflict
    case rangeNotSatisfiable
    case tooLarge
    case tooSmall
    case quotaExceeded
    case keyTooLong
    case metadataTooLarge
    case unsupported
    case invalidRequest(code: String)
    case throttled
    case serverFault(status: Int, code: String)
    /// The answer is not what was asked for: wrong length, wrong range, another object's tag.
    case wrongAnswer
    /// No answer, or none to its end.
    case noAnswer
    case other(status: Int, code: String)
}

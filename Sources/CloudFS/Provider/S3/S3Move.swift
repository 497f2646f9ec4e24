import Synchronization

/// A folder on its way.
final class S3Move: Sendable {
    let source: [UInt8]
    let target: [UInt8]
    /// Of its intent.
    let key: [UInt8]
    /// When all was begun to be copied, by the server's clock; `nil` where that is not known.
    let begun: Timestamp?
    /// Whether tags say what bytes are; where they do not, a copy has another one.
    private let tagsAreDigests: Bool
    private let told: Mutex<Duration>
    private let copied = Mutex<[Int: Copied]>([:])

    /// What was copied of one object, and what that made: digests of their tags.
    private struct Copied {
        var source: Int
        var copy: Int
    }

    /// What becomes of an object of the old folder.
    enum Step: Equatable {
        /// The new folder has it, or something newer in its place.
        case nothing
        case copy
        /// The new folder has something else in its place: both are kept.
        case copyBeside
        /// Both are markers, of which no tag tells what is written on them.
        case join
        /// Only what is written on both tells whether the new folder has it.
        case look
    }

    init(_ intent: S3MoveIntent, key: [UInt8], tagsAreDigests: Bool, at now: Duration) {
        source = intent.source
        target = intent.target
        begun = intent.begun
        self.key = key
        self.tagsAreDigests = tagsAreDigests
        told = Mutex(now)
    }

    func newKey(of object: S3Object) -> [UInt8] { target + object.key.dropFirst(source.count) }

    /// - Returns: Whether the intent is to be written again; then not again before `interval`.
    func mustBeTold(at now: Duration, each interval: Duration) -> Bool {
        told.withLock { told in
            guard now - told >= interval else { return false }
            told = now
            return true
        }
    }

    // MARK: - Copies

    /// Remembers which version of an object the new folder has got.
    ///
    /// By digests, as a folder may hold millions of objects: where two of them are one, the others
    /// do not fit, and the object counts as one that nothing is known of.
    func noteCopied(_ object: S3Object, tag: String) {
        let note = Copied(source: Self.digest(of: object), copy: tag.hashValue)
        copied.withLock { $0[object.key.hashValue] = note }
    }

    /// Markers differ by nothing but their times.
    private static func digest(of object: S3Object) -> Int {
        guard object.isMarker else { return object.entityTag.hashValue }
        var hasher = Hasher()
        hasher.combine(object.entityTag)
        hasher.combine(object.lastModified)
        return hasher.finalize()
    }

    /// Decides by what was copied, and after an interruption by the times that the server gives,
    /// unless it was sent in parts: that has the time when it was begun, and is seen much later.
    ///
    /// - Parameters:
    ///   - present: What the new folder has in the object's place.
    ///   - isCopied: Whether all was copied before, as it was then.
    func step(for object: S3Object, over present: S3Object?, isCopied: Bool) -> Step {
        let note = copied.withLock { $0[object.key.hashValue] }
        let isKnown = note?.source == Self.digest(of: object)
        // What the new folder got and lacks now, somebody has removed or renamed there.
        guard let present else { return isCopied && isKnown ? .nothing : .copy }
        if object.isMarker, present.isMarker { return isKnown ? .nothing : .join }
        // The tag of what was uploaded in parts changes by a copy, too.
        let tellsBytes = tagsAreDigests && !object.entityTag.contains("-")
        let isSame =
            present.size == object.size
            && (present.entityTag == object.entityTag || !tellsBytes)
        if let note, !isKnown, !isSame || !tellsBytes {
            // It was written once more since it was copied, whatever its time says.
            if note.copy == present.entityTag.hashValue { return .copy }
            return object.isMarker ? .nothing : .copyBeside
        }
        if note == nil, object.entityTag.contains("-") { return .look }
        if isSame, present.lastModified >= object.lastModified { return .nothing }
        if let note, note.copy == present.entityTag.hashValue { return .copy }
        // Not copied yet, it may be another document than what stands in its place.
        let isLate =
            note.map { _ in !isKnown }
            ?? (!isCopied || begun.map { object.lastModified >= $0 } ?? true)
        guard isLate else { return .nothing }
        if isSame { return .copy }
        // A folder's marker without bytes is nothing that could be kept beside another one.
        return object.isMarker ? .nothing : .copyBeside
    }
}

extension S3Object {
    /// Whether it is a folder's marker without bytes.
    fileprivate var isMarker: Bool { size == 0 && key.last == UInt8(ascii: "/") }
}

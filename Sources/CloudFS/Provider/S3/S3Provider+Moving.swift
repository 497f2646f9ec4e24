import Foundation

/// Folders have no place of their own in a bucket: moving one is copying all that is in it.
///
/// An intent in `.cloudfs/moves` says what is on its way, so that a move that was interrupted goes
/// on where it was, and so that nobody takes a half-made copy, or a half-deleted original, for a
/// folder of its own: until all is copied the copy is hidden, from then on the original.
extension S3Provider {
    var movesFolder: [UInt8] { keys.room + Array("moves/".utf8) }

    private func intentKey(_ source: [UInt8], _ target: [UInt8]) -> [UInt8] {
        let name = S3Metadata.documentID([:], key: source + [0] + target, container: identity)
        return movesFolder + Array("\(name)".utf8)
    }

    func isMoving(_ source: [UInt8], to target: [UInt8]) async throws(CloudFSError) -> Bool {
        try await exists(intentKey(source, target))
    }

    /// Copies all objects below one key to below another, then deletes the first.
    ///
    /// Nothing is deleted before everything was copied, and only what was copied.
    func moveFolder(_ source: [UInt8], to target: [UInt8]) async throws(CloudFSError) {
        let key = intentKey(source, target)
        if try await intent(at: key)?.isCopied != true {
            try await write(S3MoveIntent(source: source, target: target, isCopied: false), at: key)
            try await copyAll(source, target)
            try await write(S3MoveIntent(source: source, target: target, isCopied: true), at: key)
        }
        try await deleteCopied(source, target)
        forgetFolder(source)
        try await client.delete(key)
        setHidden(nil, by: key)
    }

    private func write(_ intent: S3MoveIntent, at key: [UInt8]) async throws(CloudFSError) {
        // Hidden before anybody could see it, and shown only when everybody can know.
        if !intent.isCopied { setHidden(intent.hidden, by: key) }
        _ = try await client.put(key, body: .bytes(intent.bytes))
        if intent.isCopied { setHidden(intent.hidden, by: key) }
        await journal.announce([.subtree(.root)])
    }

    /// Learns which moves are under way, on this device or another.
    func readIntents() async throws(CloudFSError) {
        var isCurrent = false
        while !isCurrent {
            let mark = hiddenChanges
            var keys: [[UInt8]] = []
            let oldest = (client.serverNow ?? client.clocks.now()) + .seconds(-86_400)
            try await client.listAll(prefix: movesFolder, delimiter: false) {
                page throws(CloudFSError) in
                // Nobody goes on with a move of yesterday: what there is of it is shown.
                keys += page.objects.filter { $0.lastModified > oldest }.map(\.key)
                return true
            }
            var hidden: [[UInt8]: [UInt8]] = [:]
            for key in keys {
                if let intent = try await intent(at: key) { hidden[key] = intent.hidden }
            }
            isCurrent = setHidden(hidden, unlessChangedSince: mark)
        }
    }

    private func intent(at key: [UInt8]) async throws(CloudFSError) -> S3MoveIntent? {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            let limit = Int64(S3MoveIntent.maximumByteCount)
            _ = try await client.get(key, range: 0..<limit, ifMatch: nil) { _, piece in
                bytes.append(piece)
            }
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            return nil
        }
        return S3MoveIntent(bytes.all, within: keys.prefix)
    }

    // MARK: - Copying

    private func copyAll(_ source: [UInt8], _ target: [UInt8]) async throws(CloudFSError) {
        try await client.listAll(prefix: source, delimiter: false) { page throws(CloudFSError) in
            try await self.copyPage(page.objects, source, target)
            return true
        }
    }

    private func copyPage(
        _ objects: [S3Object],
        _ source: [UInt8],
        _ target: [UInt8]
    ) async throws(CloudFSError) {
        let failure = await withTaskGroup(of: CloudFSError?.self) { group in
            var failure: CloudFSError?
            for (number, object) in objects.enumerated() {
                if number >= settings.parallelLooks, let ended = await group.next() {
                    failure = failure ?? ended
                }
                guard failure == nil else { break }
                group.addTask { await self.copyOne(object, source, target) }
            }
            return await group.reduce(into: failure) { $0 = $0 ?? $1 }
        }
        if let failure { throw failure }
    }

    private func copyOne(
        _ object: S3Object,
        _ source: [UInt8],
        _ target: [UInt8]
    ) async -> CloudFSError? {
        do throws(CloudFSError) {
            let key = target + object.key.dropFirst(source.count)
            guard key.count <= S3Keys.maximumByteCount else {
                throw CloudFSError(
                    .nameTooLong,
                    "an object in the folder would get a key of \(key.count) bytes"
                )
            }
            try await copyCurrent(object, to: key)
            return nil
        } catch {
            return error
        }
    }

    /// Copies what is at a key, also when somebody writes it at the same time.
    private func copyCurrent(_ object: S3Object, to key: [UInt8]) async throws(CloudFSError) {
        guard object.size <= Self.longestCopy else {
            // In parts: these need what is written on the object to be given again.
            if let head = try await headIfPresent(object.key) { try await copy(head, to: key) }
            return
        }
        var tag = object.entityTag
        for attempt in 1...3 {
            do throws(CloudFSError) {
                _ = try await client.copy(from: object.key, sourceIfMatch: tag, to: key)
                return
            } catch  where error.code == .remoteChanged && attempt < 3 {
                guard let head = try await headIfPresent(object.key) else { return }
                tag = head.object.entityTag
            } catch  where error.code == .notFound && Self.isAbsence(error) {
                // Deleted by somebody meanwhile: so it is not in the new folder either.
                return
            }
        }
    }

    // MARK: - Deleting

    /// Deletes the objects that are in the new place as they are in the old.
    private func deleteCopied(
        _ source: [UInt8],
        _ target: [UInt8]
    ) async throws(CloudFSError) {
        var last: [S3Object] = []
        while true {
            let page = try await client.list(prefix: source, delimiter: false)
            guard !page.objects.isEmpty || page.next != nil else { return }
            guard page.objects != last else {
                throw CloudFSError(.corrupt, "the server does not delete what it says it does")
            }
            last = page.objects
            // Written while the folder moved: it is copied too, and then nothing is left behind.
            let late = try await notCopied(page.objects, source, target)
            try await copyPage(late, source, target)
            for error in try await client.deleteBatch(page.objects.map(\.key)) {
                let isRefusal = error.failure == .accessDenied
                throw CloudFSError(
                    isRefusal ? .denied : .offline,
                    "an object of the moved folder was not deleted: \(error.message)"
                )
            }
        }
    }

    private func notCopied(
        _ objects: [S3Object],
        _ source: [UInt8],
        _ target: [UInt8]
    ) async throws(CloudFSError) -> [S3Object] {
        guard let first = objects.first, let last = objects.last else { return [] }
        let start = target + first.key.dropFirst(source.count)
        let end = target + last.key.dropFirst(source.count)
        var copies: [[UInt8]: S3Object] = [:]
        if let copy = try await headIfPresent(start)?.object { copies[start] = copy }
        try await client.listAll(prefix: target, delimiter: false, startAfter: start) {
            page throws(CloudFSError) in
            for object in page.objects { copies[object.key] = object }
            guard let reached = page.objects.last?.key else { return true }
            return reached.lexicographicallyPrecedes(end)
        }
        return objects.filter { object in
            guard let copy = copies[target + object.key.dropFirst(source.count)] else {
                return true
            }
            // The tag of what was uploaded in parts changes by a copy.
            let isSameTag = copy.entityTag == object.entityTag || object.entityTag.contains("-")
            return copy.size != object.size || !isSameTag
                || copy.lastModified < object.lastModified
        }
    }
}

/// What an object in `.cloudfs/moves` says: three lines.
struct S3MoveIntent: Sendable, Equatable {
    var source: [UInt8]
    var target: [UInt8]
    /// Whether everything is in the new place, and the old one is being deleted.
    var isCopied: Bool

    static let maximumByteCount = 8_192

    init(source: [UInt8], target: [UInt8], isCopied: Bool) {
        self.source = source
        self.target = target
        self.isCopied = isCopied
    }

    /// - Parameter prefix: Of the container; folders outside of it are none of its business.
    init?(_ bytes: [UInt8], within prefix: [UInt8]) {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard lines.count == 3, let source = URIEncoding.decode(lines[0].utf8),
            let target = URIEncoding.decode(lines[1].utf8),
            [source, target].allSatisfy({
                $0.starts(with: prefix) && $0.count > prefix.count && $0.last == UInt8(ascii: "/")
            })
        else { return nil }
        self.init(source: source, target: target, isCopied: lines[2] == "copied")
    }

    var bytes: [UInt8] {
        let lines = [source, target].map { URIEncoding.encode($0, keepingSlash: true) }
        return Array((lines + [isCopied ? "copied" : "copying", ""]).joined(separator: "\n").utf8)
    }

    /// The folder that is not shown.
    var hidden: [UInt8] { isCopied ? source : target }
}

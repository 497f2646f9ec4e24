import Foundation

/// Folders have no place of their own in a bucket: moving one is copying all that is in it.
///
/// An intent in `.cloudfs/moves` says what is on its way, so that a move that was interrupted goes
/// on where it was, and so that nobody takes the half-made copy for a folder of its own.
extension S3Provider {
    private func intentKey(_ source: [UInt8], _ target: [UInt8]) -> [UInt8] {
        let name = S3Metadata.documentID([:], key: source + [0] + target, container: identity)
        return keys.room + Array("moves/\(name)".utf8)
    }

    func isMoving(_ source: [UInt8], to target: [UInt8]) async throws(CloudFSError) -> Bool {
        try await exists(intentKey(source, target))
    }

    /// Copies all objects below one key to below another, then deletes the first.
    ///
    /// Nothing is deleted before everything was copied, and only what was copied.
    func moveFolder(_ source: [UInt8], to target: [UInt8]) async throws(CloudFSError) {
        let intent = intentKey(source, target)
        setUnfinished(intent, target)
        _ = try await client.put(
            intent,
            body: .bytes(
                Array(
                    (URIEncoding.encode(source, keepingSlash: true) + "\n"
                        + URIEncoding.encode(target, keepingSlash: true) + "\n").utf8
                )
            )
        )
        var token: String?
        var check = S3ListingCheck()
        repeat {
            let page = try await client.list(prefix: source, delimiter: false, after: token)
            try check.note(page)
            try await copyPage(page.objects, source, target)
            token = page.next
        } while token != nil
        try await deleteCopied(source, target)
        forgetFolder(source)
        try await client.delete(intent)
        setUnfinished(intent, nil)
    }

    /// Learns which moves are under way, on this device or another.
    func readIntents() async throws(CloudFSError) {
        let folder = keys.room + Array("moves/".utf8)
        var moves: [[UInt8]: [UInt8]] = [:]
        var intents: [[UInt8]] = []
        try await client.listAll(prefix: folder, delimiter: false) { page throws(CloudFSError) in
            intents += page.objects.map(\.key)
            return true
        }
        for intent in intents {
            if let target = try await target(of: intent) { moves[intent] = target }
        }
        setUnfinished(moves)
    }

    private func target(of intent: [UInt8]) async throws(CloudFSError) -> [UInt8]? {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            _ = try await client.get(intent, range: nil, ifMatch: nil) { _, piece in
                if bytes.all.count < 8_192 { bytes.append(piece) }
            }
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            return nil
        }
        let lines = String(decoding: bytes.all, as: UTF8.self).split(separator: "\n")
        guard lines.count == 2, let target = URIEncoding.decode(lines[1].utf8),
            target.starts(with: keys.prefix), target.last == UInt8(ascii: "/")
        else { return nil }
        return target
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
            try await copy(
                object.key,
                object.size,
                tag: object.entityTag,
                to: key,
                metadata: nil
            )
            return nil
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            // Deleted by somebody meanwhile: so it is not in the new folder either.
            return nil
        } catch {
            return error
        }
    }

    /// Deletes the objects that are in the new place as they were in the old.
    private func deleteCopied(
        _ source: [UInt8],
        _ target: [UInt8]
    ) async throws(CloudFSError) {
        while true {
            let page = try await client.list(prefix: source, delimiter: false)
            guard !page.objects.isEmpty else { return }
            // Written while the folder moved: it is copied too, and then nothing is left behind.
            try await copyPage(
                try await notCopied(page.objects, source, target),
                source,
                target
            )
            let errors = try await client.deleteBatch(page.objects.map(\.key))
            if let error = errors.first {
                throw CloudFSError(
                    .denied,
                    "an object of the moved folder cannot be deleted: \(error.message)"
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
        if let copy = try await objectIfPresent(start) { copies[start] = copy }
        try await client.listAll(prefix: target, delimiter: false, startAfter: start) {
            page throws(CloudFSError) in
            for object in page.objects { copies[object.key] = object }
            guard let reached = page.objects.last?.key else { return true }
            return reached.lexicographicallyPrecedes(end)
        }
        return objects.filter { object in
            let copy = copies[target + object.key.dropFirst(source.count)]
            return copy?.size != object.size
                || (copy?.lastModified ?? object.lastModified) < object.lastModified
        }
    }

    private func objectIfPresent(_ key: [UInt8]) async throws(CloudFSError) -> S3Object? {
        do throws(CloudFSError) {
            return try await client.head(key).object
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            return nil
        }
    }
}

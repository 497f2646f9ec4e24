/// Folders have no place of their own in a bucket: moving one is copying all that is in it.
///
/// An intent in `.cloudfs/moves` says what is on its way, so that a move that was interrupted goes
/// on where it was, and so that nobody takes a half-made copy, or a half-deleted original, for a
/// folder of its own: until all is copied the copy is hidden, from then on the original.
extension S3Provider {
    var movesFolder: [UInt8] { keys.room + Array("moves/".utf8) }

    private func intentKey(_ source: [UInt8], _ target: [UInt8]) -> [UInt8] {
        let name = S3Metadata.digest(of: source + [0] + target, in: identity)
        return movesFolder + Array("\(name)".utf8)
    }

    func isMoving(_ source: [UInt8], to target: [UInt8]) async throws(CloudFSError) -> Bool {
        try await exists(intentKey(source, target))
    }

    /// Copies all objects below one key to below another, then deletes the first.
    ///
    /// Nothing is deleted before everything was copied, and only what was copied.
    ///
    /// - Parameter hints: Where one of both folders appears or disappears.
    func moveFolder(
        _ source: [UInt8],
        to target: [UInt8],
        telling hints: [ChangeHint]
    ) async throws(CloudFSError) {
        let key = intentKey(source, target)
        let known = try await intent(at: key)?.isCopied
        var intent = S3MoveIntent(source: source, target: target, device: deviceID)
        let move = S3Move(source: source, target: target, key: key, at: client.clocks.elapsed())
        if known != true {
            try await write(intent, at: key, telling: hints)
            try await copyAll(move)
        }
        intent.isCopied = true
        try await write(intent, at: key, telling: hints)
        try await deleteCopied(move)
        forgetFolder(source)
        try await client.delete(key)
        setHidden(nil, by: key)
    }

    private func write(
        _ intent: S3MoveIntent,
        at key: [UInt8],
        telling hints: [ChangeHint]
    ) async throws(CloudFSError) {
        // Hidden before anybody could see it, and shown only when everybody can know.
        if !intent.isCopied { setHidden(intent.hidden, by: key) }
        _ = try await client.put(key, body: .bytes(intent.bytes))
        if intent.isCopied { setHidden(intent.hidden, by: key) }
        await journal.announce(hints)
    }

    /// Says now and then that the move goes on: of one that nobody speaks of, both folders are
    /// shown to others.
    private func keepTold(_ move: S3Move, isCopied: Bool) async throws(CloudFSError) {
        guard move.mustBeTold(at: client.clocks.elapsed(), each: settings.moveToldEvery) else {
            return
        }
        var intent = S3MoveIntent(source: move.source, target: move.target, device: deviceID)
        intent.isCopied = isCopied
        _ = try await client.put(move.key, body: .bytes(intent.bytes))
    }

    /// Learns which moves are under way, on this device or another.
    func readIntents() async throws(CloudFSError) {
        var isCurrent = false
        while !isCurrent {
            let mark = hiddenChanges
            var found: [S3Object] = []
            let now = client.serverNow ?? client.clocks.now()
            try await client.listAll(prefix: movesFolder, delimiter: false) {
                page throws(CloudFSError) in
                // Nobody goes on with a move of yesterday: what there is of it is shown.
                found += page.objects.filter { now.since($0.lastModified) < .seconds(86_400) }
                return true
            }
            var hidden: [[UInt8]: [UInt8]] = [:]
            for object in found {
                guard let intent = try await intent(at: object.key) else { continue }
                // This device goes on by itself; another one may be gone for good.
                let isOwn = intent.device == deviceID
                if isOwn || now.since(object.lastModified) < settings.moveAge {
                    hidden[object.key] = intent.hidden
                }
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

    private func copyAll(_ move: S3Move) async throws(CloudFSError) {
        try await client.listAll(prefix: move.source, delimiter: false) {
            page throws(CloudFSError) in
            try await self.copyPage(page.objects, move, isCopied: false)
            return true
        }
    }

    private func copyPage(
        _ objects: [S3Object],
        _ move: S3Move,
        isCopied: Bool
    ) async throws(CloudFSError) {
        let failure = await withTaskGroup(of: CloudFSError?.self) { group in
            var failure: CloudFSError?
            for (number, object) in objects.enumerated() {
                if number >= settings.parallelLooks, let ended = await group.next() {
                    failure = failure ?? ended
                }
                guard failure == nil else { break }
                failure = await self.failureToTell(move, isCopied: isCopied)
                guard failure == nil else { break }
                group.addTask { await self.copyOne(object, move) }
            }
            return await group.reduce(into: failure) { $0 = $0 ?? $1 }
        }
        if let failure { throw failure }
    }

    private func failureToTell(_ move: S3Move, isCopied: Bool) async -> CloudFSError? {
        do throws(CloudFSError) {
            try await keepTold(move, isCopied: isCopied)
            return nil
        } catch {
            return error
        }
    }

    private func copyOne(_ object: S3Object, _ move: S3Move) async -> CloudFSError? {
        do throws(CloudFSError) {
            let key = move.newKey(of: object)
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
    private func deleteCopied(_ move: S3Move) async throws(CloudFSError) {
        var last: [S3Object] = []
        while true {
            try await keepTold(move, isCopied: true)
            let page = try await client.list(prefix: move.source, delimiter: false)
            guard !page.objects.isEmpty || page.next != nil else { return }
            guard page.objects != last else {
                throw CloudFSError(.corrupt, "the server does not delete what it says it does")
            }
            last = page.objects
            // Written while the folder moved: it is copied too, and then nothing is left behind.
            let late = try await notCopied(page.objects, move)
            try await copyPage(late, move, isCopied: true)
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
        _ move: S3Move
    ) async throws(CloudFSError) -> [S3Object] {
        guard let first = objects.first, let last = objects.last else { return [] }
        let (start, end) = (move.newKey(of: first), move.newKey(of: last))
        var copies: [[UInt8]: S3Object] = [:]
        if let copy = try await headIfPresent(start)?.object { copies[start] = copy }
        try await client.listAll(prefix: move.target, delimiter: false, startAfter: start) {
            page throws(CloudFSError) in
            for object in page.objects { copies[object.key] = object }
            guard let reached = page.objects.last?.key else { return true }
            return reached.lexicographicallyPrecedes(end)
        }
        return objects.filter { object in
            guard let copy = copies[move.newKey(of: object)] else { return true }
            // The tag of what was uploaded in parts changes by a copy.
            let isSameTag = copy.entityTag == object.entityTag || object.entityTag.contains("-")
            return copy.size != object.size || !isSameTag
                || copy.lastModified < object.lastModified
        }
    }
}

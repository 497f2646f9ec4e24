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
        let key = intentKey(source, target)
        return hasEnded(key) ? false : try await exists(key)
    }

    /// Notes that a move has ended, if it was begun here and its last answer was lost.
    func noteEnded(_ source: [UInt8], _ target: [UInt8], telling hints: [ChangeHint]) {
        let key = intentKey(source, target)
        if case .isUnderWay = ownMove(key) { noteMove(key, .hasEnded(hints)) }
    }

    /// Whether what is told of a move is a request's doing that arrived after the move's end.
    private func hasEnded(_ intent: [UInt8]) -> Bool {
        if case .hasEnded = ownMove(intent) { true } else { false }
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
        let present = hasEnded(key) ? nil : try await intent(at: key)
        noteMove(key, .isUnderWay)
        var intent = present ?? S3MoveIntent(source: source, target: target)
        intent.device = deviceID
        if !intent.isCopied {
            try await write(intent, at: key, telling: hints)
            // By the clock that the times of all objects are from.
            intent.begun = try await client.head(key).object.lastModified
        }
        let move = S3Move(
            intent,
            key: key,
            tagsAreDigests: rules.tagsAreDigests,
            at: client.clocks.elapsed()
        )
        if !intent.isCopied { try await copyAll(move) }
        intent.isCopied = true
        try await write(intent, at: key, telling: hints)
        noteEmptying(intent, by: key)
        defer { noteEmptying(nil, by: key) }
        try await deleteCopied(move)
        forgetFolder(source)
        try await client.delete(key, isOwn: true)
        noteMove(key, .hasEnded(hints))
        setHidden(nil, by: key)
    }

    private func write(
        _ intent: S3MoveIntent,
        at key: [UInt8],
        telling hints: [ChangeHint]
    ) async throws(CloudFSError) {
        // Hidden before anybody could see it, and shown only when everybody can know.
        if !intent.isCopied { setHidden(intent.hidden, by: key) }
        _ = try await client.put(key, body: .bytes(intent.bytes), isOwn: true)
        if intent.isCopied { setHidden(intent.hidden, by: key) }
        await journal.announce(hints)
    }

    /// Says now and then that the move goes on: of one that nobody speaks of, both folders are
    /// shown to others.
    func keepTold(_ move: S3Move, isCopied: Bool) async throws(CloudFSError) {
        guard move.mustBeTold(at: client.clocks.elapsed(), each: settings.moveToldEvery) else {
            return
        }
        let intent = S3MoveIntent(
            source: move.source,
            target: move.target,
            isCopied: isCopied,
            device: deviceID,
            begun: move.begun
        )
        _ = try await client.put(move.key, body: .bytes(intent.bytes), isOwn: true)
    }

    /// Learns which moves are under way, on this device or another.
    func readIntents() async throws(CloudFSError) {
        var isCurrent = false
        while !isCurrent {
            let mark = hiddenChanges
            let now = client.serverNow ?? client.clocks.now()
            var hidden: [[UInt8]: [UInt8]] = [:]
            for object in try await listIntents(at: now) {
                guard let intent = try await intent(at: object.key) else { continue }
                let age = now.since(object.lastModified)
                switch intent.device == deviceID ? ownMove(object.key) : nil {
                case .hasEnded(let hints): await removeLate(object, telling: hints)
                // This device goes on by itself, also with what it began before it was started;
                // another one may be gone for good.
                case nil
                where age >= settings.moveAge
                    && (intent.device != deviceID || !mayGoOn):
                    break
                case .isUnderWay, nil: hidden[object.key] = intent.hidden
                }
            }
            isCurrent = setHidden(hidden, unlessChangedSince: mark)
        }
    }

    /// Of more moves than this, those are looked at that this device is at, and that were spoken of
    /// last: of the others it is least likely that they go on.
    private static let mostIntents = 1_000
    /// Of more objects than this the listing counts as one without an end.
    ///
    /// That is an error: who does not know what is on its way would show folders twice.
    private static let mostListedIntents = 100_000

    /// What tells of moves that may be under way.
    private func listIntents(at now: Timestamp) async throws(CloudFSError) -> [S3Object] {
        var found: [S3Object] = []
        var count = 0
        try await client.listAll(prefix: movesFolder, delimiter: false) {
            page throws(CloudFSError) in
            count += page.objects.count
            guard count <= Self.mostListedIntents else {
                throw CloudFSError(
                    .corrupt,
                    "the bucket's folder .cloudfs/moves has over \(Self.mostListedIntents) objects;"
                        + " delete those of moves that have ended"
                )
            }
            // Nobody goes on with a move of yesterday: what there is of it is shown. What is empty
            // tells of none: other tools make such a thing for the folder.
            found += page.objects.filter {
                $0.size > 0 && now.since($0.lastModified) < .seconds(86_400)
            }
            if found.count > Self.mostIntents { found = likeliest(found) }
            return true
        }
        if found.count == Self.mostIntents {
            logger.notice("not all moves that are under way elsewhere may be known")
        }
        return found
    }

    private func likeliest(_ intents: [S3Object]) -> [S3Object] {
        let sorted = intents.sorted { $0.lastModified > $1.lastModified }
        let own = sorted.filter { ownMove($0.key) != nil }
        let others = sorted.filter { ownMove($0.key) == nil }
        return Array((own + others).prefix(Self.mostIntents))
    }

    /// Whether this device may go on with what it moved before it was started.
    private var mayGoOn: Bool { client.clocks.elapsed() - begun < settings.moveAge }

    /// Removes the intent of a move that has ended: a request to write it arrived after that.
    private func removeLate(_ intent: S3Object, telling hints: [ChangeHint]) async {
        do throws(CloudFSError) {
            try await delete(intent)
            logger.debug("the intent of a move that has ended was removed")
            await journal.announce(hints)
        } catch {
            // Or the same folder is moved to the same place again.
            logger.notice(
                "the intent of a move that has ended stays",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private func intent(at key: [UInt8]) async throws(CloudFSError) -> S3MoveIntent? {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            let limit = Int64(S3MoveIntent.maximumByteCount)
            _ = try await client.get(key, range: 0..<limit, ifMatch: nil) { _, piece in
                bytes.append(piece)
            }
        } catch  where error.code == .notFound || error.code == .remoteChanged {
            // It has ended, or is no text that tells of one.
            return nil
        }
        return S3MoveIntent(bytes.all, within: keys.prefix)
    }
}

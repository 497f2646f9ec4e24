import Synchronization

/// What a `ThumbnailStep` is when it is taken.
extension Thumbnails {
    func take(
        _ step: ThumbnailStep,
        _ id: ItemID,
        _ facts: ThumbnailFacts
    ) async throws(CloudFSError) {
        switch step {
        case .nothing: return
        case .adopt(let token):
            try await drive.pool.engine { try self.store.retoken(id, to: token) }
        case .make: try await make(id, facts)
        case .derive: try await derive(id, facts)
        case .fetch(let isSmall): try await fetch(id, facts, isSmall: isSmall)
        case .peek: try await peek(id, facts)
        case .send: try await send(id, facts)
        }
    }

    private func make(_ id: ItemID, _ facts: ThumbnailFacts) async throws(CloudFSError) {
        guard let token = facts.tokens.first else { return }
        let (path, name) = try await drive.pool.engine {
            try self.drive.catalog.read { reader in
                let item = try reader.existing(id).item
                return (
                    self.drive.content.path(id, item.content.generation),
                    try reader.name(of: id)?.name ?? []
                )
            }
        }
        let ending = String(
            decoding: name.split(separator: UInt8(ascii: ".")).last ?? [],
            as: UTF8.self
        )
        var outcome = ThumbnailMaker.Outcome.unreadable
        for way in ways(for: name) {
            outcome = try await workshop.engine {
                self.maker.make(of: path, ending: ending, by: way)
            }
            guard case .unreadable = outcome else { break }
        }
        // Whoever changed or dropped the content meanwhile has made this worthless.
        let isSame = try await drive.pool.engine {
            let now = try self.facts(of: id, isAsked: true, wantsBig: false)
            return now?.tokens.contains(token) == true && now?.isReadable == true
        }
        guard isSame else { throw CloudFSError(.remoteChanged, "the content changed", item: id) }
        try await keep(outcome, of: id, token, .madeHere)
    }

    private func derive(_ id: ItemID, _ facts: ThumbnailFacts) async throws(CloudFSError) {
        guard let token = facts.record?.token else { return }
        let path = "\(staging)/thumbnail.\(id)"
        let outcome = try await workshop.engine { () throws -> ThumbnailMaker.Outcome in
            let images = try self.store.images(of: id, showing: token)
            guard let image = images[.doubleExtraLarge] else {
                throw CloudFSError(.remoteChanged, "another thumbnail was set", item: id)
            }
            return try StagedFile.with(image.bytes, at: path) {
                self.maker.make(of: path, ending: image.format.rawValue, by: .vips)
            }
        }
        if case .unreadable = outcome {
            drive.logger.notice(
                "what a program set as a thumbnail is no picture",
                metadata: ["item.id": "\(id)"]
            )
            return try await drive.pool.engine { try self.store.remove(id, token) }
        }
        try await keep(outcome, of: id, token, .given)
    }

    private func keep(
        _ outcome: ThumbnailMaker.Outcome,
        of id: ItemID,
        _ token: ThumbnailToken,
        _ source: ThumbnailRecord.Source
    ) async throws(CloudFSError) {
        switch outcome {
        case .images(let images):
            try await drive.pool.engine {
                try self.store.put(images, of: id, self.record(source, token))
            }
            drive.changed(id)
        case .unreadable:
            try await drive.pool.engine {
                try self.store.put([:], of: id, self.record(.failed, token))
            }
        case .unavailable(let reason):
            let now = drive.clocks.now()
            state.withLock { $0.unavailableUntil = now + .seconds(600) }
            drive.logger.warning(
                "no thumbnails can be made; bubblewrap makes it possible nearly everywhere",
                metadata: ["reason": "\(reason)"]
            )
            throw CloudFSError(.unsupported, "no thumbnails can be made", item: id)
        }
    }

    func record(
        _ source: ThumbnailRecord.Source,
        _ token: ThumbnailToken
    ) -> ThumbnailRecord {
        ThumbnailRecord(
            token: token,
            source: source,
            isSent: source != .madeHere && source != .given,
            noted: drive.clocks.now(),
            sizes: []
        )
    }

    private func fetch(
        _ id: ItemID,
        _ facts: ThumbnailFacts,
        isSmall: Bool
    ) async throws(CloudFSError) {
        guard let version = facts.version, let sidecars = drive.provider.sidecars else { return }
        let bytes = try await sidecars.read(
            ThumbnailSidecar.name(of: version, isSmall: isSmall),
            atMost: ThumbnailSidecar.mostBytes
        )
        let images = bytes.flatMap(ThumbnailSidecar.images)
        let isKnown = facts.record?.token == ThumbnailToken(version)
        let attempts = 1 + (isKnown ? facts.record?.attempts ?? 0 : 0)
        try await drive.pool.engine {
            // Without the big ones the small ones do: they count as fetched, and are asked for
            // again when somebody looks.
            guard images != nil || isSmall else { return }
            let isPeeked = isKnown && facts.record?.source == .peeked
            let lack = isPeeked ? ThumbnailRecord.Source.peeked : .absent
            var record = self.record(images == nil ? lack : .cloud, ThumbnailToken(version))
            record.attempts = images == nil ? attempts : 0
            try self.store.put(images ?? [:], of: id, record)
        }
        if images != nil { return drive.changed(id) }
        guard isSmall else {
            throw CloudFSError(.noData, "the cloud has no larger thumbnail", item: id)
        }
        if attempts <= Self.mostAttempts { askLater(id, after: attempts) }
    }

    /// Fetches no more than the beginning, into no content file: the item stays a placeholder.
    private func peek(_ id: ItemID, _ facts: ThumbnailFacts) async throws(CloudFSError) {
        guard let version = facts.version, let record = facts.record else { return }
        let (size, path) = try await drive.pool.engine {
            try self.drive.catalog.read { reader in
                (try reader.existing(id).item.size, try reader.remotePath(of: id))
            }
        }
        guard let path, size > 0 else { return }
        let beginning = Mutex<[UInt8]>([])
        let range = 0..<min(size, Self.peekedBytes)
        _ = try await drive.provider.fetch(path, range: range, version: version) { _, bytes in
            beginning.withLock { $0 += bytes }
        }
        let staged = "\(staging)/thumbnail.\(id)"
        let bytes = beginning.withLock { $0 }
        let outcome = try await workshop.engine { () throws -> ThumbnailMaker.Outcome in
            try StagedFile.with(bytes, at: staged) { self.maker.peek(at: staged) }
        }
        var images: ThumbnailImages = [:]
        if case .images(let found) = outcome { images = found }
        try await drive.pool.engine { [images] in
            var peeked = self.record(.peeked, record.token)
            peeked.attempts = record.attempts
            try self.store.put(images, of: id, peeked)
        }
        if !images.isEmpty { drive.changed(id) }
    }

    private func askLater(_ id: ItemID, after attempts: Int) {
        let time = drive.clocks.now() + ThumbnailStep.absence(after: attempts)
        state.withLock { state in
            if state.later.count < Self.mostLater { state.later[id] = time }
        }
        wake.raise()
    }

    private func send(_ id: ItemID, _ facts: ThumbnailFacts) async throws(CloudFSError) {
        guard let version = facts.version, let sidecars = drive.provider.sidecars else { return }
        let token = ThumbnailToken(version)
        let images = try await drive.pool.engine { try self.store.images(of: id, showing: token) }
        let parts = [true, false].map { isSmall in
            (
                name: ThumbnailSidecar.name(of: version, isSmall: isSmall),
                images: images.filter { $0.key.isSmall == isSmall }
            )
        }
        // Another device may have made the same, which then was fetched and filled here.
        let isMadeHere = facts.record?.source == .madeHere
        let limit = ThumbnailSidecar.mostBytes
        let known = isMadeHere ? try await sidecars.read(parts[0].name, atMost: limit) : nil
        if known.flatMap(ThumbnailSidecar.images) == nil {
            for part in parts where !part.images.isEmpty {
                try await sidecars.write(ThumbnailSidecar.bytes(of: part.images), to: part.name)
            }
        }
        try await drive.pool.engine { try self.store.markSent(id, token) }
        retiring.raise()
    }
}

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
        let (generation, name) = try await drive.pool.engine {
            try self.drive.catalog.read { reader in
                (
                    try reader.existing(id).item.content.generation,
                    try reader.name(of: id)?.name ?? []
                )
            }
        }
        var outcome = ThumbnailMaker.Outcome.unreadable
        for way in ways(for: name) {
            outcome = try await make(of: id, generation, named: name, by: way)
            guard case .unreadable = outcome else { break }
        }
        // Whoever changed or dropped the content meanwhile has made this worthless.
        let isSame = try await drive.pool.engine {
            let now = try self.facts(of: id, isAsked: true, wantsBig: false)
            return now?.tokens.contains(token) == true && now?.isReadable == true
        }
        guard isSame else { throw CloudFSError(.remoteChanged, "the content changed", item: id) }
        try await keep(outcome, of: id, token, .madeHere, insteadOf: facts.record)
    }

    private func make(
        of id: ItemID,
        _ generation: Int64,
        named name: [UInt8],
        by way: ThumbnailMaker.Way
    ) async throws(CloudFSError) -> ThumbnailMaker.Outcome {
        let path = drive.content.path(id, generation)
        let last = name.split(separator: UInt8(ascii: ".")).last ?? []
        let ending = String(decoding: last, as: UTF8.self)
        switch way {
        case .vips: return try await workshop.engine { self.maker.make(of: path, ending: ending) }
        case .program(let words):
            return try await workshop.engine {
                self.maker.make(of: path, ending: ending, by: words)
            }
        case .embedded:
            guard let finding = try await find(in: id, generation) else { return .unreadable }
            return try await make(of: finding, for: id, ThumbnailSize.allCases)
        }
    }

    /// Looks for a picture within content that is here.
    private func find(
        in id: ItemID,
        _ generation: Int64
    ) async throws(CloudFSError) -> EmbeddedSearch.Finding? {
        let (file, size) = try await workshop.engine {
            let file = try self.drive.content.openToRead(id, generation: generation)
            return (file, try file.facts().size)
        }
        return try await EmbeddedSearch.ofContent.find(inFileOf: size) {
            range throws(CloudFSError) in
            try await self.workshop.engine {
                try file.read(at: range.lowerBound, count: range.count)
            }
        }
    }

    /// Has pictures made of one that lay within a file.
    private func make(
        of finding: EmbeddedSearch.Finding,
        for id: ItemID,
        _ sizes: [ThumbnailSize]
    ) async throws(CloudFSError) -> ThumbnailMaker.Outcome {
        let staged = "\(staging)/thumbnail.\(id)"
        return try await workshop.engine {
            try StagedFile.with(finding.file, at: staged) {
                self.maker.make(
                    of: staged,
                    ending: finding.ending,
                    sizes,
                    after: finding.preparation
                )
            }
        }
    }

    private func derive(_ id: ItemID, _ facts: ThumbnailFacts) async throws(CloudFSError) {
        guard let token = facts.record?.token else { return }
        let path = "\(staging)/thumbnail.\(id)"
        let outcome = try await workshop.engine { () throws -> ThumbnailMaker.Outcome in
            let images = try self.store.images(of: id, showing: token)
            guard let image = images[.doubleExtraLarge] else {
                throw CloudFSError(.remoteChanged, "another thumbnail was set", item: id)
            }
            return try StagedFile.with(KnownBytes(image.bytes), at: path) {
                self.maker.make(of: path, ending: image.format.rawValue)
            }
        }
        if case .unreadable = outcome {
            drive.logger.notice(
                "what a program set as a thumbnail is no picture",
                metadata: ["item.id": "\(id)"]
            )
            return try await drive.pool.engine {
                try self.store.remove(id, ifStill: facts.record)
            }
        }
        try await keep(outcome, of: id, token, .given, insteadOf: facts.record)
    }

    private func keep(
        _ outcome: ThumbnailMaker.Outcome,
        of id: ItemID,
        _ token: ThumbnailToken,
        _ source: ThumbnailRecord.Source,
        insteadOf known: ThumbnailRecord?
    ) async throws(CloudFSError) {
        let images = try images(of: outcome)
        try await drive.pool.engine {
            let record = self.record(images == nil ? .failed : source, token)
            try self.store.put(images ?? [:], of: id, record, insteadOf: known)
        }
        if images != nil { drive.changed(id) }
    }

    /// - Returns: `nil` if the content has no picture.
    /// - Throws: `unsupported` if that is not known, as no program could be run; none is for a
    ///   while.
    private func images(
        of outcome: ThumbnailMaker.Outcome
    ) throws(CloudFSError) -> ThumbnailImages? {
        switch outcome {
        case .images(let images): return images
        case .unreadable: return nil
        case .unavailable(let reason):
            pauseMaking()
            drive.logger.warning(
                "no thumbnails can be made; bubblewrap makes it possible nearly everywhere",
                metadata: ["reason": "\(reason)"]
            )
            throw CloudFSError(.unsupported, "no thumbnails can be made")
        }
    }

    private func pauseMaking() {
        let now = drive.clocks.now()
        state.withLock { $0.unavailableUntil = now + .seconds(600) }
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
            try self.store.put(images ?? [:], of: id, record, insteadOf: facts.record)
        }
        if images != nil { return drive.changed(id) }
        guard isSmall else {
            throw CloudFSError(.noData, "the cloud has no larger thumbnail", item: id)
        }
        if attempts <= Self.mostAttempts { askLater(id, after: attempts) }
    }

    /// Fetches no more than what holds the picture, into no content file: the item stays a
    /// placeholder.
    private func peek(_ id: ItemID, _ facts: ThumbnailFacts) async throws(CloudFSError) {
        guard let version = facts.version, let record = facts.record else { return }
        let (size, path) = try await drive.pool.engine {
            try self.drive.catalog.read { reader in
                (try reader.existing(id).item.size, try reader.remotePath(of: id))
            }
        }
        guard let path, size > 0 else { return }
        let finding = try await EmbeddedSearch.ofPlaceholder.find(inFileOf: size) {
            range throws(CloudFSError) in
            let found = Mutex<[UInt8]>([])
            _ = try await drive.provider.fetch(path, range: range, version: version) { _, piece in
                found.withLock { $0 += piece.bytes }
            }
            drive.fetched(Int64(range.count))
            return found.withLock { $0 }
        }
        var images: ThumbnailImages?
        if let finding { images = try await self.images(of: finding, for: id) }
        try await drive.pool.engine { [images] in
            var peeked = self.record(.peeked, record.token)
            peeked.attempts = record.attempts
            try self.store.put(images ?? [:], of: id, peeked, insteadOf: record)
        }
        if images != nil { drive.changed(id) }
    }

    /// The small pictures of what was found in a placeholder; `nil` if it shows nothing.
    private func images(
        of finding: EmbeddedSearch.Finding,
        for id: ItemID
    ) async throws(CloudFSError) -> ThumbnailImages? {
        let outcome: ThumbnailMaker.Outcome
        do throws(CloudFSError) {
            outcome = try await make(of: finding, for: id, ThumbnailSize.small)
        } catch {
            // Each attempt fetches it again.
            pauseMaking()
            throw error
        }
        return try images(of: outcome)
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
        try await drive.pool.engine { try self.store.markSent(id, facts.record) }
        retiring.raise()
    }
}

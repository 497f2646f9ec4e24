/// Whether the bytes on this machine are there, and are what they should be.
extension Checker {
    func checkContent(
        of record: ItemRecord,
        _ options: Options
    ) async throws(CloudFSError) -> [Violation] {
        guard record.item.kind == .file, record.item.content.generation != 0,
            files.live(record.id) == nil
        else { return [] }
        let finding = try await pool.engine { try self.lookAtFile(of: record) }
        if let finding { return try await drop(record, because: finding, options) }
        guard !options.isQuick, try await !isSound(record) else { return [] }
        let rotten = Violation(
            invariant: .contentSound,
            item: record.id,
            text: "its bytes are not those of its version in the cloud"
        )
        return try await drop(record, because: rotten, options)
    }

    private func lookAtFile(of record: ItemRecord) throws(CloudFSError) -> Violation? {
        let content = record.item.content
        let file: ContentFile
        do throws(CloudFSError) {
            file = try files.store.open(record.id, generation: content.generation)
        } catch  where error.code == .notFound {
            return Violation(
                invariant: .contentPresent,
                item: record.id,
                text: "its content is gone from the state directory"
            )
        } catch  where error.code == .corrupt {
            // Such as a link in its place, which is not followed.
            return Violation(
                invariant: .contentPresent,
                item: record.id,
                text: "its content is no file that can be opened in the state directory"
            )
        }
        // That of a package whose tree changed is made anew before anybody gets it.
        guard content.residency == .resident, !record.isTreeChanged else { return nil }
        if try file.hasLosses {
            return Violation(
                invariant: .contentSound,
                item: record.id,
                text: "the disk lost bytes of it"
            )
        }
        let size = try file.facts().size
        guard size != record.item.size else { return nil }
        return Violation(
            invariant: .contentLength,
            item: record.id,
            text: "its content has \(size) bytes and not \(record.item.size)"
        )
    }

    /// Whether nothing speaks against the bytes of a file that is as in the cloud.
    private func isSound(_ record: ItemRecord) async throws(CloudFSError) -> Bool {
        let content = record.item.content
        guard content.residency == .resident, content.cleanliness == .clean else { return true }
        let found = try await pool.engine { () throws -> (BaseRecord, RemotePath)? in
            try self.catalog.read { reader in
                guard let base = try reader.base(of: record.id),
                    let path = try reader.remotePath(of: record.id)
                else { return nil }
                return (base, path)
            }
        }
        guard let (base, path) = found else { return true }
        do throws(CloudFSError) {
            let file = try await pool.engine {
                try self.files.store.open(record.id, generation: content.generation)
            }
            return try await isSame(file, record, path, base.version) ?? true
        } catch  where error.code == .notFound || error.code == .remoteChanged {
            // It changed meanwhile, here or there: there is nothing to compare with.
            return true
        }
    }

    /// - Returns: `nil` if the cloud has no way to tell.
    private func isSame(
        _ file: ContentFile,
        _ record: ItemRecord,
        _ path: RemotePath,
        _ version: ItemVersion
    ) async throws(CloudFSError) -> Bool? {
        let provider = applier.provider
        guard provider.capabilities.contains(.digests) else {
            return try await provider.isContent(
                of: version,
                file.descriptor,
                byteCount: record.item.size
            )
        }
        guard let there = try await provider.digest(of: path, version: version) else { return nil }
        return try await pool.engine { try ContentDigest(of: file) } == there
    }

    /// Makes a file a placeholder again, which is fetched anew; one with changes stays as it is.
    ///
    /// - Returns: The finding, unless the file is another by now.
    private func drop(
        _ record: ItemRecord,
        because finding: Violation,
        _ options: Options
    ) async throws(CloudFSError) -> [Violation] {
        var finding = finding
        let (outcome, actions, file) = try await pool.engine {
            try self.tryToDrop(record, options)
        }
        hydrator.perform(actions, on: file)
        switch outcome {
        case .isAnother: return []
        case .stays: return [finding]
        case .hasChanges:
            finding.text += "; it has changes that the cloud does not have, and is left alone"
            return [finding]
        case .dropped:
            finding.text += "; it is fetched again"
            finding.isRepaired = true
            applier.hub.publish([.content(record.id)])
            files.wanted.raise()
            return [finding]
        }
    }

    private enum Drop: Sendable {
        /// Its content is not the one that was looked at.
        case isAnother
        case stays
        case hasChanges
        case dropped
    }

    private func tryToDrop(
        _ record: ItemRecord,
        _ options: Options
    ) throws(CloudFSError) -> (Drop, [HydrationPlan.Action], OpenFile) {
        let file = try files.acquire(record.id)
        defer { applier.releaseQuietly(file) }
        let (outcome, actions) = try file.state.withLock {
            state throws(CloudFSError) -> (Drop, [HydrationPlan.Action]) in
            try files.observe(&state, record.id)
            let now = try catalog.read { try $0.existing(record.id) }
            guard now.item.content == record.item.content, !state.isInUse,
                now.item.size == record.item.size
            else { return (.isAnother, []) }
            guard options.repairs else { return (.stays, []) }
            guard !state.isDirty, state.base != nil else { return (.hasChanges, []) }
            let isDropped = try catalog.write { writer in
                let last = try writer.reader.existing(record.id)
                guard try writer.reader.isInCloud(last) else { return false }
                try writer.dropContent(of: last)
                try writer.setWanted(true, of: record.id)
                return true
            }
            guard isDropped else { return (.hasChanges, []) }
            return (.dropped, files.reload(&state, record.id))
        }
        return (outcome, actions, file)
    }

    // MARK: - The store

    /// How old a content file without an item must be to count, in seconds: a new one has its name
    /// in a moment.
    private static let newFileAge: Int64 = 10

    func checkStore(_ options: Options) async throws(CloudFSError) -> Page {
        var page = try await pool.engine { try self.lookAtStore(options) }
        page.next = options.isQuick ? nil : .folders(after: ItemID(0))
        return page
    }

    private func lookAtStore(_ options: Options) throws(CloudFSError) -> Page {
        var page = Page()
        let oldest = files.clocks.now().seconds - Self.newFileAge
        for (item, generation) in try files.store.generations() {
            page.checked += 1
            let name = ContentName(item: item, generation: generation)
            guard try !catalog.readFew({ try $0.isNamed(name) }),
                let changed = try files.store.changeTime(item, generation: generation),
                changed.seconds < oldest, try !catalog.readFew({ try $0.isNamed(name) })
            else { continue }
            var finding = Violation(
                invariant: .contentNamed,
                text: "the content file \(item).\(generation) belongs to no item"
            )
            if options.repairs {
                try files.store.moveToLostAndFound(item, generation: generation)
                finding.text += "; it is in lost+found of the state directory"
                finding.isRepaired = true
            }
            page.findings.append(finding)
        }
        return page
    }
}

import Synchronization

extension Filesystem {
    /// Everything attributes and status tell about an item, from catalog and live state.
    func facts(of id: ItemID) throws(CloudFSError) -> ItemFacts {
        let (record, facts) = try catalog.readFew { reader in
            let record = try reader.existing(id)
            return (record, try catalogFacts(of: record, reader))
        }
        return live(facts, record)
    }

    /// The same for an item that was just read.
    func facts(of record: ItemRecord, _ reader: CatalogReader) throws -> ItemFacts {
        live(try catalogFacts(of: record, reader), record)
    }

    /// Looks into a file whose name says nothing of its type, if its content is here.
    func lookInto(_ facts: inout ItemFacts) {
        let item = facts.item
        guard item.kind == .file, facts.contentType == ContentTypes.unknown, facts.size > 0,
            item.content.residency == .resident
        else { return }
        do throws(CloudFSError) {
            let file = try files.store.openToRead(item.id, generation: item.content.generation)
            let bytes = try file.read(at: 0, count: MIMEMagic.reach)
            facts.contentType = contentTypes.type(ofContent: bytes)
        } catch {
            // It may have been replaced in this moment; its name is all that is known of it then.
            logger.debug(
                "the type of a file is not told by its content",
                metadata: ["item.id": "\(item.id)", "error": "\(error)"]
            )
        }
    }

    private func catalogFacts(
        of record: ItemRecord,
        _ reader: CatalogReader
    ) throws -> ItemFacts {
        var item = record.item
        var known = try reader.surroundings(of: item.id)
        if let package = try item.package.flatMap({ try reader.item($0) }) {
            // What is in a package is in the cloud when that is.
            let name = known.name
            known = try reader.surroundings(of: package.id)
            known.name = name
            item.content.cleanliness = package.item.content.cleanliness
        }
        var facts = ItemFacts(
            item: item,
            effectivePolicy: try reader.effectivePolicy(of: item.id),
            size: item.size,
            localBytes: 0,
            contentType: contentTypes.type(
                of: item.kind,
                name: known.name.map { String(decoding: $0, as: UTF8.self) } ?? ""
            ),
            contentTypes: contentTypes,
            container: options.containerName
        )
        facts.isQueued = known.isHeld == false
        facts.isLocalOnly = known.isHeld == true || !item.kind.isSynced
        facts.hasConflicts = known.hasConflicts
        facts.hasNewer = known.hasNewer
        facts.isFavorite = known.isFavorite
        facts.lastUsed = files.unsavedUse(of: item.id) ?? known.opened
        facts.error = known.error
        facts.version = known.baseVersion
        if item.id == .root {
            let counters = hydrator.fetchCounters
            facts.fetched = (counters.requests, counters.bytes)
        }
        switch item.content.residency {
        case .resident: facts.localBytes = item.size
        case .placeholder: facts.localBytes = 0
        case .partial:
            facts.localBytes = try reader.ranges(of: item.id).reduce(0) { $0 + Int64($1.count) }
        }
        return facts
    }

    private func live(_ facts: ItemFacts, _ record: ItemRecord) -> ItemFacts {
        guard facts.item.kind == .file else { return facts }
        var facts = facts
        facts.error = facts.error ?? downloader.failure(of: record)?.message
        guard let live = files.live(record.id)?.snapshot else { return facts }
        facts.size = live.size
        facts.localBytes = live.presentByteCount
        facts.item.content.residency = live.residency
        facts.isDownloading = live.isDownloading
        facts.sentBytes = live.sentBytes
        facts.hasNewer = facts.hasNewer || live.hasNewer
        return facts
    }
}

import Logging
import Synchronization

/// Makes trees of what packages hold.
extension Packages {
    /// - Returns: Whether the item is a package; its tree is here then.
    func unpackIfOne(_ id: ItemID) async throws(CloudFSError) -> Bool {
        let isPackage = try await pool.engine {
            try self.catalog.read { try $0.existing(id).item.isPackage }
        }
        if isPackage { try await unpack(id) }
        return isPackage
    }

    /// Makes the tree of a package of its content, which is fetched first if it is not here.
    ///
    /// All of it appears at once.
    ///
    /// - Throws: `notDirectory` for what turns out to be no package: it is shown as a file then.
    func unpack(_ id: ItemID) async throws(CloudFSError) {
        do {
            try await unpacking.value(for: id) { [self] in try await unpackNow(id) }
        } catch let error as CloudFSError {
            throw error
        } catch {
            throw CloudFSError(.cancelled, "looking into a package was interrupted", item: id)
        }
    }

    private func unpackNow(_ id: ItemID) async throws(CloudFSError) {
        let file = try await pool.engine { try self.files.acquire(id) }
        let outcome = await unpack(file)
        try await files.release(file, on: pool)
        try outcome.get()
    }

    private func unpack(_ file: OpenFile) async -> Result<Void, CloudFSError> {
        do throws(CloudFSError) {
            try await hydrator.complete(file)
            try await pool.engine { try self.unpackContent(of: file) }
            return .success(())
        } catch {
            // Who looks again right after the answer sees the file that it is.
            if error.code == .notDirectory { await hub.settled() }
            return .failure(error)
        }
    }

    /// A member of a package that has a row and no name yet.
    private struct Unpacked: Sendable {
        var entry: PackageEntry
        var id: ItemID
        /// The generation of its content file; 0 for what is no file.
        var generation: Int64
        var allocated: Int64 = 0
    }

    private func unpackContent(of file: OpenFile) throws(CloudFSError) {
        let record = try catalog.read { try $0.existing(file.id) }
        guard !record.isListed else { return }
        do throws(CloudFSError) {
            guard record.item.size > 0 else { throw CloudFSError(.notDirectory, "it is empty") }
            try unpack(record, from: content(of: file, as: record))
        } catch  where error.code == .notDirectory {
            throw try showAsFile(record, because: error)
        }
    }

    /// The content of a package as the catalog knows it, opened once more.
    ///
    /// It is read from one place on to the next: whoever gave up looking into the package, and whom
    /// nothing can stop, may be at another place.
    private func content(
        of file: OpenFile,
        as record: ItemRecord
    ) throws(CloudFSError) -> ContentFile {
        try file.state.withLock { state throws(CloudFSError) in
            guard state.residency == .resident, state.isContent(of: record.item) else {
                throw Self.replaced(file.id)
            }
            return try files.store.openToRead(file.id, generation: state.generation)
        }
    }

    private func unpack(
        _ package: ItemRecord,
        from content: ContentFile
    ) throws(CloudFSError) {
        let size = try content.facts().size
        var members: [Unpacked] = []
        var isNamed = false
        defer { if !isNamed { for member in members { files.eraseSoon(member.id) } } }
        // Once to see that it is sound, so that nothing is made of what is not.
        let entries = try Self.entries(of: content, size: size)
        members = try add(entries, to: package)
        try fill(&members, from: content, size: size)
        try files.store.synchronize()
        try FaultPoint.packageUnpacked.pass()
        isNamed = try name(members, in: package)
    }

    private static func replaced(_ id: ItemID) -> CloudFSError {
        CloudFSError(.cancelled, "the package was replaced", item: id)
    }

    static func entries(
        of content: ContentFile,
        size: Int64
    ) throws(CloudFSError) -> [PackageEntry] {
        let reader = try reader(of: content, size: size)
        var entries: [PackageEntry] = []
        var kinds: [[[UInt8]]: ItemKind] = [[]: .folder]
        while let entry = try reader.next() {
            guard kinds[entry.path] == nil, kinds[entry.path.dropLast()] == .folder else {
                throw CloudFSError(
                    .notDirectory,
                    "a name of the package is there twice, or is in no folder"
                )
            }
            kinds[entry.path] = entry.kind
            entries.append(entry)
        }
        return entries
    }

    private static func reader(
        of content: ContentFile,
        size: Int64
    ) throws(CloudFSError) -> PackageReader {
        try content.rewind()
        return try PackageReader(of: content.descriptor, size: size)
    }

    /// Rows without names: nobody finds them, and the next start erases them after a crash.
    private func add(
        _ entries: [PackageEntry],
        to package: ItemRecord
    ) throws(CloudFSError) -> [Unpacked] {
        var members: [Unpacked] = []
        do throws(CloudFSError) {
            try catalog.write(isLong: true) { writer in
                for entry in entries {
                    members.append(try add(entry, to: package, writer))
                }
            }
        } catch {
            for member in members where member.generation != 0 {
                try files.store.remove(member.id, generation: member.generation)
            }
            throw error
        }
        return members
    }

    private func add(
        _ entry: PackageEntry,
        to package: ItemRecord,
        _ writer: CatalogWriter
    ) throws -> Unpacked {
        var metadata = package.item.metadata
        metadata.permissions = entry.permissions
        metadata.modified = entry.modified
        var new = NewItem(
            container: package.item.container,
            kind: entry.kind,
            metadata: metadata
        )
        new.size = entry.linkTarget.map { Int64($0.count) } ?? entry.size
        new.linkTarget = entry.linkTarget
        new.attributes = entry.attributes
        new.isListed = entry.kind == .folder
        new.package = package.id
        if entry.kind == .file {
            new.generation = files.nextGeneration()
            new.residency = .resident
            // The cloud has it as part of the package only: it is never dropped by itself.
            new.cleanliness = .dirty
        }
        let id = try writer.insertItem(new, at: files.clocks.now())
        if entry.kind == .file {
            let size = entry.size
            _ = try files.store.create(id, generation: new.generation, size: size)
        }
        return Unpacked(entry: entry, id: id, generation: new.generation)
    }

    private func fill(
        _ members: inout [Unpacked],
        from content: ContentFile,
        size: Int64
    ) throws(CloudFSError) {
        let reader = try Self.reader(of: content, size: size)
        for index in members.indices {
            guard let entry = try reader.next(), entry == members[index].entry else {
                throw CloudFSError(.cancelled, "the package changed while it was read")
            }
            guard entry.kind == .file else { continue }
            let own = try files.store.open(
                members[index].id,
                generation: members[index].generation
            )
            try reader.content(of: entry) { bytes, offset throws(CloudFSError) in
                try own.write(bytes, at: offset)
            }
            try own.setModified(entry.modified)
            members[index].allocated = try own.facts().allocated
        }
    }

    /// Gives everything its name in one transaction, if the package still is what was read.
    ///
    /// - Returns: Whether that was done; else somebody else has done so meanwhile.
    private func name(
        _ members: [Unpacked],
        in package: ItemRecord
    ) throws(CloudFSError) -> Bool {
        let changes = try catalog.write(isLong: true) { writer -> [ItemChange]? in
            let now = try Self.unreplaced(package, writer.reader)
            guard try writer.reader.name(of: package.id) != nil else {
                throw Self.replaced(package.id)
            }
            guard !now.isListed else { return nil }
            var folders: [[[UInt8]]: ItemID] = [[]: package.id]
            var changes: [ItemChange] = []
            for member in members {
                let path = member.entry.path
                guard let name = path.last, let folder = folders[path.dropLast()] else { continue }
                if member.generation != 0 {
                    try writer.setContent(
                        of: member.id,
                        generation: member.generation,
                        residency: .resident,
                        localBytes: member.allocated
                    )
                }
                try writer.addName(name, in: folder, to: member.id)
                if member.entry.kind == .folder { folders[path] = member.id }
                if path.count == 1 {
                    changes.append(.entryAppeared(parent: folder, name: try ItemName(name)))
                }
            }
            try writer.setListed(true, of: package.id)
            return changes
        }
        guard let changes else { return false }
        hub.publish(changes + [.listed(package.id)])
        return true
    }

    /// A package as it is now.
    ///
    /// - Throws: `cancelled` if it has other content than `package` by now.
    private static func unreplaced(
        _ package: ItemRecord,
        _ reader: CatalogReader
    ) throws -> ItemRecord {
        let now = try reader.existing(package.id)
        guard now.item.content.generation == package.item.content.generation else {
            throw replaced(package.id)
        }
        return now
    }

    /// What cannot be read as a package is the file that it is in the cloud.
    ///
    /// - Returns: What to tell who looked into it.
    private func showAsFile(
        _ package: ItemRecord,
        because error: CloudFSError
    ) throws(CloudFSError) -> CloudFSError {
        let id = package.id
        let changes = try catalog.write { writer in
            // Of what has come meanwhile, or was read as one by somebody else, nothing is known.
            guard try !Self.unreplaced(package, writer.reader).isListed else {
                throw Self.replaced(id)
            }
            try writer.setPackage(false, of: id)
            return try Self.replacement(of: id, writer.reader)
        }
        logger.notice(
            "a file with a package's name is none, and shown as a file",
            metadata: ["item.id": "\(id)", "error": "\(error)"]
        )
        hub.publish(changes)
        return CloudFSError(.notDirectory, "not a package", item: id, cause: error)
    }
}

/// Files by which office programs tell who has a document open.
///
/// They are synced, so that other devices know. One whose program was killed would tell of it for
/// ever: it is removed, unless its program had ended before the cloud got the file, as whoever
/// copies or unpacks such files has.
extension Filesystem {
    /// How often it is looked whether the programs are there still.
    private static let ownerInterval = Duration.seconds(1)

    /// Of more, nobody has that many documents open, those made later are files like others.
    private static let mostOwnerFiles = 1_000

    /// Notes who made a file.
    func noteOwner(of id: ItemID, named name: ItemName, _ caller: Caller) {
        guard OwnerFileName.matches(name.bytes),
            let owner = ProcessIdentity(thread: caller.processID)
        else { return }
        do throws(CloudFSError) {
            try catalog.write { writer in
                guard try writer.reader.ownerFileCount() < Self.mostOwnerFiles else { return }
                try writer.setOwnerFile(OwnerFileRecord(item: id, owner: owner, isKept: false))
            }
            ownerNoted.raise()
        } catch {
            logger.warning(
                "it is not noted whose lock file this is",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
    }

    /// Removes the files of programs that have ended, until the task is cancelled.
    func watchOwnerFiles() async {
        while !Task.isCancelled {
            var isMore = true
            do throws(CloudFSError) {
                isMore = try await hydrator.pool.engine { try self.lookAfterOwnerFiles() }
            } catch {
                logger.error("lock files stay", metadata: ["error": "\(error)"])
            }
            await ownerNoted.wait(atMost: isMore ? Self.ownerInterval : nil)
        }
    }

    /// - Returns: Whether there are any left.
    private func lookAfterOwnerFiles() throws(CloudFSError) -> Bool {
        let records = try catalog.read { try $0.ownerFiles() }
        var left = 0
        for record in records {
            let (name, base) = try catalog.read { reader in
                (try reader.name(of: record.item), try reader.base(of: record.item))
            }
            let isThere = name.map { OwnerFileName.matches($0.name) } ?? false
            if isThere, record.owner.isAlive {
                left += 1
                guard !record.isKept, base != nil else { continue }
                var kept = record
                kept.isKept = true
                try catalog.write { [kept] in try $0.setOwnerFile(kept) }
            } else {
                if isThere, record.isKept, let name { try removeOwnerFile(name) }
                try catalog.write { try $0.removeOwnerFile(record.item) }
            }
        }
        return left > 0
    }

    private func removeOwnerFile(_ name: NameRecord) throws(CloudFSError) {
        let nobody = Caller(userID: 0, groupID: 0, processID: 0, umask: 0)
        let itemName = try ItemName(name.name)
        do throws(CloudFSError) {
            try removeFile(itemName, from: name.parent, caller: nobody.represented)
        } catch  where [.notFound, .readOnly, .claimed].contains(error.code) {
            return
        }
        logger.notice(
            "a lock file was removed, as its program has ended",
            metadata: ["item.name": "\(itemName)"]
        )
    }
}

extension Filesystem {
    func testLock(
        _ lock: FileLock,
        on handle: UInt64,
        owner: UInt64
    ) throws(CloudFSError) -> FileLock? {
        locks.test(lock, on: try handles.file(handle).file.id, owner: owner)
    }

    func setLock(
        _ lock: FileLock,
        on handle: UInt64,
        owner: UInt64,
        waits: Bool
    ) throws(CloudFSError) -> Answer<Void> {
        try set(lock, .posix, on: handle, owner: owner, waits: waits)
    }

    func setFlock(
        _ kind: FileLock.Kind,
        on handle: UInt64,
        owner: UInt64,
        waits: Bool
    ) throws(CloudFSError) -> Answer<Void> {
        try set(
            FileLock(kind: kind, processID: 0),
            .flock,
            on: handle,
            owner: owner,
            waits: waits
        )
    }

    /// A lock claims its file, too: who coordinates waits for it, and it for those who do.
    ///
    /// Plain programs among themselves heed the locks alone.
    private func set(
        _ lock: FileLock,
        _ family: FileLock.Family,
        on handle: UInt64,
        owner: UInt64,
        waits: Bool
    ) throws(CloudFSError) -> Answer<Void> {
        let handle = try handles.file(handle)
        let id = handle.file.id
        let lock = lock.taken(through: handle.number)
        let key = LockClaims.Key(item: id, owner: owner, family: family)
        let caller = handle.opener
        do throws(CloudFSError) {
            try claim(lock, key, by: caller)
        } catch  where error.code == .claimed {
            guard waits else {
                throw CloudFSError(.lockHeld, "a coordinated program uses the file", item: id)
            }
            return .pending { () throws(CloudFSError) in
                try await self.waitToClaim(lock, key, by: caller)
                if case .waiting(let wait) = try self.grant(lock, key, waits: true) {
                    try await self.wait(wait, key)
                }
            }
        }
        switch try grant(lock, key, waits: waits) {
        case .granted: return .ready(())
        case .waiting(let wait):
            return .pending { () throws(CloudFSError) in try await self.wait(wait, key) }
        }
    }

    private func intents(of lock: FileLock, _ item: ItemID) -> [AccessIntent] {
        switch lock.kind {
        case .shared: [.reading(item)]
        case .exclusive: [.writing(item)]
        case .unlock: []
        }
    }

    private func claim(
        _ lock: FileLock,
        _ key: LockClaims.Key,
        by process: Int32
    ) throws(CloudFSError) {
        guard lock.kind != .unlock else { return }
        let caller = Caller(userID: 0, groupID: 0, processID: process, umask: 0)
        lockClaims.add(try claimNow(intents(of: lock, key.item), for: caller), key)
    }

    private func waitToClaim(
        _ lock: FileLock,
        _ key: LockClaims.Key,
        by process: Int32
    ) async throws(CloudFSError) {
        let caller = Caller(userID: 0, groupID: 0, processID: process, umask: 0)
        lockClaims.add(try await claim(intents(of: lock, key.item), for: caller), key)
    }

    private func grant(
        _ lock: FileLock,
        _ key: LockClaims.Key,
        waits: Bool
    ) throws(CloudFSError) -> LockGrant {
        defer { settle(key, after: lock) }
        return try locks.set(
            lock,
            family: key.family,
            on: key.item,
            owner: key.owner,
            waits: waits
        )
    }

    private func wait(_ wait: LockWait, _ key: LockClaims.Key) async throws(CloudFSError) {
        defer { settle(key) }
        try await wait.value()
    }

    /// Drops the locks that were taken through a handle, when that is closed for good.
    ///
    /// Locks that belong to an open file (`F_OFD_SETLK`, `flock`) end with it, and of the former
    /// the kernel says nothing. Those of a process are gone already: a close names that first.
    func unlockAll(through handle: FileHandle) {
        let item = handle.file.id
        for family in FileLock.Family.allCases {
            for owner in locks.owners(through: handle.number, on: item, family) {
                unlockAll(family, on: item, owner: owner)
            }
        }
    }

    /// Drops the locks of an owner, and what it claimed by them.
    func unlockAll(_ family: FileLock.Family, on item: ItemID, owner: UInt64) {
        locks.unlockAll(on: item, owner: owner, family: family)
        settle(LockClaims.Key(item: item, owner: owner, family: family))
    }

    /// Ends the claims of an owner that has no lock left.
    ///
    /// - Parameter lock: What was set, or refused, just now; `claim` was called for it before.
    private func settle(_ key: LockClaims.Key, after lock: FileLock? = nil) {
        let hasClaimed = lock.map { $0.kind != .unlock } ?? false
        lockClaims.settle(key, hasSet: hasClaimed) {
            locks.holds(on: key.item, key.owner, key.family)
        }
    }

    /// Takes up the claims of locks that an earlier worker has granted, and drops those whose
    /// handles are gone.
    func adoptLocks() throws(CloudFSError) {
        for record in locks.records {
            guard let kind = FileLock.Kind(rawValue: record.kind),
                let family = FileLock.Family(rawValue: record.family)
            else { continue }
            let item = ItemID(record.item)
            guard handles.hasFile(record.handle) else {
                locks.unlockAll(on: item, owner: record.owner, family: family)
                continue
            }
            let key = LockClaims.Key(item: item, owner: record.owner, family: family)
            let lock = FileLock(kind: kind, processID: record.processID)
            try claim(lock, key, by: record.processID)
            settle(key, after: lock)
        }
    }
}

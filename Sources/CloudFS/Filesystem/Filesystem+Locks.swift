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

    private func set(
        _ lock: FileLock,
        _ family: FileLock.Family,
        on handle: UInt64,
        owner: UInt64,
        waits: Bool
    ) throws(CloudFSError) -> Answer<Void> {
        let id = try handles.file(handle).file.id
        switch try locks.set(lock, family: family, on: id, owner: owner, waits: waits) {
        case .granted: return .ready(())
        case .waiting(let wait):
            return .pending { () throws(CloudFSError) in try await wait.value() }
        }
    }
}

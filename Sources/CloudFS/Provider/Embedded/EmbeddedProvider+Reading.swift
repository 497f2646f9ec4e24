import CLinux
import Crypto
import Glibc
import NIOCore

/// Items, listings and bytes.
extension EmbeddedProvider {
    public func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        try await reading(path) { [gate] root in
            let found = try root.openItem(path)
            guard let item = try Self.look(at: found, path, in: root) else {
                throw EmbeddedFailure(call: "fstat", errorNumber: ENOENT)
            }
            if !path.isRoot { gate.sawItems() }
            return item
        }
    }

    /// What is written all the time cannot be told, which says nothing of the whole directory.
    private static func look(
        at found: EmbeddedFoundItem,
        _ path: RemotePath,
        in root: EmbeddedRoot
    ) throws -> RemoteItem? {
        let looked = Result { () throws(EmbeddedFailure) in
            try found.remoteItem(of: root.identity)
        }
        if case .failure(let failure) = looked, failure.errorNumber == EBUSY {
            throw CloudFSError(
                .lockHeld,
                "\"\(path)\" changes faster than it can be looked at",
                cause: failure
            )
        }
        return try looked.get()
    }

    public func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        try await reading(path) { [gate, listings] root in
            let page = try listings.page(after: page, of: path, in: root)
            if !page.items.isEmpty { gate.sawItems() }
            return page
        }
    }

    public func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        let file = try await openVersion(version, of: path)
        guard range.lowerBound >= 0, range.upperBound <= file.status.size else {
            throw CloudFSError(
                .invalidArgument,
                "\"\(path)\": bytes \(range) of \(file.status.size) were asked for"
            )
        }
        fetching.add(1, ordering: .relaxed)
        defer { fetching.subtract(1, ordering: .relaxed) }
        var offset = range.lowerBound
        while offset < range.upperBound {
            let start = offset
            let count = Int(min(Int64(fetchedPieceByteCount), range.upperBound - offset))
            let bytes = try await blocking(path) { [gate] in
                do {
                    return try file.read(count, at: start)
                } catch let failure as EmbeddedFailure where failure.isDamage {
                    // A disk that went away meanwhile is out of reach.
                    _ = try gate.enter()
                    throw failure.error(reading: path)
                }
            }
            try await deliver(start, bytes)
            offset += Int64(bytes.count)
        }
        return nil
    }

    public func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest? {
        let file = try await openVersion(version, of: path)
        var hash = SHA256()
        var offset: Int64 = 0
        while offset < file.status.size {
            let start = offset
            let soFar = hash
            // Several pieces at a time, so that a large file is not a hop between threads each.
            (hash, offset) = try await blocking(path) {
                var hash = soFar
                var offset = start
                for _ in 0..<8 where offset < file.status.size {
                    let count = min(Int64(Self.pieceByteCount), file.status.size - offset)
                    try file.read(Int(count), at: offset).withBytes {
                        hash.update(bufferPointer: $0)
                    }
                    offset += count
                }
                return (hash, offset)
            }
        }
        return ContentDigest(Array(hash.finalize()))
    }

    /// Runs `work` as `inside` does; what the disk cannot read is the item's own.
    private func reading<Value: Sendable>(
        _ path: RemotePath,
        _ work: @escaping @Sendable (EmbeddedRoot) throws -> Value
    ) async throws(CloudFSError) -> Value {
        try await inside(path) { root in
            do {
                return try work(root)
            } catch let failure as EmbeddedFailure {
                throw failure.error(reading: path)
            }
        }
    }

    /// Opens the file at `path` for reading if it is exactly `version`.
    private func openVersion(
        _ version: ItemVersion,
        of path: RemotePath
    ) async throws(CloudFSError) -> EmbeddedVersionReader {
        try await reading(path) { root in
            let found = try root.openItem(path)
            guard let kind = found.status.kind else {
                throw EmbeddedFailure(call: "fstat", errorNumber: ENOENT)
            }
            guard found.status.matches(version) else { throw Self.changed(path) }
            guard kind != .folder else { throw EmbeddedFailure(call: "open", errorNumber: EISDIR) }
            guard kind == .file else {
                throw CloudFSError(.unsupported, "\"\(path)\" is a link and has no bytes")
            }
            return EmbeddedVersionReader(
                file: try EmbeddedSystem.reopen(found.descriptor, flags: O_RDONLY | O_NONBLOCK),
                status: found.status,
                path: path
            )
        }
    }
}

/// One version of a file, open; it throws rather than read bytes of another.
private struct EmbeddedVersionReader: Sendable {
    let file: EmbeddedDescriptor
    let status: EmbeddedStatus
    let path: RemotePath

    /// Reads `count` bytes, all of which must be there.
    func read(_ count: Int, at offset: Int64) throws -> ContentPiece {
        var bytes = ByteBufferAllocator().buffer(capacity: count)
        while bytes.readableBytes < count {
            let filled = bytes.readableBytes
            let added = try EmbeddedSystem.check("pread") {
                var result = 0
                bytes.writeWithUnsafeMutableBytes(minimumWritableBytes: count - filled) { space in
                    result = pread(
                        file.rawValue,
                        space.baseAddress,
                        count - filled,
                        off_t(offset) + off_t(filled)
                    )
                    return max(result, 0)
                }
                return result
            }
            if added == 0 { break }
        }
        // After the bytes: a write that came between is seen here, and the piece is not used.
        guard bytes.readableBytes == count, try status.again(file).version == status.version else {
            throw EmbeddedProvider.changed(path)
        }
        return ContentPiece(bytes)
    }
}

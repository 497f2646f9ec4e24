import CLinux
import Glibc

/// Leases as small files in `.cloudfs/leases`.
///
/// A record takes its name with a rename that replaces nothing, which is atomic and shows it
/// with all its text or not at all. The directory's lock is not needed, so a device that holds it
/// for long keeps nobody from renewing. Nothing is flushed: what a power failure takes away were
/// leases of programs that died with it, as far as they ran on that machine.
struct EmbeddedLeases: LeaseStore {
    let provider: EmbeddedProvider

    private static let folderName = Array("leases".utf8)
    /// How often a look begins again because records were superseded under it.
    private static let looks = 16

    func latest(of document: DocumentID) async throws(CloudFSError) -> LeaseRecord? {
        try await provider.inside(.root) { root in
            guard let folder = try Self.folder(of: root) else { return nil }
            for _ in 0..<Self.looks {
                guard let number = try Self.numbers(of: document, in: folder).max() else {
                    return nil
                }
                if let record = try Self.read(document, number, in: folder) { return record }
            }
            throw EmbeddedFailure(call: "open", errorNumber: EBUSY)
        }
    }

    func append(_ record: LeaseRecord) async throws(CloudFSError) -> Bool {
        let device = provider.device
        return try await provider.inside(.root) { root in
            let room = try root.openRoom()
            let folder = try EmbeddedRoot.makeAndOpen(Self.folderName, in: room.descriptor)
            // Costs no staged file; it is the look below that counts.
            if let latest = try Self.numbers(of: record.document, in: folder).max(),
                latest >= record.number
            {
                return false
            }
            let staged = try EmbeddedStagedFile(in: root, device: device)
            do {
                try Self.write(LeaseText.bytes(of: record), to: staged.file)
                try EmbeddedSystem.rename(
                    Array(staged.name.utf8),
                    in: staged.folder,
                    to: LeaseText.name(record.document, record.number),
                    in: folder,
                    flags: clinux_rename_noreplace
                )
            } catch let failure as EmbeddedFailure where failure.errorNumber == EEXIST {
                try staged.discard()
                return false
            } catch {
                try staged.discard()
                throw error
            }
            return try Self.isLatest(record, in: folder)
        }
    }

    func all(atMost limit: Int) async throws(CloudFSError) -> [LeaseRecord] {
        try await provider.inside(.root) { root in
            guard let folder = try Self.folder(of: root) else { return [] }
            var latest: [DocumentID: Int64] = [:]
            for name in try EmbeddedSystem.names(in: folder) {
                guard let (document, number) = LeaseText.parse(name) else { continue }
                latest[document] = max(latest[document] ?? 0, number)
            }
            return try latest.prefix(limit).compactMap {
                try Self.read($0.key, $0.value, in: folder)
            }
        }
    }

    // MARK: - Files

    private static func folder(of root: EmbeddedRoot) throws -> EmbeddedDescriptor? {
        do {
            return try EmbeddedSystem.open(
                ItemName.reserved.bytes + [UInt8(ascii: "/")] + folderName,
                in: root.descriptor,
                flags: clinux_o_path | O_DIRECTORY
            )
        } catch  where error.errorNumber == ENOENT {
            return nil
        }
    }

    private static func numbers(
        of document: DocumentID,
        in folder: EmbeddedDescriptor
    ) throws(EmbeddedFailure) -> [Int64] {
        let stem = LeaseText.stem(document)
        return try EmbeddedSystem.names(in: folder).compactMap { name in
            name.starts(with: stem) ? LeaseText.parse(name)?.number : nil
        }
    }

    /// Whether no higher number is there; if so, the lower ones go.
    private static func isLatest(
        _ record: LeaseRecord,
        in folder: EmbeddedDescriptor
    ) throws(EmbeddedFailure) -> Bool {
        let numbers = try numbers(of: record.document, in: folder)
        guard numbers.max() == record.number else { return false }
        for number in numbers where number < record.number {
            do {
                try EmbeddedSystem.unlink(LeaseText.name(record.document, number), in: folder)
            } catch {
                // Gone, or another user's: an older record does nothing but take space.
            }
        }
        return true
    }

    /// The record; `nil` if it is gone, superseded by another.
    private static func read(
        _ document: DocumentID,
        _ number: Int64,
        in folder: EmbeddedDescriptor
    ) throws(EmbeddedFailure) -> LeaseRecord? {
        do {
            let found = try EmbeddedSystem.open(
                LeaseText.name(document, number),
                in: folder,
                flags: clinux_o_path | O_NOFOLLOW
            )
            // Looked at before it is opened: a pipe would be waited for.
            guard try EmbeddedStatus(of: found).kind == .file else {
                return .unreadable(document, number: number)
            }
            let file = try EmbeddedSystem.reopen(found, flags: O_RDONLY | O_NONBLOCK)
            var space = [UInt8](repeating: 0, count: LeaseText.maximumByteCount + 1)
            let length = try EmbeddedSystem.check("read") {
                space.withUnsafeMutableBytes {
                    Glibc.read(file.rawValue, $0.baseAddress, $0.count)
                }
            }
            return LeaseText.record(Array(space.prefix(length)), of: document, number: number)
        } catch  where error.errorNumber == ENOENT {
            return nil
        } catch  where error.errorNumber == EACCES {
            return .unreadable(document, number: number)
        }
    }

    /// Writes a whole record, for every user of the directory to read.
    private static func write(
        _ bytes: [UInt8],
        to file: EmbeddedDescriptor
    ) throws(EmbeddedFailure) {
        let written = try EmbeddedSystem.check("write") {
            bytes.withUnsafeBytes { Glibc.write(file.rawValue, $0.baseAddress, $0.count) }
        }
        guard written == bytes.count else {
            throw EmbeddedFailure(call: "write", errorNumber: ENOSPC)
        }
        try EmbeddedMetadata.changePermissions(of: file, to: 0o644)
    }
}

extension EmbeddedProvider {
    public var leases: (any LeaseStore)? { EmbeddedLeases(provider: self) }
}

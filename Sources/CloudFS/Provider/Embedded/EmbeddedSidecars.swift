import CLinux
import Glibc

/// Sidecars as small files below `.cloudfs`, made in the staging folder and renamed into place.
struct EmbeddedSidecars: SidecarStore {
    let provider: EmbeddedProvider

    func read(_ name: SidecarName, atMost limit: Int) async throws(CloudFSError) -> [UInt8]? {
        try await provider.inside(.root) { root in
            do {
                let found = try EmbeddedSystem.open(
                    Self.path(name),
                    in: root.descriptor,
                    flags: clinux_o_path | O_NOFOLLOW
                )
                // Looked at before it is opened: a pipe would be waited for.
                guard try EmbeddedStatus(of: found).kind == .file else { return nil }
                let file = try EmbeddedSystem.reopen(found, flags: O_RDONLY | O_NONBLOCK)
                return try Self.bytes(of: file, atMost: limit)
            } catch let failure as EmbeddedFailure where failure.errorNumber == ENOENT {
                return nil
            }
        }
    }

    func write(_ bytes: [UInt8], to name: SidecarName) async throws(CloudFSError) {
        let device = provider.device
        try await provider.inside(.root) { root in
            var folder = try root.openRoom().descriptor
            for step in name.folders {
                folder = try EmbeddedRoot.makeAndOpen(step, in: folder)
            }
            let staged = try EmbeddedStagedFile(in: root, device: device)
            do {
                try Self.write(bytes, to: staged.file)
                try EmbeddedSystem.check("fsync") { fsync(staged.file.rawValue) }
                try EmbeddedSystem.rename(
                    Array(staged.name.utf8),
                    in: staged.folder,
                    to: name.bytes,
                    in: folder,
                    flags: 0
                )
                try EmbeddedSystem.synchronize(folder)
            } catch {
                try staged.discard()
                throw error
            }
        }
    }

    func remove(_ name: SidecarName) async throws(CloudFSError) {
        try await provider.inside(.root) { root in
            do {
                let folder = try EmbeddedSystem.open(
                    Self.folder(name),
                    in: root.descriptor,
                    flags: clinux_o_path | O_DIRECTORY
                )
                try EmbeddedSystem.unlink(name.bytes, in: folder)
            } catch let failure as EmbeddedFailure where failure.errorNumber == ENOENT {
                return
            }
        }
    }

    private static func folder(_ name: SidecarName) -> [UInt8] {
        Array(([ItemName.reserved.bytes] + name.folders).joined(separator: [UInt8(ascii: "/")]))
    }

    private static func path(_ name: SidecarName) -> [UInt8] {
        folder(name) + [UInt8(ascii: "/")] + name.bytes
    }

    private static func bytes(of file: EmbeddedDescriptor, atMost limit: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= limit {
            let count = try EmbeddedSystem.check("read") {
                piece.withUnsafeMutableBytes { Glibc.read(file.rawValue, $0.baseAddress, $0.count) }
            }
            if count == 0 { return bytes }
            bytes += piece[..<count]
        }
        throw SidecarName.tooLarge(limit)
    }

    /// Writes all of it, for every user of the directory to read.
    private static func write(_ bytes: [UInt8], to file: EmbeddedDescriptor) throws {
        var written = 0
        while written < bytes.count {
            written += try EmbeddedSystem.check("write") {
                bytes.withUnsafeBytes {
                    Glibc.write(
                        file.rawValue,
                        $0.baseAddress?.advanced(by: written),
                        $0.count - written
                    )
                }
            }
        }
        try EmbeddedMetadata.changePermissions(of: file, to: 0o644)
    }
}

extension EmbeddedProvider {
    public var sidecars: (any SidecarStore)? { EmbeddedSidecars(provider: self) }
}

/// A provider whose transfers stay below the user's limits.
public final class LimitedProvider: ProviderLayer {
    public let base: any CloudProvider
    private let upload: BandwidthLimiter?
    private let download: BandwidthLimiter?

    public init(
        _ base: any CloudProvider,
        upload: BandwidthLimiter?,
        download: BandwidthLimiter?
    ) {
        self.base = base
        self.upload = upload
        self.download = download
    }

    public func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        let download = download
        // Waiting before a piece is handed on keeps the provider from reading the next one.
        return try await base.fetch(path, range: range, version: version) {
            offset,
            bytes async throws(CloudFSError) in
            try await download?.take(bytes.count)
            try await deliver(offset, bytes)
        }
    }

    public func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        var source = source
        let (upload, willSend) = (upload, source.willSend)
        source.willSend = { byteCount async throws(CloudFSError) in
            try await upload?.take(byteCount)
            try await willSend(byteCount)
        }
        return try await self.base.upload(source, to: path, replacing: base)
    }
}

/// Sidecars that count towards the same limits.
private struct LimitedSidecars: SidecarStore {
    let base: any SidecarStore
    let upload: BandwidthLimiter?
    let download: BandwidthLimiter?

    func read(_ name: SidecarName, atMost limit: Int) async throws(CloudFSError) -> [UInt8]? {
        let bytes = try await base.read(name, atMost: limit)
        // How much it is turns out only now; whoever comes next waits for it.
        if let bytes, !bytes.isEmpty { try await download?.take(bytes.count) }
        return bytes
    }

    func write(_ bytes: [UInt8], to name: SidecarName) async throws(CloudFSError) {
        try await upload?.take(bytes.count)
        try await base.write(bytes, to: name)
    }

    func remove(_ name: SidecarName) async throws(CloudFSError) { try await base.remove(name) }
}

extension LimitedProvider {
    public var sidecars: (any SidecarStore)? {
        base.sidecars.map { LimitedSidecars(base: $0, upload: upload, download: download) }
    }
}

/// Sidecars as small objects below `.cloudfs/`.
///
/// Other devices write them too, but nothing that could not be made again: who is last wins.
struct S3Sidecars: SidecarStore {
    let provider: S3Provider

    private func key(_ name: SidecarName) -> [UInt8] {
        provider.keys.room
            + Array((name.folders + [name.bytes]).joined(separator: [UInt8(ascii: "/")]))
    }

    func read(_ name: SidecarName, atMost limit: Int) async throws(CloudFSError) -> [UInt8]? {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            let range = 0..<Int64(limit) + 1
            _ = try await provider.client.get(key(name), range: range, ifMatch: nil) { _, piece in
                bytes.append(piece)
            }
        } catch  where error.code == .notFound {
            return nil
        } catch  where error.cause as? S3Failure == .rangeNotSatisfiable {
            return []
        }
        guard bytes.all.count <= limit else { throw SidecarName.tooLarge(limit) }
        return bytes.all
    }

    func write(_ bytes: [UInt8], to name: SidecarName) async throws(CloudFSError) {
        _ = try await provider.client.put(
            key(name),
            body: .bytes(bytes),
            contentType: "application/octet-stream",
            isOwn: true
        )
    }

    func remove(_ name: SidecarName) async throws(CloudFSError) {
        do throws(CloudFSError) {
            try await provider.client.delete(key(name), isOwn: true)
        } catch  where error.code == .notFound {
            return
        }
    }
}

extension S3Provider {
    var sidecars: (any SidecarStore)? { S3Sidecars(provider: self) }
}

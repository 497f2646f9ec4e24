import Crypto

extension ContentDigest {
    /// Reads the whole file and hashes it; blocks for as long as that takes.
    init(of file: ContentFile) throws(CloudFSError) {
        var hash = SHA256()
        var offset: Int64 = 0
        while true {
            let bytes = try file.read(at: offset, count: 1 << 20)
            guard !bytes.isEmpty else { break }
            hash.update(data: bytes)
            offset += Int64(bytes.count)
        }
        self.init(Array(hash.finalize()))
    }
}

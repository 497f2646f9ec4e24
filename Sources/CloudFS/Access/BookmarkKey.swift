import Crypto
import Glibc

/// Seals the bookmarks of a user, so that nobody else can make one.
///
/// The key is the user's, not a drive's: a bookmark is good in every drive of the same container,
/// also in one that is mounted anew.
struct BookmarkKey: Sendable {
    /// Bytes of a seal.
    static let sealByteCount = 32
    private static let keyByteCount = 32

    let path: String

    /// - Parameter path: Where the key is, or is to be made.
    init(path: String = BookmarkKey.defaultPath()) {
        self.path = path
    }

    /// A fingerprint of a container, which bookmarks name it by.
    static func fingerprint(of container: String) -> [UInt8] {
        Array(
            SHA256.hash(data: Array("cloudfs container\n".utf8) + Array(container.utf8)).prefix(16)
        )
    }

    /// - Throws: `notPermitted` for a key that others may have read; what the disk says.
    func seal(_ payload: [UInt8]) throws(CloudFSError) -> [UInt8] {
        let key = SymmetricKey(data: try bytes(isNeeded: true))
        return Array(HMAC<SHA256>.authenticationCode(for: payload, using: key))
    }

    /// Whether this user has sealed it; takes as long for every wrong seal.
    func isSealed(_ payload: [UInt8], by seal: [UInt8]) throws(CloudFSError) -> Bool {
        let key = SymmetricKey(data: try bytes(isNeeded: false))
        return HMAC<SHA256>.isValidAuthenticationCode(seal, authenticating: payload, using: key)
    }

    // MARK: - The file

    /// Beside the state of the user's drives.
    static func defaultPath() -> String {
        if let data = getenv("XDG_DATA_HOME").map({ String(cString: $0) }), data.hasPrefix("/") {
            return data + "/cloudfs/bookmark.key"
        }
        if geteuid() == 0 { return "/var/lib/cloudfs/bookmark.key" }
        let home =
            getenv("HOME").map { String(cString: $0) }
            ?? getpwuid(geteuid()).map { String(cString: $0.pointee.pw_dir) } ?? ""
        return home + "/.local/share/cloudfs/bookmark.key"
    }

    private func bytes(isNeeded: Bool) throws(CloudFSError) -> [UInt8] {
        if let known = try read() { return known }
        guard isNeeded else {
            throw CloudFSError(.denied, "there is no key for bookmarks: none was made here")
        }
        try make()
        guard let made = try read() else { throw failure("was removed") }
        return made
    }

    private func read() throws(CloudFSError) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("cannot be read: \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG,
            facts.st_uid == geteuid(), facts.st_mode & 0o077 == 0
        else {
            throw CloudFSError(
                .notPermitted,
                "\(path) is not yours alone: others could make bookmarks; remove it"
            )
        }
        var bytes = [UInt8](repeating: 0, count: Self.keyByteCount + 1)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count == Self.keyByteCount else { throw failure("is damaged; remove it") }
        return Array(bytes.prefix(count))
    }

    /// Makes the file whole or not at all; of two who do it at once one wins.
    private func make() throws(CloudFSError) {
        makeFolder()
        let name = path + ".\(getpid())-\(UInt32.random(in: 0 ... .max))"
        let descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw failure("cannot be made: \(String(cString: strerror(errno)))")
        }
        defer {
            close(descriptor)
            unlink(name)
        }
        let key = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
        guard write(descriptor, key, key.count) == key.count, fsync(descriptor) == 0 else {
            throw failure("cannot be written: \(String(cString: strerror(errno)))")
        }
        guard link(name, path) == 0 || errno == EEXIST else {
            throw failure("cannot be made: \(String(cString: strerror(errno)))")
        }
    }

    /// What cannot be made is told when the key is.
    private func makeFolder() {
        var folder = ""
        for name in path.split(separator: "/").dropLast() {
            folder += "/\(name)"
            mkdir(folder, 0o700)
        }
    }

    private func failure(_ what: String) -> CloudFSError {
        CloudFSError(.internalFailure, "the key for bookmarks, \(path), \(what)")
    }
}

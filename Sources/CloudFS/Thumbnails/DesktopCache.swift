import Crypto
import Glibc

/// The thumbnails that the desktops of the user who mounted share: a file manager that finds one
/// there does not open the item.
///
/// The folders belong to the user, so nothing in them is trusted: no symbolic link is followed,
/// and nothing is written where another user could have put it.
///
/// - Source: Thumbnail Managing Standard, 0.9.0.
struct DesktopCache: Sendable {
    /// A file as a file manager sees it.
    struct Subject: Sendable, Equatable {
        /// Absolute.
        var path: String
        /// Whole seconds since 1970.
        var modified: Int64
        /// In bytes.
        var size: Int64
        var type: String
    }

    private static let maker = "CloudFS"
    /// Texts stand at the beginning.
    private static let lookedAt = 8_192

    /// The folder `thumbnails`.
    let root: String

    // MARK: - Names

    /// As GLib writes the URI of a file, which the name is made of.
    static func uri(of path: String) -> String {
        let plain = Set("!'()*-._~/&=:@+$,".utf8)
        var text = "file://"
        for byte in path.utf8 {
            let isPlain =
                (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte)
                || (0x61...0x7a).contains(byte) || plain.contains(byte)
            if isPlain {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                text +=
                    "%"
                    + String(
                        decoding: Hexadecimal.digits(of: [byte], capitals: true),
                        as: UTF8.self
                    )
            }
        }
        return text
    }

    private static func name(_ uri: String) -> String {
        Hexadecimal.text(Insecure.MD5.hash(data: Array(uri.utf8))) + ".png"
    }

    /// Where the largest thumbnail of a file lies; `nil` if there is none of it as it is now.
    func path(of subject: Subject) -> String? {
        for size in ThumbnailSize.allCases.reversed() where isFresh(subject, size) {
            return "\(root)/\(size.folderName)/\(Self.name(Self.uri(of: subject.path)))"
        }
        return nil
    }

    // MARK: - Looking, writing, removing

    /// Whether the thumbnail shows the file as it is now.
    func isFresh(_ subject: Subject, _ size: ThumbnailSize) -> Bool {
        let uri = Self.uri(of: subject.path)
        let texts = texts(Self.name(uri), size)
        return texts["Thumb::URI"] == uri && texts["Thumb::MTime"] == String(subject.modified)
    }

    /// - Parameter picture: A PNG.
    /// - Throws: `denied` for folders that are not the user's own; errors of the disk.
    func write(
        _ picture: [UInt8],
        of subject: Subject,
        _ size: ThumbnailSize
    ) throws(CloudFSError) {
        let uri = Self.uri(of: subject.path)
        let texts = [
            ("Thumb::URI", uri), ("Thumb::MTime", String(subject.modified)),
            ("Thumb::Size", String(subject.size)), ("Thumb::Mimetype", subject.type),
            ("Software", Self.maker),
        ]
        guard let bytes = PNGText.adding(texts, to: picture) else {
            throw CloudFSError(.corrupt, "what was made is no PNG")
        }
        let (folder, owner) = try openFolder(size)
        defer { close(folder) }
        try Self.write(bytes, to: Self.name(uri), in: folder, owner)
    }

    /// Removes what was written for a path that no longer is what it was.
    func remove(_ path: String) {
        let name = Self.name(Self.uri(of: path))
        for size in ThumbnailSize.allCases where texts(name, size)["Software"] == Self.maker {
            guard let folder = try? openFolder(size).descriptor else { continue }
            unlinkat(folder, name, 0)
            close(folder)
        }
    }

    private func texts(_ name: String, _ size: ThumbnailSize) -> [String: String] {
        let path = "\(root)/\(size.folderName)/\(name)"
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return [:] }
        defer { close(descriptor) }
        var beginning = [UInt8](repeating: 0, count: Self.lookedAt)
        let count = read(descriptor, &beginning, beginning.count)
        return count > 0 ? PNGText.texts(of: Array(beginning[..<count])) : [:]
    }

    // MARK: - Files

    private typealias Owner = (user: uid_t, group: gid_t)

    /// The folder of a size, made if need be.
    private func openFolder(
        _ size: ThumbnailSize
    ) throws(CloudFSError) -> (descriptor: Int32, owner: Owner?) {
        let top = try Self.openFolder(root, in: AT_FDCWD, nil)
        defer { close(top.descriptor) }
        return try Self.openFolder(size.folderName, in: top.descriptor, top.owner)
    }

    /// - Returns: `owner` is whom files are given to; only root can, and has to.
    private static func openFolder(
        _ name: String,
        in folder: Int32,
        _ owner: Owner?
    ) throws(CloudFSError) -> (descriptor: Int32, owner: Owner?) {
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        var descriptor = openat(folder, name, flags)
        if descriptor < 0, errno == ENOENT, mkdirat(folder, name, 0o700) == 0 {
            descriptor = openat(folder, name, flags)
            if descriptor >= 0, let owner { fchown(descriptor, owner.user, owner.group) }
        }
        guard descriptor >= 0 else { throw failure("the folder \(name)") }
        var status = stat()
        guard fstat(descriptor, &status) == 0,
            status.st_uid == owner?.user ?? (geteuid() == 0 ? status.st_uid : geteuid())
        else {
            close(descriptor)
            throw CloudFSError(.denied, "the folder \(name) of thumbnails is another user's")
        }
        return (descriptor, geteuid() == 0 ? (status.st_uid, status.st_gid) : nil)
    }

    private static func write(
        _ bytes: [UInt8],
        to name: String,
        in folder: Int32,
        _ owner: Owner?
    ) throws(CloudFSError) {
        let staged = ".cloudfs-\(name)"
        unlinkat(folder, staged, 0)
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        let file = openat(folder, staged, flags, 0o600)
        guard file >= 0 else { throw failure("a thumbnail") }
        defer { close(file) }
        if let owner { fchown(file, owner.user, owner.group) }
        let number = FileBytes.write(bytes, to: file)
        guard number == 0 else {
            unlinkat(folder, staged, 0)
            throw failure("a thumbnail", number)
        }
        guard renameat(folder, staged, folder, name) == 0 else { throw failure("a thumbnail") }
    }

    private static func failure(_ what: String, _ number: Int32 = errno) -> CloudFSError {
        let reason = String(cString: strerror(number))
        return CloudFSError(
            .ofDisk(number) ?? .denied,
            "\(what) of the desktop's cache cannot be made: \(reason)"
        )
    }
}

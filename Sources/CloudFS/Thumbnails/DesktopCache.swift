import Crypto
import Foundation
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
    /// Tells which picture of ours it was made of.
    private static let stampText = "CloudFS::Picture"
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

    /// Sizes that are filled: those that every desktop shows, and the larger ones if a desktop
    /// of this user has made a folder for them, as those of dense screens do.
    func sizes() -> [ThumbnailSize] {
        ThumbnailSize.allCases.filter { size in
            var status = stat()
            return size.isSmall
                || lstat("\(root)/\(size.folderName)", &status) == 0
                    && status.st_mode & S_IFMT == S_IFDIR
        }
    }

    /// What tells a picture from another one.
    static func stamp(of image: ThumbnailImage) -> String {
        Hexadecimal.text(Insecure.MD5.hash(data: image.bytes))
    }

    /// Whether the thumbnail shows the file as it is now.
    ///
    /// - Parameter stamp: Of the picture that there is; one that another program made is left.
    func isFresh(_ subject: Subject, _ size: ThumbnailSize, stamp: String? = nil) -> Bool {
        let uri = Self.uri(of: subject.path)
        let texts = texts(Self.name(uri), size)
        guard texts["Thumb::URI"] == uri, texts["Thumb::MTime"] == String(subject.modified) else {
            return false
        }
        guard let stamp, texts["Software"] == Self.maker else { return true }
        return texts[Self.stampText] == stamp
    }

    /// - Parameter picture: A PNG.
    /// - Parameter stamp: Of the picture that it was made of.
    /// - Throws: `denied` for folders that are not the user's own; errors of the disk.
    func write(
        _ picture: [UInt8],
        of subject: Subject,
        _ size: ThumbnailSize,
        stamp: String
    ) throws(CloudFSError) {
        let uri = Self.uri(of: subject.path)
        let texts = [
            ("Thumb::URI", uri), ("Thumb::MTime", String(subject.modified)),
            ("Thumb::Size", String(subject.size)), ("Thumb::Mimetype", subject.type),
            ("Software", Self.maker), (Self.stampText, stamp),
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
            // One that is not ours holds nothing of ours, though it may say so.
            guard let folder = try? openFolder(size).descriptor else { continue }
            unlinkat(folder, name, 0)
            close(folder)
        }
    }

    /// What was written for a path that `isGone` says is no file any more is removed.
    func sweep(isGone: (_ path: String) -> Bool) {
        for size in ThumbnailSize.allCases {
            // The desktop has none of that size, or it is not ours.
            guard let folder = try? openFolder(size, isMade: false).descriptor else { continue }
            defer { close(folder) }
            for name in Self.names(in: folder).prefix(Self.mostSwept) {
                let texts = texts(name, size)
                guard texts["Software"] == Self.maker,
                    let path = texts["Thumb::URI"].flatMap(Self.path(of:)), isGone(path)
                else { continue }
                unlinkat(folder, name, 0)
            }
        }
    }

    /// Bounds what one sweep looks at.
    private static let mostSwept = 100_000

    /// - Returns: `nil` for what is no URI of a file.
    static func path(of uri: String) -> String? {
        guard uri.hasPrefix("file:///") else { return nil }
        return String(uri.dropFirst("file://".count)).removingPercentEncoding
    }

    private static func names(in folder: Int32) -> [String] {
        let copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard copy >= 0, let stream = fdopendir(copy) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(".png") { names.append(name) }
        }
        return names
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

    /// The folder of a size.
    ///
    /// - Parameter isMade: Whether it is made if need be.
    private func openFolder(
        _ size: ThumbnailSize,
        isMade: Bool = true
    ) throws(CloudFSError) -> (descriptor: Int32, owner: Owner?) {
        let top = try openRoot(isMade: isMade)
        defer { close(top.descriptor) }
        return try Self.openFolder(size.folderName, in: top.descriptor, top.owner, isMade)
    }

    /// The folder of all sizes.
    ///
    /// What leads there belongs to the user, too: root follows no link anywhere on the way, or
    /// the user would choose where root writes.
    private func openRoot(
        isMade: Bool
    ) throws(CloudFSError) -> (descriptor: Int32, owner: Owner?) {
        guard geteuid() == 0 else { return try Self.openFolder(root, in: AT_FDCWD, nil, isMade) }
        var folder = try Self.openFolder("/", in: AT_FDCWD, nil, false)
        let names = root.split(separator: "/").map(String.init)
        for (index, name) in names.enumerated() {
            let (above, owner) = folder
            defer { close(above) }
            let isLast = index == names.count - 1
            folder = try Self.openFolder(name, in: above, isLast ? owner : nil, isMade && isLast)
        }
        return folder
    }

    /// - Parameter owner: Whose it has to be; `nil` for anybody's, or the own user's.
    /// - Returns: `owner` is whom files are given to; only root can, and has to.
    private static func openFolder(
        _ name: String,
        in folder: Int32,
        _ owner: Owner?,
        _ isMade: Bool
    ) throws(CloudFSError) -> (descriptor: Int32, owner: Owner?) {
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        var descriptor = openat(folder, name, flags)
        if descriptor < 0, errno == ENOENT, isMade, mkdirat(folder, name, 0o700) == 0 {
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

import CLinux
import Glibc

/// The bytes of all items on this machine: one sparse file for each generation of each.
///
/// `content/<xx>/<item>.<generation>`; files are made exclusively and never adopted. A folder is
/// made with the first file in it. It can hold the only copy of a user's bytes: nothing here is a
/// cache.
final class ContentStore: Sendable {
    private let root: String
    private let measure: DiskSpace.Measure

    /// Opens the store below the folder `root`, making it if there is none.
    ///
    /// - Parameter space: Tells how much room its disk has.
    init(
        root: String,
        space: @escaping DiskSpace.Measure = DiskSpace.ofDisk
    ) throws(CloudFSError) {
        self.root = root
        measure = space
        try Self.makeFolder(root)
        try Self.makeFolder(root + "/content")
        try Self.makeFolder(root + "/staging")
        try Self.makeFolder(root + "/lost+found")
        try emptyStaging()
    }

    /// Where a generation lies; for programs that are shown nothing else.
    func path(_ item: ItemID, _ generation: Int64) -> String {
        "\(folder(of: item))/\(item).\(generation)"
    }

    private func folder(of item: ItemID) -> String {
        let bucket = Self.hex(Int(truncatingIfNeeded: item.rawValue & 0xff))
        return "\(root)/content/\(bucket)"
    }

    /// Makes the file of a new generation, `size` bytes long and all holes.
    ///
    /// - Throws: `exists` if that generation was used before; `diskFull`, `tooManyOpen`.
    func create(_ item: ItemID, generation: Int64, size: Int64) throws(CloudFSError) -> ContentFile
    {
        let flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        let path = path(item, generation)
        var descriptor = Glibc.open(path, flags, 0o600)
        if descriptor < 0, errno == ENOENT {
            try Self.makeFolder(folder(of: item))
            descriptor = Glibc.open(path, flags, 0o600)
        }
        guard descriptor >= 0 else { throw ContentFile.failure("create") }
        let file = ContentFile(descriptor: descriptor)
        do throws(CloudFSError) {
            if size > 0 { try file.truncate(to: size) }
        } catch {
            // Nothing names it, so nobody would.
            unlink(path)
            throw error
        }
        return file
    }

    /// A generation to be read and written; to be read only if its disk became read-only, as the
    /// kernel makes one that fails.
    func open(_ item: ItemID, generation: Int64) throws(CloudFSError) -> ContentFile {
        let path = path(item, generation)
        let descriptor = Glibc.open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        if descriptor < 0, errno == EROFS { return try openToRead(item, generation: generation) }
        guard descriptor >= 0 else { throw ContentFile.failure("open") }
        return ContentFile(descriptor: descriptor)
    }

    /// A generation to be read only.
    ///
    /// Who looks so is no writer: whether there is one can be told meanwhile.
    func openToRead(_ item: ItemID, generation: Int64) throws(CloudFSError) -> ContentFile {
        let descriptor = Glibc.open(path(item, generation), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw ContentFile.failure("open") }
        return ContentFile(descriptor: descriptor, isWritable: false)
    }

    /// Unlinks a generation; one that is gone already is no error.
    func remove(_ item: ItemID, generation: Int64) throws(CloudFSError) {
        guard unlink(path(item, generation)) == 0 || errno == ENOENT else {
            throw ContentFile.failure("unlink")
        }
    }

    /// `TMPFS_MAGIC`.
    private static let memoryFilesystem: Int64 = 0x0102_1994

    /// A file without a name on the disk of the store.
    ///
    /// - Throws: `unsupported` where it could not be told whether a program has a file mapped.
    func scratch() throws(CloudFSError) -> ContentFile {
        let descriptor = Glibc.open(root + "/staging", clinux_o_tmpfile | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw ContentFile.failure("stage") }
        let file = ContentFile(descriptor: descriptor)
        let reader = Glibc.open("/proc/self/fd/\(descriptor)", O_RDONLY | O_CLOEXEC)
        guard reader >= 0 else { throw ContentFile.failure("stage") }
        defer { close(reader) }
        guard clinux_has_writers(reader) == 1 else {
            throw CloudFSError(.unsupported, "the disk of the state directory knows no leases")
        }
        var type: Int64 = 0
        var identifier: UInt64 = 0
        guard clinux_filesystem(descriptor, &type, &identifier) == 0 else {
            throw ContentFile.failure("look at the disk")
        }
        guard type != Self.memoryFilesystem else {
            throw CloudFSError(.unsupported, "files in memory keep no times of mapped writes")
        }
        return file
    }

    /// Whether nobody can write to a generation any more: not through a mapping either, which
    /// lives longer than the handle it was made with.
    ///
    /// No descriptor for writing may be open here. What cannot be told, as for want of a
    /// descriptor, counts as written: whoever asks does so again.
    func isUnwritten(_ item: ItemID, generation: Int64) -> Bool {
        let descriptor = Glibc.open(path(item, generation), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return errno == ENOENT }
        defer { close(descriptor) }
        switch clinux_has_writers(descriptor) {
        case 0: return true
        case 1: return false
        // Without leases nothing was ever passed through.
        default: return errno == EINVAL
        }
    }

    /// A private copy of `file`, which later writes do not reach; it has no name.
    ///
    /// In memory when it is small, as a new file of the disk costs more than its bytes; else a
    /// reflink where the disk can, else a copy when the file has at most `copyLimit` bytes.
    /// - Returns: `nil` when neither is possible: the file must be read in place.
    func snapshot(of file: ContentFile, copyLimit: Int64) throws(CloudFSError) -> ContentFile? {
        let size = try file.facts().size
        if size <= Self.memoryLimit { return try copyInMemory(of: file, size: size) }
        let descriptor = Glibc.open(root + "/staging", clinux_o_tmpfile | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw ContentFile.failure("stage") }
        let copy = ContentFile(descriptor: descriptor)
        if clinux_clone(descriptor, file.descriptor) == 0 { return copy }
        guard size <= copyLimit else { return nil }
        do throws(CloudFSError) {
            try copy.copyAll(of: file, size: size)
        } catch  where error.isLackOfRoom {
            // Sending it is what makes room.
            return nil
        }
        return copy
    }

    /// Up to which length copies are held in memory, in bytes; 256 KiB.
    private static let memoryLimit: Int64 = 256 << 10

    private func copyInMemory(
        of file: ContentFile,
        size: Int64
    ) throws(CloudFSError) -> ContentFile {
        let descriptor = clinux_memfd_create("cloudfs-snapshot")
        guard descriptor >= 0 else { throw ContentFile.failure("copy to memory") }
        let copy = ContentFile(descriptor: descriptor)
        var offset = 0
        while offset < size {
            let count = sendfile(descriptor, file.descriptor, &offset, Int(size) - offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw ContentFile.failure("copy to memory") }
            guard count > 0 else { break }
        }
        return copy
    }

    /// Puts everything that was written to any file on the disk.
    func synchronize() throws(CloudFSError) {
        let descriptor = Glibc.open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw ContentFile.failure("open the store") }
        defer { close(descriptor) }
        guard clinux_syncfs(descriptor) == 0 else { throw ContentFile.failure("flush the store") }
    }

    /// Names the time for which the disk of the store has been mounted.
    ///
    /// In another one, what was not flushed before may be gone.
    func mounting() throws(CloudFSError) -> String {
        let descriptor = Glibc.open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw ContentFile.failure("open the store") }
        defer { close(descriptor) }
        return "\(ProcessIdentity.currentBoot ?? "")/\(clinux_mount_number(descriptor))"
    }

    /// Gives a content file a second name, as a new generation.
    func link(
        _ item: ItemID,
        generation: Int64,
        as newItem: ItemID,
        _ newGeneration: Int64
    ) throws(CloudFSError) {
        let (path, newPath) = (path(item, generation), path(newItem, newGeneration))
        if Glibc.link(path, newPath) == 0 { return }
        // The folder of the new name may be what is not there.
        guard errno == ENOENT else { throw ContentFile.failure("link") }
        try Self.makeFolder(folder(of: newItem))
        guard Glibc.link(path, newPath) == 0 else { throw ContentFile.failure("link") }
    }

    /// All generations in the store.
    ///
    /// - Returns: Items with generations; names that are no generation are left out.
    func generations() throws(CloudFSError) -> [(item: ItemID, generation: Int64)] {
        var found: [(item: ItemID, generation: Int64)] = []
        for folder in try Self.names(in: root + "/content") where folder.utf8.count == 2 {
            for name in try Self.names(in: "\(root)/content/\(folder)") {
                let parts = name.split(separator: ".")
                guard parts.count == 2, let item = Int64(parts[0]), let generation = Int64(parts[1])
                else { continue }
                found.append((ItemID(item), generation))
            }
        }
        return found
    }

    /// When a generation, or what is known of it, was last changed; `nil` if it is gone.
    func changeTime(
        _ item: ItemID,
        generation: Int64
    ) throws(CloudFSError) -> Timestamp? {
        var status = stat()
        guard lstat(path(item, generation), &status) == 0 else {
            guard errno == ENOENT else { throw ContentFile.failure("look at") }
            return nil
        }
        return Timestamp(
            seconds: Int64(status.st_ctim.tv_sec),
            nanoseconds: Int64(status.st_ctim.tv_nsec)
        )
    }

    /// Puts a file that nothing names where a person can find it.
    func moveToLostAndFound(_ item: ItemID, generation: Int64) throws(CloudFSError) {
        let target = "\(root)/lost+found/\(item).\(generation)"
        guard Glibc.rename(path(item, generation), target) == 0 else {
            throw ContentFile.failure("move to lost+found")
        }
    }

    /// The room on the disk below the store.
    func space() throws(CloudFSError) -> DiskSpace {
        try measure(root)
    }

    private func emptyStaging() throws(CloudFSError) {
        for name in try Self.names(in: root + "/staging")
        where unlink("\(root)/staging/\(name)") != 0 {
            throw ContentFile.failure("empty the staging folder of")
        }
    }

    private static func names(in folder: String) throws(CloudFSError) -> [String] {
        guard let stream = opendir(folder) else { throw ContentFile.failure("list") }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    private static func makeFolder(_ path: String) throws(CloudFSError) {
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
            throw ContentFile.failure("make the folder of")
        }
    }

    private static func hex(_ value: Int) -> String {
        let text = String(value, radix: 16)
        return text.count < 2 ? "0" + text : text
    }
}

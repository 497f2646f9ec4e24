import Glibc

/// The room on a disk, in bytes.
struct DiskSpace: Sendable {
    /// Tells the room on the disk of a folder.
    typealias Measure = @Sendable (_ folder: String) throws(CloudFSError) -> DiskSpace

    var total: Int64
    /// With what is kept for root.
    var free: Int64
    var available: Int64

    /// Asks the system.
    @Sendable static func ofDisk(below folder: String) throws(CloudFSError) -> DiskSpace {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { throw ContentFile.failure("statvfs") }
        let unit = Int64(status.f_frsize)
        return DiskSpace(
            total: Int64(status.f_blocks) * unit,
            free: Int64(status.f_bfree) * unit,
            available: Int64(status.f_bavail) * unit
        )
    }
}

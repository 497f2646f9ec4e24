/// The mount of a drive, known again whatever else is mounted at its place.
///
/// The drive can be taken from its place while programs still use it, and something else be
/// mounted there, which is nobody's to take away.
struct OwnMount: Sendable {
    let mountpoint: Mountpoint
    /// The kernel's number of the file system, its own while it exists; `nil` if it is not known.
    let number: UInt64?
    /// A drive of which many files are open is to be known, and taken away, like any other.
    private let table: OpenMountTable

    /// Looks at a drive that was just mounted.
    ///
    /// - Throws: `internalFailure` if the kernel does not tell.
    init(at mountpoint: Mountpoint) throws(CloudFSError) {
        let record = try MountTable.top(at: mountpoint.path)
        let isDrive = record?.type == Mountpoint.typeName
        try self.init(mountpoint, number: isDrive ? record?.number : nil)
    }

    /// - Parameters:
    ///   - mountpoint: Where a drive was mounted.
    ///   - number: What was known of it then.
    /// - Throws: `internalFailure` if the kernel will not tell what is mounted.
    init(_ mountpoint: Mountpoint, number: UInt64?) throws(CloudFSError) {
        self.mountpoint = mountpoint
        self.number = number
        table = try OpenMountTable()
    }

    /// Whether it is what is on top at its place.
    ///
    /// - Throws: `internalFailure` if the kernel does not tell.
    func isOnTop() throws(CloudFSError) -> Bool {
        guard let number, let top = try table.top(at: mountpoint.path) else { return false }
        return top.type == Mountpoint.typeName && top.number == number
    }
}

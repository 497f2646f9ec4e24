extension Purpose {
    /// All plain access through the mount: `vim` never waits for `cp`.
    static let mount = Purpose("mount")
    /// Uploads, replacement by newer versions, eviction.
    static let sync = Purpose("sync")
}

extension Purpose {
    /// All plain access through the mount: `vim` never waits for `cp`.
    static let mount = Purpose("mount")
    /// Uploads, replacement by newer versions, eviction.
    static let sync = Purpose("sync")

    /// The purpose of a program that asks for claims, by the name that it gives itself.
    static func program(_ name: String) -> Purpose { Purpose(programPrefix + name) }

    private static let programPrefix = "program:"

    /// What a program calls its purpose; `nil` for others.
    var programName: String? {
        rawValue.hasPrefix(Self.programPrefix)
            ? String(rawValue.dropFirst(Self.programPrefix.count)) : nil
    }

    /// Whether it is that of a program which asks for claims.
    var isForeign: Bool { self != .mount && self != .sync }
}

extension Claimant {
    /// The sync engine.
    static let sync = Claimant(.sync)

    /// The engine where plain programs do not keep it waiting: whether they use a file is looked up
    /// elsewhere.
    static let besidePlain = Claimant(.mount)

    /// A program that knows nothing of claims.
    static func plain(_ process: Int32) -> Claimant { Claimant(.mount, process: process) }
}

/// A document with more than one version.
public struct ConflictGroup: Codable, Sendable, Hashable {
    /// One of the versions, visible in the folder under its own name.
    public struct Version: Codable, Sendable, Hashable {
        public var path: DrivePath
        /// The device that wrote it, if that is known.
        public var device: String?
        public var modified: WireTime
        public var size: Int64

        public init(path: DrivePath, device: String?, modified: WireTime, size: Int64) {
            self.path = path
            self.device = device
            self.modified = modified
            self.size = size
        }
    }

    /// The document that has the name.
    public var path: DrivePath
    /// The conflict versions; the document itself is not among them.
    public var versions: [Version]

    public init(path: DrivePath, versions: [Version]) {
        self.path = path
        self.versions = versions
    }
}

/// The body of `POST /v1/conflicts/versions`.
public struct ConflictQuery: Codable, Sendable, Hashable {
    /// The document, or one of its versions.
    public var path: DrivePath

    public init(path: DrivePath) {
        self.path = path
    }
}

/// The body of `POST /v1/conflicts/resolve`.
public struct ConflictResolution: Codable, Sendable, Hashable {
    public enum Keep: String, Codable, Sendable, Hashable, CaseIterable {
        /// The version at the path is the document; the others are removed.
        case this
        /// Each version becomes a document with a name of its own.
        case all
    }

    /// One of the versions, or the document.
    public var path: DrivePath
    public var keep: Keep
    /// The conflict versions that the caller knows of: if there are others by now, nothing is done.
    ///
    /// `nil` for whichever there are.
    public var versions: [DrivePath]?

    public init(path: DrivePath, keep: Keep, versions: [DrivePath]? = nil) {
        self.path = path
        self.keep = keep
        self.versions = versions
    }
}

/// What became of the versions of a document.
public struct ConflictOutcome: Codable, Sendable, Hashable {
    /// Where the version named is now.
    public var path: DrivePath
    /// The versions that are gone.
    public var removed: [DrivePath]
    /// Where versions that became documents are now.
    public var renamed: [DrivePath]

    public init(path: DrivePath, removed: [DrivePath], renamed: [DrivePath]) {
        self.path = path
        self.removed = removed
        self.renamed = renamed
    }
}

/// A page of conflicts; the versions of one document may be on several.
public struct ConflictPage: Codable, Sendable, Hashable {
    public var conflicts: [ConflictGroup]
    public var next: String?

    public init(conflicts: [ConflictGroup], next: String? = nil) {
        self.conflicts = conflicts
        self.next = next
    }
}

/// Which programs had bytes brought here.
public struct ActivityReport: Codable, Sendable, Hashable {
    /// One program, by the file name of its executable or script.
    public struct Program: Codable, Sendable, Hashable {
        /// What a program reads for, as far as its name tells.
        public enum Purpose: String, Codable, Sendable, Hashable, CaseIterable {
            case person
            /// Looks at the beginning of files.
            case inspector
            case thumbnailer
            case indexer
            case backup
            /// The configuration names it.
            case named
        }

        public var program: String
        public var purpose: Purpose
        /// How often it opened a file and waited for bytes.
        public var files: Int64
        /// What came from the cloud for it, with what was read ahead.
        public var bytes: Int64
        /// Reads that got an error instead of a download.
        public var refusedReads: Int64
        /// When it last had something brought, or was refused.
        public var last: WireTime

        public init(
            program: String,
            purpose: Purpose,
            files: Int64,
            bytes: Int64,
            refusedReads: Int64,
            last: WireTime
        ) {
            self.program = program
            self.purpose = purpose
            self.files = files
            self.bytes = bytes
            self.refusedReads = refusedReads
            self.last = last
        }
    }

    /// The last ones, the latest first.
    public var programs: [Program]

    public init(programs: [Program]) {
        self.programs = programs
    }
}

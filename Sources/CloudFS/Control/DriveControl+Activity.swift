import CloudFSControlAPI

extension DriveControl {
    func activity() async throws(CloudFSError) -> ActivityReport {
        ActivityReport(
            programs: filesystem.programs.activity.all.map { name, counts in
                ActivityReport.Program(
                    program: name,
                    purpose: ActivityReport.Program.Purpose(counts.purpose),
                    files: counts.files,
                    bytes: counts.bytes,
                    refusedReads: counts.refusedReads,
                    last: counts.last.wire
                )
            }
        )
    }
}

extension ActivityReport.Program.Purpose {
    init(_ purpose: ProgramPurpose) {
        switch purpose {
        case .person: self = .person
        case .inspector: self = .inspector
        case .thumbnailer: self = .thumbnailer
        case .indexer: self = .indexer
        case .backup: self = .backup
        case .named: self = .named
        }
    }
}

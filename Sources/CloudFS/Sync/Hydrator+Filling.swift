/// Pieces of answers on their way to the disk.
extension Hydrator {
    /// Puts a piece of an answer where bytes are still absent.
    ///
    /// Several pieces of one file at once, and its readers go on meanwhile.
    func fill(
        _ request: HydrationPlan.RequestID,
        _ generation: Int64,
        _ offset: Int64,
        _ piece: ContentPiece,
        of file: OpenFile
    ) throws(CloudFSError) -> [HydrationPlan.Action] {
        counters.withLock { $0.bytes += Int64(piece.count) }
        let range = offset..<offset + Int64(piece.count)
        return try file.filling.shared { () throws(CloudFSError) in
            let (content, parts) = try wanted(range, request, generation, of: file)
            try FaultPoint.hydrateChosen.pass()
            for part in parts {
                let place = Int(part.lowerBound - offset)..<Int(part.upperBound - offset)
                try piece.withBytes { bytes throws(CloudFSError) in
                    try content.write(bytes[place], at: part.lowerBound)
                }
            }
            return try file.state.withLock { state throws(CloudFSError) in
                // The content may have been dropped meanwhile, and another plan been made.
                guard state.generation == generation, state.content === content else {
                    throw Self.replaced(file)
                }
                state.unstoredBytes += parts.reduce(0) { $0 + Int64($1.count) }
                // After a crash the content of what was changed here tells when that was.
                if state.isDirty { try content.setModified(state.modified) }
                return files.handle(.delivered(request, range), &state, files.clocks.elapsed())
            }
        }
    }

    /// Which parts of a piece are to be written, and where.
    ///
    /// The tail of a file that was cut meanwhile is not wanted, nor is what is present.
    private func wanted(
        _ range: Range<Int64>,
        _ request: HydrationPlan.RequestID,
        _ generation: Int64,
        of file: OpenFile
    ) throws(CloudFSError) -> (ContentFile, [Range<Int64>]) {
        try file.state.withLock { state throws(CloudFSError) in
            if let asker = state.asker {
                programs.activity.noteBytes(range.count, for: asker, at: files.clocks.now())
            }
            guard state.generation == generation, let content = state.content,
                let plan = state.plan
            else { throw Self.replaced(file) }
            return (content, plan.wanted(of: range, for: request))
        }
    }

    private static func replaced(_ file: OpenFile) -> CloudFSError {
        CloudFSError(.cancelled, "the content was replaced", item: file.id)
    }
}

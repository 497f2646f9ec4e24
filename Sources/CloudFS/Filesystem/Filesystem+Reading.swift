import Glibc

extension Filesystem {
    /// Where the bytes of a read are, or what brings them.
    ///
    /// What is all here is answered without a look at who asks: see `ReadingPrograms`.
    ///
    /// - Parameter thread: Who reads; 0 where the kernel cannot tell.
    /// - Throws: What a program that is refused downloads meets where bytes are absent.
    func read(
        _ number: UInt64,
        offset: Int64,
        count: Int,
        by thread: Int32
    ) throws(CloudFSError) -> Answer<ReadSource> {
        let handle = try handles.file(number)
        guard handle.isReadable else { throw Self.badMode(handle) }
        // Else whoever opens the file next would wait for this read, in the kernel.
        if handle.noteRead() { files.caches.noteUsed(handle.file.id, by: number) }
        let here = try look(handle.file, offset, count)
        if case .complete(let source) = here { return .ready(source) }
        let program = programs.program(of: thread, openedBy: handle.opener)
        guard !program.isRefused else {
            if let source = here.source { return .ready(source) }
            programs.activity.noteRefusal(of: program, at: clocks.now())
            throw programs.refusal(of: program, handle.file.id)
        }
        // The kernel reads whole pages, the last one that there can be as well.
        let range = offset..<offset + min(Int64(count), .max - offset)
        // What is here is no reason to read ahead on behalf of somebody, but it shows habits.
        let wait = try hydrator.begin(
            handle.file,
            range: range,
            handle: program.purpose == .inspector ? nil : handle.number,
            asker: here.source == nil ? program : nil
        )
        let arrived = wait == nil ? try look(handle.file, offset, count).source : nil
        if let source = here.source ?? arrived { return .ready(source) }
        if handle.noteWaiting() { programs.activity.noteFile(program, at: clocks.now()) }
        return .pending { () throws(CloudFSError) in
            try await self.source(of: handle.file, range, after: wait)
        }
    }

    /// Where the bytes are once they are here.
    private func source(
        of file: OpenFile,
        _ range: Range<Int64>,
        after first: HydrationWait?
    ) async throws(CloudFSError) -> ReadSource {
        var wait = first
        while true {
            if let wait { try await hydrator.finish(wait) }
            let here = try presence(of: file, range.lowerBound, range.count)
            if let source = here.source, try here.torn == nil { return source }
            // They came, and were dropped at once for want of room, or the disk lost them.
            let again = try await hydrator.blocking { () throws -> Arrival in
                if let source = try self.look(file, range.lowerBound, range.count).source {
                    return .here(source)
                }
                return .awaited(try self.hydrator.begin(file, range: range, handle: nil))
            }
            switch again {
            case .here(let source): return source
            case .awaited(let next): wait = next
            }
        }
    }

    private enum Arrival {
        case here(ReadSource)
        case awaited(HydrationWait?)
    }

    /// How much of what is asked for is here, and where.
    private enum Presence {
        /// The whole file.
        case complete(ReadSource)
        /// What is asked for, and not all of the file.
        case range(ReadSource)
        case absent

        var source: ReadSource? {
            switch self {
            case .complete(let source), .range(let source): source
            case .absent: nil
            }
        }

        /// The content, if the disk lost bytes of it: what is all here was flushed as such, so only
        /// what is not can have been lost unnoticed.
        var torn: ContentFile? {
            get throws(CloudFSError) {
                guard case .range(.file(let content, _, _, _)) = self, try content.hasLosses
                else { return nil }
                return content
            }
        }
    }

    /// Looks for bytes that the disk has not lost; what it lost is dropped, which may block.
    ///
    /// - Throws: What the catalog says, if it cannot note that lost bytes are absent.
    private func look(
        _ file: OpenFile,
        _ offset: Int64,
        _ count: Int
    ) throws(CloudFSError) -> Presence {
        let here = try presence(of: file, offset, count)
        guard let torn = try here.torn, try hydrator.dropTorn(torn, of: file) else { return here }
        return .absent
    }

    private func presence(
        of file: OpenFile,
        _ offset: Int64,
        _ count: Int
    ) throws(CloudFSError) -> Presence {
        try file.state.withLock { state throws(CloudFSError) in
            guard offset < state.size, count > 0 else { return .complete(.bytes([])) }
            let count = Int(min(Int64(count), state.size - offset))
            let range = offset..<offset + Int64(count)
            // A placeholder that nobody asked for has no content file, and gets none.
            if let plan = state.plan, !plan.isPresent(range) { return .absent }
            let content = try files.content(of: &state, file.id)
            guard state.plan != nil else {
                return .complete(.file(content, offset: offset, count: count, held: nil))
            }
            let held = HeldRange(range, of: file)
            return .range(.file(content, offset: offset, count: count, held: held))
        }
    }

    static func badMode(_ handle: FileHandle) -> CloudFSError {
        CloudFSError(.badHandle, "the file is not open for that", item: handle.file.id)
    }
}

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
        let (source, presence) = try source(handle.file, offset, count)
        if presence == .complete { return .ready(source) }
        let program = programs.program(of: thread, openedBy: handle.opener)
        guard !program.isRefused else {
            if presence == .range { return .ready(source) }
            programs.activity.noteRefusal(of: program, at: clocks.now())
            throw programs.refusal(of: program, handle.file.id)
        }
        // The kernel reads whole pages, the last one that there can be as well.
        let range = offset..<offset + min(Int64(count), .max - offset)
        // What is no habit is not read ahead of.
        let asker = presence == .range ? nil : program
        let wait = try hydrator.begin(
            handle.file,
            range: range,
            handle: program.purpose == .inspector ? nil : handle.number,
            asker: asker
        )
        if presence == .range { return .ready(source) }
        if wait == nil {
            let (source, presence) = try self.source(handle.file, offset, count)
            if presence != .absent { return .ready(source) }
        }
        if handle.noteWaiting() { programs.activity.noteFile(program, at: clocks.now()) }
        return .pending { () throws(CloudFSError) in
            var wait = wait
            while true {
                if let wait { try await self.hydrator.finish(wait) }
                let (source, presence) = try self.source(handle.file, offset, count)
                if presence != .absent { return source }
                // They came, and were dropped at once for want of room.
                wait = try self.hydrator.begin(handle.file, range: range, handle: nil)
            }
        }
    }

    /// How much of what is asked for is here.
    private enum Presence {
        /// The whole file.
        case complete
        /// What is asked for, and not all of the file.
        case range
        case absent
    }

    /// Where the bytes are or will be, and whether they need fetching.
    private func source(
        _ file: OpenFile,
        _ offset: Int64,
        _ count: Int
    ) throws(CloudFSError) -> (source: ReadSource, presence: Presence) {
        try file.state.withLock { state throws(CloudFSError) in
            guard offset < state.size, count > 0 else { return (.bytes([]), .complete) }
            let count = Int(min(Int64(count), state.size - offset))
            let range = offset..<offset + Int64(count)
            // A placeholder that nobody asked for has no content file, and gets none.
            if let plan = state.plan, !plan.isPresent(range), state.generation == 0 {
                return (.bytes([]), .absent)
            }
            let content = try files.content(of: &state, file.id)
            guard let plan = state.plan else {
                return (.file(content, offset: offset, count: count, held: nil), .complete)
            }
            guard plan.isPresent(range) else { return (.bytes([]), .absent) }
            let held = HeldRange(range, of: file)
            return (.file(content, offset: offset, count: count, held: held), .range)
        }
    }

    static func badMode(_ handle: FileHandle) -> CloudFSError {
        CloudFSError(.badHandle, "the file is not open for that", item: handle.file.id)
    }
}

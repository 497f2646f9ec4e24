/// What files were before their content was replaced, until the new content is on the disk.
extension OpenFiles {
    /// How long it is kept for content that nobody flushes or sends: as long as the system leaves
    /// written pages in memory.
    private static let previousAge = Duration.seconds(30)
    /// The same for content that is still being written.
    private static let longestPreviousAge = Duration.seconds(300)
    /// Of how many files at most.
    private static let mostPrevious = 1024
    /// So many times as much room must be free.
    private static let previousShare: Int64 = 8
    /// Of so many files one flush of the whole disk is cheaper.
    private static let mostFlushes = 16

    /// Keeps what the cloud has of a file that is about to be emptied in place.
    func keepVersion(of state: OpenFile.State, _ id: ItemID) throws(CloudFSError) {
        try catalog.write { writer in
            let record = try writer.reader.existing(id)
            let base = try writer.reader.base(of: id)
            guard !record.hasChangedContent || state.hasNothingToSend(beside: base) else { return }
            try writer.keepVersion(of: record, at: clocks.now())
        }
    }

    /// Lets go of what a file was before the content that was flushed.
    func releasePrevious(of flushed: ContentName) throws(CloudFSError) {
        guard try catalog.readFew({ try $0.previous(of: flushed.item) }) != nil else { return }
        try catalog.write { try $0.releasePrevious(of: flushed) }
    }

    /// Flushes what took the place of other content long ago, so that that can go; at once where it
    /// is much, or room is short.
    ///
    /// - Returns: In which time to look again; `nil` if nothing is kept.
    func flushReplacing() throws(CloudFSError) -> Duration? {
        let kept = try catalog.read { try $0.allPrevious() }
        guard !kept.isEmpty else { return nil }
        if try isTooMuch(kept) {
            try flush(kept.map(\.item))
            return Self.previousAge
        }
        let now = clocks.now()
        let rests = kept.map { ($0.item, rest(of: $0, at: now)) }
        try flush(rests.filter { $0.1 <= .zero }.map(\.0))
        return rests.map(\.1).filter { $0 > .zero }.min() ?? Self.previousAge
    }

    /// Flushes what took the place of what the cloud has of an item, before that is replaced or
    /// deleted there: until then it is all there is of a document.
    ///
    /// - Throws: `cancelled` while a program is still writing it; `corrupt` if the disk lost some
    ///   of it.
    func flushReplacing(whatCloudHasOf id: ItemID) throws(CloudFSError) {
        let replacing = try catalog.readFew { try $0.previous(inCloudOf: id) }.map(\.item)
        guard !replacing.isEmpty else { return }
        for other in replacing
        where live(other)?.state.withLock({ $0.isBeingWritten }) == true {
            throw CloudFSError(.cancelled, "what was saved over it is being written", item: id)
        }
        try flush(replacing)
        guard try catalog.readFew({ try $0.previous(inCloudOf: id) }).isEmpty else {
            throw CloudFSError(.corrupt, "the disk lost some of what was saved over it", item: id)
        }
        try catalog.makeDurable()
    }

    /// In which time content is to be flushed that took the place of other content.
    private func rest(of previous: PreviousContent, at now: Timestamp) -> Duration {
        let age = now.since(previous.since)
        // The clock was set back.
        if age < .zero { return .zero }
        guard age >= Self.previousAge,
            live(previous.item)?.state.withLock({ $0.isBeingWritten }) == true
        else { return Self.previousAge - age }
        // One look for each time it is put off.
        return age < Self.longestPreviousAge ? Self.previousAge : .zero
    }

    private func isTooMuch(_ kept: [PreviousContent]) throws(CloudFSError) -> Bool {
        guard kept.count <= Self.mostPrevious else { return true }
        let bytes = kept.reduce(0) { $0 + ($1.content.generation == 0 ? 0 : $1.size) }
        return try bytes > store.space().available / Self.previousShare
    }

    private func flush(_ items: [ItemID]) throws(CloudFSError) {
        guard !items.isEmpty else { return }
        var contents = try catalog.read { reader in
            try items.compactMap { id in
                try reader.item(id).map {
                    ContentName(item: id, generation: $0.item.content.generation)
                }
            }
        }
        if contents.count > Self.mostFlushes {
            try store.synchronize()
        } else {
            var flushed: [ContentName] = []
            for name in contents where try flush(name) { flushed.append(name) }
            contents = flushed
        }
        guard !contents.isEmpty else { return }
        try catalog.write(isLong: true) { writer in
            for name in contents { try writer.releasePrevious(of: name) }
        }
    }

    /// - Returns: Whether it is on the disk; one that is gone takes the place of nothing, nor does
    ///   one of which the disk lost bytes.
    private func flush(_ name: ContentName) throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            let content = try store.openToRead(name.item, generation: name.generation)
            if try content.isTorn { return false }
            try content.synchronize()
            return true
        } catch  where error.code == .notFound {
            return false
        }
    }
}

/// Files that programs have open, though others were saved in their places.
extension OpenFiles {
    func noteReplaced(_ id: ItemID, by heir: ItemID) {
        live(id)?.state.withLock { state in
            state.heir = heir
            if state.handles > 0, state.plan != nil { hasReplaced.store(true, ordering: .relaxed) }
        }
    }

    func replacedFiles(by heir: ItemID) -> [ItemID] {
        inUse.filter { file in file.state.withLock { $0.heir == heir && $0.handles > 0 } }
            .map(\.id)
    }
}

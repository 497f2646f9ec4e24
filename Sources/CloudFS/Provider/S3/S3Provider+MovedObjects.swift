/// The objects of a folder that moves.
extension S3Provider {
    /// Copies all objects of the old folder that the new one lacks.
    func copyAll(_ move: S3Move) async throws(CloudFSError) {
        try await client.listAll(prefix: move.source, delimiter: false) {
            page throws(CloudFSError) in
            _ = try await self.copyPage(page.objects, move, isCopied: false)
            return true
        }
    }

    /// How many requests in a row may stay unheard while a folder is emptied.
    private static let mostUnheard = 3

    /// How often in a row a page may be listed once more before it is deleted.
    private static let mostLooks = 5

    /// Deletes the objects that are in the new place as they are in the old.
    func deleteCopied(_ move: S3Move) async throws(CloudFSError) {
        var last: [S3Object] = []
        var (unheard, looks) = (0, 0)
        while true {
            try await keepTold(move, isCopied: true)
            let objects = try await firstPage(of: move.source)
            guard !objects.isEmpty else { return }
            guard objects != last else {
                throw CloudFSError(.corrupt, "the server does not delete what it says it does")
            }
            last = objects
            // Written while the folder moved: it is copied too, and then nothing is left behind.
            let hasCopied = try await copyPage(objects, move, isCopied: true)
            if hasCopied, !rules.delete.isHonoured, looks < Self.mostLooks {
                // Copies take their time, and who saved meanwhile is seen by another look only.
                looks += 1
                last = []
                continue
            }
            looks = 0
            do throws(CloudFSError) {
                try await delete(objects)
                unheard = 0
            } catch  where S3Client.isUnheard(error) && unheard < Self.mostUnheard {
                // What is there by now may be somebody else's, and is copied before it is deleted.
                unheard += 1
                last = []
            }
        }
    }

    private func delete(_ objects: [S3Object]) async throws(CloudFSError) {
        if !rules.delete.isHonoured, !client.lacksBatches {
            do throws(CloudFSError) {
                return try await deleteAtOnce(objects)
            } catch  where error.code == .unsupported {
                // One by one, then, with a look at each.
            }
        }
        let failure = await withTaskGroup(of: CloudFSError?.self) { group in
            var failure: CloudFSError?
            for (number, object) in objects.enumerated() where failure == nil {
                if number >= settings.parallelLooks, let ended = await group.next() {
                    failure = ended
                }
                group.addTask { await self.failureToDelete(object) }
            }
            return await group.reduce(into: failure) { $0 = $0 ?? $1 }
        }
        if let failure { throw failure }
    }

    /// Deletes an object as it was listed: what was written in its place since then is listed
    /// again, and copied first.
    private func failureToDelete(_ object: S3Object) async -> CloudFSError? {
        do throws(CloudFSError) {
            guard try await isAsListed(object) else { return nil }
            try await delete(object)
            return nil
        } catch {
            return error.code == .remoteChanged ? nil : error
        }
    }

    /// Looks once more, where the server does not.
    private func isAsListed(_ object: S3Object) async throws(CloudFSError) -> Bool {
        guard !rules.delete.isHonoured else { return true }
        // A look tells whole seconds.
        guard let now = try await client.headIfPresent(object.key)?.object else { return false }
        return now.entityTag == object.entityTag && now.size == object.size
            && now.lastModified.seconds == object.lastModified.seconds
    }

    /// Where deletions have no conditions, many are one request: it may take what was written since
    /// they were listed.
    private func deleteAtOnce(_ objects: [S3Object]) async throws(CloudFSError) {
        for error in try await client.deleteBatch(objects.map(\.key)) {
            let isRefusal = error.failure == .accessDenied
            throw CloudFSError(
                isRefusal ? .denied : .offline,
                "an object of the moved folder was not deleted: \(error.message)"
            )
        }
    }

    /// Pages may be empty before the last one, as where much was deleted just now.
    private func firstPage(of folder: [UInt8]) async throws(CloudFSError) -> [S3Object] {
        var check = S3ListingCheck()
        var token: String?
        repeat {
            let page = try await client.list(prefix: folder, delimiter: false, after: token)
            try check.note(page)
            if !page.objects.isEmpty { return page.objects }
            token = page.next
        } while token != nil
        return []
    }

    /// - Returns: Whether the new folder lacked any.
    private func copyPage(
        _ objects: [S3Object],
        _ move: S3Move,
        isCopied: Bool
    ) async throws(CloudFSError) -> Bool {
        let present = try await present(objects, move)
        let copied = await withTaskGroup(of: Result<Bool, CloudFSError>.self) { group in
            var copied = Result<Bool, CloudFSError>.success(false)
            for (number, object) in objects.enumerated() {
                if number >= settings.parallelLooks, let ended = await group.next() {
                    copied = Self.both(copied, ended)
                }
                guard case .success = copied else { break }
                if let failure = await self.failureToTell(move, isCopied: isCopied) {
                    copied = .failure(failure)
                    break
                }
                group.addTask {
                    await self.tryToCopy(
                        object,
                        over: present[move.newKey(of: object)],
                        move,
                        isCopied: isCopied
                    )
                }
            }
            return await group.reduce(copied, Self.both)
        }
        return try copied.get()
    }

    private static func both(
        _ one: Result<Bool, CloudFSError>,
        _ other: Result<Bool, CloudFSError>
    ) -> Result<Bool, CloudFSError> {
        one.flatMap { one in other.map { one || $0 } }
    }

    /// What the new folder has in the places of these objects, which are in order.
    private func present(
        _ objects: [S3Object],
        _ move: S3Move
    ) async throws(CloudFSError) -> [[UInt8]: S3Object] {
        guard let first = objects.first, let last = objects.last else { return [:] }
        let (start, end) = (move.newKey(of: first), move.newKey(of: last))
        var present: [[UInt8]: S3Object] = [:]
        if let copy = try await client.headIfPresent(start)?.object { present[start] = copy }
        try await client.listAll(prefix: move.target, delimiter: false, startAfter: start) {
            page throws(CloudFSError) in
            for object in page.objects { present[object.key] = object }
            guard let reached = page.objects.last?.key else { return true }
            return reached.lexicographicallyPrecedes(end)
        }
        return present
    }

    private func failureToTell(_ move: S3Move, isCopied: Bool) async -> CloudFSError? {
        do throws(CloudFSError) {
            try await keepTold(move, isCopied: isCopied)
            return nil
        } catch {
            return error
        }
    }

    private func tryToCopy(
        _ object: S3Object,
        over present: S3Object?,
        _ move: S3Move,
        isCopied: Bool
    ) async -> Result<Bool, CloudFSError> {
        do throws(CloudFSError) {
            return .success(try await copy(object, over: present, move, isCopied: isCopied))
        } catch {
            return .failure(error)
        }
    }

    /// How often what is to be done for an object is decided that others write meanwhile.
    private static let mostDecisions = 3

    /// - Returns: Whether there was anything to copy.
    private func copy(
        _ object: S3Object,
        over present: S3Object?,
        _ move: S3Move,
        isCopied: Bool
    ) async throws(CloudFSError) -> Bool {
        let key = move.newKey(of: object)
        guard key.count <= S3Keys.maximumByteCount else {
            throw CloudFSError(
                .nameTooLong,
                "an object in the folder would get a key of \(key.count) bytes"
            )
        }
        var (object, present) = (object, present)
        for number in 1...Self.mostDecisions {
            do throws(CloudFSError) {
                let step = move.step(for: object, over: present, isCopied: isCopied)
                return try await take(step, object, over: present, move, isCopied: isCopied)
            } catch  where Self.isConflict(error) && number < Self.mostDecisions {
                guard let head = try await client.headIfPresent(object.key) else { return false }
                object = head.object
                present = try await client.headIfPresent(key)?.object
            } catch  where error.code == .notFound && error.cause as? S3Failure == .noSuchKey {
                // Deleted by somebody meanwhile: so it is not in the new folder either.
                return false
            }
        }
        return false
    }

    private func take(
        _ step: S3Move.Step,
        _ object: S3Object,
        over present: S3Object?,
        _ move: S3Move,
        isCopied: Bool
    ) async throws(CloudFSError) -> Bool {
        let key = move.newKey(of: object)
        switch step {
        case .nothing:
            if let present, !isCopied { move.noteCopied(object, tag: present.entityTag) }
            return false
        case .copy:
            move.noteCopied(object, tag: try await copyMeant(object, to: key, over: present))
            return true
        case .look:
            let isThere = try await isSame(object, as: key)
            return try await take(
                isThere ? .nothing : .copyBeside,
                object,
                over: present,
                move,
                isCopied: isCopied
            )
        case .copyBeside:
            let hasCopied = try await copyBeside(object, key)
            // Done with; what stands in its place is not its copy.
            move.noteCopied(object, tag: "")
            return hasCopied
        case .join:
            let hasWritten = try await join(object, key)
            move.noteCopied(object, tag: present?.entityTag ?? "")
            return hasWritten
        }
    }

    /// Whether what stands in an object's new place is its copy, as far as length, times and what
    /// is written on both tell: among that are, of files of ours, their own time and their id.
    private func isSame(
        _ object: S3Object,
        as key: [UInt8]
    ) async throws(CloudFSError) -> Bool {
        guard let old = try await client.headIfPresent(object.key),
            let new = try await client.headIfPresent(key),
            old.object.entityTag == object.entityTag
        else { throw S3AnswerCheck.changed(key) }
        return old.object.size == new.object.size && old.userMetadata == new.userMetadata
            && new.object.lastModified >= old.object.lastModified
    }

    /// Gives the marker in the new place what is written only on the one in the old place.
    ///
    /// Either may have been made, or written on, while the folder moved.
    ///
    /// - Returns: Whether there was anything.
    private func join(_ object: S3Object, _ key: [UInt8]) async throws(CloudFSError) -> Bool {
        guard let old = try await client.headIfPresent(object.key),
            let new = try await client.headIfPresent(key)
        else { throw S3AnswerCheck.changed(key) }
        let isNewer = old.object.lastModified > new.object.lastModified
        let joined = S3Metadata.joined(new.userMetadata, old.userMetadata, isNewer: isNewer)
        guard joined != new.userMetadata else { return false }
        _ = try await client.put(
            key,
            body: .bytes([]),
            metadata: joined,
            contentType: S3Metadata.folderType,
            condition: rules.condition(replacing: new.object.entityTag),
            over: new
        )
        await journal.announce([.item(try path(ofFolder: key))])
        return true
    }

    private func path(ofFolder key: [UInt8]) throws(CloudFSError) -> RemotePath {
        var names: [ItemName] = []
        for part in key.dropFirst(keys.prefix.count).split(separator: UInt8(ascii: "/")) {
            names.append(try S3Keys.name(of: Array(part), isInRoot: names.isEmpty))
        }
        return RemotePath(names)
    }

    /// Copies an object in this version, to where there is nothing else than in the listing.
    ///
    /// - Returns: The copy's tag; empty where the server does not tell: an object that is written
    ///   once more in the old folder is then not known to be the same as its copy.
    private func copyMeant(
        _ object: S3Object,
        to key: [UInt8],
        over present: S3Object?
    ) async throws(CloudFSError) -> String {
        guard object.size <= settings.longestCopy else {
            // In parts: these need what is written on the object to be given again.
            let head = try await client.head(object.key)
            return try await copy(head, to: key, over: present).entityTag
        }
        if rules.conditionOfCopy(replacing: present?.entityTag) == .none {
            try await requireUnchanged(present, at: key)
        }
        return try await copyAtOnce(object, to: key, over: present).entityTag
    }

    /// Copies an object beside what was written in its new place meanwhile, as a conflict version.
    ///
    /// Named after its own time: tried once more after an interruption, it gets the same name.
    ///
    /// - Returns: Whether it was not there yet.
    private func copyBeside(
        _ object: S3Object,
        _ key: [UInt8]
    ) async throws(CloudFSError) -> Bool {
        let slash = UInt8(ascii: "/")
        let folder = key.prefix(through: key.lastIndex(of: slash) ?? key.startIndex)
        let part = Array(key.dropFirst(folder.count))
        for number in 1...99 {
            let name = try ConflictNaming.name(
                for: try S3Keys.name(of: part, isInRoot: false),
                device: settings.deviceName,
                at: object.lastModified,
                number: number
            )
            let place = Array(folder) + name.bytes
            let taken = try await client.headIfPresent(place)?.object
            if let taken {
                let isThere =
                    object.entityTag.contains("-")
                    ? try await isSame(object, as: place)
                    : taken.size == object.size && taken.entityTag == object.entityTag
                guard isThere else { continue }
            }
            if taken == nil { _ = try await copyMeant(object, to: place, over: nil) }
            logger.notice(
                "an object was written in the old and in the new place of its folder",
                metadata: ["kept as": "\(name)"]
            )
            return taken == nil
        }
        throw CloudFSError(.exists, "there are too many conflict versions of an object")
    }
}

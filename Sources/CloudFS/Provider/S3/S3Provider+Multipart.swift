/// Large files: sent and copied in parts.
extension S3Provider {
    /// As many parts as a bucket takes, of 5 GiB each; servers may say anything of an object.
    private static let mostByteCount: Int64 = 10_000 * 5 << 30

    /// A bucket takes at most 10,000 parts.
    private func partByteCount(of byteCount: Int64, usually length: Int64) -> Int64 {
        let least = (byteCount + 9_999) / 10_000
        let megabyte: Int64 = 1 << 20
        return max(length, (least + megabyte - 1) / megabyte * megabyte)
    }

    /// The parts that a file of this length is sent in.
    func ranges(of byteCount: Int64) -> [Range<Int64>] {
        ranges(of: byteCount, each: partByteCount(of: byteCount, usually: settings.partByteCount))
    }

    private func ranges(of byteCount: Int64, each size: Int64) -> [Range<Int64>] {
        stride(from: 0, to: byteCount, by: Int64.Stride(size)).map { start in
            start..<min(start + size, byteCount)
        }
    }

    func sendInParts(_ file: S3FileUpload) async throws(CloudFSError) -> S3Written {
        let (source, key) = (file.source, file.key)
        let size = partByteCount(of: source.byteCount, usually: settings.partByteCount)
        let upload = try await resumableUpload(file, size)
        let progress = S3Progress(source.didSend)
        let jobs = ranges(of: source.byteCount, each: size).enumerated().map { index, range in
            S3PartJob(
                key: key,
                upload: upload.entry.id,
                number: index + 1,
                range: range,
                present: upload.parts[index + 1]
            )
        }
        let parts: [S3Part]
        do throws(CloudFSError) {
            parts = try await inParallel(jobs) { job in
                await self.send(job, of: source, to: file.path, progress)
            }
        } catch  where error.cause as? S3Failure == .noSuchUpload {
            // Given up by somebody else: nothing is known of the file itself. Begun anew.
            try await uploads.forget(key, upload.entry)
            throw CloudFSError(.offline, "the upload was given up in the bucket", cause: error)
        }
        guard source.isUnchanged() else { throw Self.changedWhileSent(file.path) }
        // Servers differ in what they make of a condition here: what is there is looked at again.
        // Between this and the completion is a window of one round trip.
        try await checkBeforeCompletion(file.path, key, replacing: file.base)
        let written: S3Written
        do throws(CloudFSError) {
            written = try await client.completeUpload(
                key,
                upload: upload.entry.id,
                parts: parts,
                condition: rules.condition(replacing: file.base.map(Self.entityTag))
            )
        } catch {
            // The answer may have been lost after the work was done.
            noteUnheard(file, tag: Self.tag(ofParts: parts.map { $0.entityTag.lowercased() }))
            guard let head = try await client.headIfPresent(key),
                try await isOutcome(head, of: file)
            else { throw error }
            written = S3Written(entityTag: head.object.entityTag)
        }
        await forgetUpload(of: key, upload.entry)
        return written
    }

    /// Notes that an upload has ended.
    private func forgetUpload(of key: [UInt8], _ entry: S3UploadLedger.Upload) async {
        do throws(CloudFSError) {
            try await uploads.forget(key, entry)
        } catch {
            // The file is there; that its upload is still listed is found out some time.
            logger.warning("an upload that ended stays listed", metadata: ["error": "\(error)"])
        }
    }

    private func checkBeforeCompletion(
        _ path: RemotePath,
        _ key: [UInt8],
        replacing base: ItemVersion?
    ) async throws(CloudFSError) {
        guard let base else {
            guard try await !exists(key) else {
                throw CloudFSError(.exists, "\"\(path)\" is in the bucket already")
            }
            return
        }
        guard let head = try await client.headIfPresent(key), Self.isMeant(head, by: base) else {
            throw Self.changed(path)
        }
    }

    /// The upload of this key that was begun earlier, with its parts, or a new one.
    private func resumableUpload(
        _ file: S3FileUpload,
        _ partSize: Int64
    ) async throws(CloudFSError) -> (entry: S3UploadLedger.Upload, parts: [Int: S3Part]) {
        let (key, metadata) = (file.key, file.metadata)
        if var known = try await uploads.upload(of: key), known.partByteCount == partSize,
            known.metadata == metadata
        {
            known.touched = client.clocks.now().seconds
            try await uploads.note(key, known)
            do throws(CloudFSError) {
                let parts = try await client.listParts(key, upload: known.id)
                var byNumber: [Int: S3Part] = [:]
                for part in parts { byNumber[part.number] = part }
                return (known, byNumber)
            } catch  where error.cause as? S3Failure == .noSuchUpload {
                try await uploads.forget(key, known)
            }
        } else {
            try await abandonUpload(of: key)
        }
        let id = try await client.createUpload(
            key,
            metadata: metadata,
            contentHeaders: file.contentHeaders
        )
        let begun = try await noteBegun(id, of: key, partByteCount: partSize, metadata: metadata)
        return (begun, [:])
    }

    /// Notes an upload that was begun; it is given up if that fails, as nobody would do so later.
    private func noteBegun(
        _ id: String,
        of key: [UInt8],
        partByteCount: Int64,
        metadata: [String: String]
    ) async throws(CloudFSError) -> S3UploadLedger.Upload {
        let entry = S3UploadLedger.Upload(
            id: id,
            partByteCount: partByteCount,
            metadata: metadata,
            touched: client.clocks.now().seconds
        )
        do throws(CloudFSError) {
            try await uploads.note(key, entry)
            return entry
        } catch {
            do throws(CloudFSError) {
                try await client.abortUpload(key, upload: id)
            } catch let failure {
                logger.warning(
                    "an upload that was begun stays, and is not listed",
                    metadata: ["error": "\(failure)"]
                )
            }
            throw error
        }
    }

    /// Gives up what was sent of a file that will not be completed.
    func abandonUpload(of key: [UInt8]) async throws(CloudFSError) {
        guard let known = try await uploads.upload(of: key) else { return }
        try await abandon(key, known)
    }

    /// Gives up one upload; another one may have been begun meanwhile.
    func abandon(_ key: [UInt8], _ upload: S3UploadLedger.Upload) async throws(CloudFSError) {
        do throws(CloudFSError) {
            try await client.abortUpload(key, upload: upload.id)
        } catch  where error.code == .notFound {
            logger.debug("an upload was given up by somebody else")
        }
        try await uploads.forget(key, upload)
    }

    /// Gives up what was sent of a file, now or some other time.
    func letGoUpload(of key: [UInt8]) async {
        do throws(CloudFSError) {
            try await abandonUpload(of: key)
        } catch {
            logger.notice("an upload was not given up yet", metadata: ["error": "\(error)"])
        }
    }

    private func send(
        _ job: S3PartJob,
        of source: UploadSource,
        to path: RemotePath,
        _ progress: S3Progress
    ) async -> S3PartResult {
        do throws(CloudFSError) {
            // What was sent of a file that has changed is never completed.
            guard source.isUnchanged() else { throw Self.changedWhileSent(path) }
            if let present = job.present, present.size == Int64(job.range.count) {
                // Sent before a crash; the tag of a part is its MD5, where it is anything at all.
                let digest = try await md5(of: job.range, in: source)
                if digest == present.entityTag.lowercased() {
                    progress.add(job.number, Int64(job.range.count))
                    return S3PartResult(part: present)
                }
            }
            let part = try await client.uploadPart(
                job.key,
                upload: job.upload,
                number: job.number,
                body: .file(
                    descriptor: source.descriptor,
                    offset: job.range.lowerBound,
                    byteCount: Int64(job.range.count),
                    willSend: source.willSend,
                    didSend: { progress.add(job.number, $0) }
                )
            )
            return S3PartResult(part: part)
        } catch {
            return S3PartResult(failure: error)
        }
    }

    // MARK: - Copies

    /// Copies an object that is too large for one request.
    func copyInParts(
        _ source: S3ObjectHead,
        to key: [UInt8],
        over present: S3Object?,
        metadata: [String: String]?
    ) async throws(CloudFSError) -> S3Copied {
        let byteCount = source.object.size
        guard byteCount <= Self.mostByteCount else {
            throw CloudFSError(.tooLarge, "no bucket has objects of \(byteCount) bytes")
        }
        guard !uploads.isActive(key) else {
            throw CloudFSError(.claimed, "a file is being sent to where an object is copied")
        }
        // Only one is listed for each key: what was interrupted is given up while it is known.
        try await abandonUpload(of: key)
        let id = try await client.createUpload(
            key,
            metadata: metadata ?? source.userMetadata,
            contentHeaders: source.contentHeaders
        )
        // Never gone on with, but given up some time if it is not completed.
        uploads.setActive(true, key)
        defer { uploads.setActive(false, key) }
        let begun = try await noteBegun(id, of: key, partByteCount: 0, metadata: [:])
        let length = partByteCount(of: byteCount, usually: settings.copyPartByteCount)
        let jobs = ranges(of: byteCount, each: length).enumerated().map { index, range in
            S3PartJob(key: key, upload: id, number: index + 1, range: range, present: nil)
        }
        let copied: S3Copied
        do throws(CloudFSError) {
            let parts = try await inParallel(jobs) { job in
                await self.copy(job, from: source.object)
            }
            // As for uploads, not every server honours a condition here.
            try await requireUnchanged(present, at: key)
            copied = try await complete(parts, id, of: source, at: key, over: present, metadata)
        } catch {
            await letGoUpload(of: key)
            throw error
        }
        await forgetUpload(of: key, begun)
        return copied
    }

    private func complete(
        _ parts: [S3Part],
        _ upload: String,
        of source: S3ObjectHead,
        at key: [UInt8],
        over present: S3Object?,
        _ metadata: [String: String]?
    ) async throws(CloudFSError) -> S3Copied {
        do throws(CloudFSError) {
            let written = try await client.completeUpload(
                key,
                upload: upload,
                parts: parts,
                condition: rules.condition(replacing: present?.entityTag)
            )
            return S3Copied(entityTag: written.entityTag, lastModified: written.serverDate)
        } catch  where S3Client.isUnheard(error) {
            let made = try await copyMade(
                of: source.object,
                at: key,
                over: present,
                with: source.object == present ? source.userMetadata : nil,
                metadata: metadata ?? source.userMetadata
            )
            guard let made else { throw error }
            return made
        }
    }

    private func copy(_ job: S3PartJob, from source: S3Object) async -> S3PartResult {
        do throws(CloudFSError) {
            let part = try await client.copyPart(
                from: source.key,
                sourceIfMatch: source.entityTag,
                range: job.range,
                to: job.key,
                upload: job.upload,
                number: job.number
            )
            return S3PartResult(part: part)
        } catch {
            return S3PartResult(failure: error)
        }
    }

    /// Does jobs a few at a time; the first failure ends all.
    private func inParallel(
        _ jobs: [S3PartJob],
        _ work: @escaping @Sendable (S3PartJob) async -> S3PartResult
    ) async throws(CloudFSError) -> [S3Part] {
        let results = await withTaskGroup(of: S3PartResult.self) { group in
            var results: [S3PartResult] = []
            for (number, job) in jobs.enumerated() {
                if number >= settings.parallelParts, let result = await group.next() {
                    results.append(result)
                    if result.failure != nil { break }
                }
                group.addTask { await work(job) }
            }
            if results.contains(where: { $0.failure != nil }) { group.cancelAll() }
            return await group.reduce(into: results) { $0.append($1) }
        }
        var parts: [S3Part] = []
        for result in results {
            if let failure = result.failure { throw failure }
            if let part = result.part { parts.append(part) }
        }
        return parts.sorted { $0.number < $1.number }
    }
}

/// One part that is to be sent or copied.
private struct S3PartJob: Sendable {
    var key: [UInt8]
    var upload: String
    var number: Int
    var range: Range<Int64>
    /// What the server has of it already.
    var present: S3Part?
}

private struct S3PartResult: Sendable {
    var part: S3Part?
    var failure: CloudFSError?
}

import Foundation

extension S3WriteRules: CustomStringConvertible {
    /// For people, in `cloudfs status`.
    var description: String {
        if isReadOnly { return "none: the credentials do not permit to write and delete" }
        let match =
            switch replace {
            case .none: String?.none
            case .quoted: "If-Match"
            case .unquoted: "If-Match without quotes"
            }
        switch (create, match) {
        case (true, let match?): return "conditional: If-None-Match, \(match)"
        case (true, nil): return "conditional for new files only: If-None-Match"
        case (false, let match?): return "conditional for changed files only: \(match)"
        case (false, nil): return "unconditional: what is there is looked at before"
        }
    }
}

/// Reaching the bucket, and finding out what it can do.
extension S3Provider {
    private var containerKey: [UInt8] { keys.room + Array("container".utf8) }

    func connect(expecting: ContainerExpectation) async throws(CloudFSError) -> String {
        let page = try await client.list(
            prefix: keys.prefix,
            delimiter: false,
            limit: 2,
            mayLackKeys: true
        )
        let stored = try await storedIdentity()
        // That of the address says only that nothing could be written so far.
        let known = expecting.identity == identityOfAddress ? nil : expecting.identity
        if let stored {
            if let known, known != stored {
                throw CloudFSError(
                    .offline,
                    "this is another container than the one this drive was made with"
                )
            }
            try await probe(as: stored)
            try await readIntents()
            return stored
        }
        if expecting.hasItems {
            guard !page.objects.isEmpty || !page.undecoded.isEmpty else {
                throw CloudFSError(.offline, "the bucket is empty where it was not")
            }
            if let known { throw Self.replaced(known) }
        }
        let identity = known ?? DocumentID.random().description
        let agreed = try await storeIdentity(identity)
        try await probe(as: agreed)
        return agreed
    }

    func requireSameContainer() async throws(CloudFSError) {
        let known = identity
        guard !known.isEmpty else {
            throw CloudFSError(.offline, "it is not known yet whether the bucket is the same one")
        }
        // A bucket that cannot be written never had anything of the drive's.
        guard known != identityOfAddress || !rules.isReadOnly else { return }
        guard try await storedIdentity() == known else { throw Self.replaced(known) }
    }

    /// What a bucket without its identity lacks beside it, was perhaps never in it: somebody made
    /// it anew, or began to fill it from a backup.
    private static func replaced(_ identity: String) -> CloudFSError {
        CloudFSError(
            .offline,
            """
            the bucket has lost its object .cloudfs/container, so it may have been emptied or \
            replaced; to go on with it as it is, store \(identity) there
            """
        )
    }

    private func storedIdentity() async throws(CloudFSError) -> String? {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            _ = try await client.get(containerKey, range: 0..<256, ifMatch: nil) { _, piece in
                bytes.append(piece)
            }
        } catch  where error.code == .notFound {
            return nil
        } catch  where error.cause as? S3Failure == .rangeNotSatisfiable {
            logger.debug("the container's identity is empty")
        }
        let text = String(decoding: bytes.all.prefix { $0 != 0x0a }, as: UTF8.self)
        guard DocumentID(text) != nil else {
            throw CloudFSError(
                .corrupt,
                "the bucket's object .cloudfs/container is damaged; restore or delete it"
            )
        }
        return text
    }

    /// Writes the container's identity; where another device was faster, its is taken.
    ///
    /// A bucket that cannot be written has one that follows from its address.
    private func storeIdentity(_ identity: String) async throws(CloudFSError) -> String {
        do throws(CloudFSError) {
            do throws(CloudFSError) {
                try await putIdentity(identity, .ifNoneMatchAny)
            } catch  where error.isAboutCondition {
                // Two devices may write at once then: what is read back is the identity.
                if try await storedIdentity() == nil { try await putIdentity(identity, .none) }
            }
        } catch  where error.code == .denied {
            try await keep(S3WriteRules(isProbed: true, isReadOnly: true), as: "")
            return identityOfAddress
        } catch  where error.code == .exists {
            logger.debug("another device named the container")
        }
        guard let stored = try await storedIdentity() else {
            throw CloudFSError(.offline, "the bucket does not keep what is written to it")
        }
        return stored
    }

    private func putIdentity(
        _ identity: String,
        _ condition: S3Condition
    ) async throws(CloudFSError) {
        _ = try await client.put(
            containerKey,
            body: .bytes(Array("\(identity)\n".utf8)),
            contentType: "text/plain",
            condition: condition
        )
    }

    private var identityOfAddress: String {
        let endpoint = client.endpoint
        let address = "\(endpoint.host):\(endpoint.port)/\(endpoint.bucket)"
        return S3Metadata.digest(of: keys.prefix[...], in: address).description
    }

    // MARK: - Conditions

    /// Finds out once which conditions the server honours.
    private func probe(as identity: String) async throws(CloudFSError) {
        // What was forbidden may be permitted by now.
        guard !hasProbed || rules.isReadOnly else {
            return setConnected(identity: identity, rules: rules)
        }
        var rules = S3WriteRules(isProbed: true)
        let key = takeLeftProbe() ?? probes + Array("\(DocumentID.random())".utf8)
        var isWritten = false
        do throws(CloudFSError) {
            let body = HTTPBody.bytes([1])
            let written = try await client.put(key, body: body, isOwn: true)
            isWritten = true
            let digest = try await client.transport.md5(of: body)
            rules.tagsAreDigests = written.entityTag.lowercased() == digest
            rules.create = try await isRefused(key, .ifNoneMatchAny)
            for form in [S3WriteRules.Replacing.unquoted, .quoted] {
                rules.replace = form
                let wrong = rules.condition(replacing: Self.unknownTag)
                let right = rules.condition(replacing: written.entityTag)
                let isHonoured = try await isRefused(key, wrong)
                if isHonoured, try await !isRefused(key, right, body: [1]) { break }
                rules.replace = .none
            }
            rules.delete = try await honouredOnDeletions(key)
            // Before any copy: who may not delete would leave that as well.
            try await client.delete(key, isOwn: true)
            rules.copy = try await honoursOnCopies(rules, to: key)
        } catch {
            // Even a request that failed may have been carried out.
            if isWritten || error.code != .denied { await deleteProbe(key) }
            guard error.code == .denied else { throw error }
            rules = S3WriteRules(isProbed: true, isReadOnly: true)
        }
        logger.info(
            "conditional writes of the bucket",
            metadata: [
                "create": "\(rules.create)", "replace": "\(rules.replace)",
                "copy": "\(rules.copy)", "delete": "\(rules.delete)",
            ]
        )
        try await keep(rules, as: identity)
    }

    /// What the keys of probes begin with.
    var probes: [UInt8] { keys.room + Array("probe-".utf8) }

    /// Deletes a probe if that is possible; if not, the next one is written over it.
    private func deleteProbe(_ key: [UInt8]) async {
        do throws(CloudFSError) {
            try await client.delete(key, isOwn: true)
        } catch {
            noteLeftProbe(key)
            logger.debug("a probe stays in the bucket", metadata: ["error": "\(error)"])
        }
    }

    /// In which form a condition keeps an object from being deleted, if it has another tag.
    ///
    /// - Parameter key: Of a probe, which may be gone afterwards.
    private func honouredOnDeletions(
        _ key: [UInt8]
    ) async throws(CloudFSError) -> S3WriteRules.Deleting {
        var isRefused = false
        for (form, isQuoted) in [(S3WriteRules.Deleting.quoted, true), (.unquoted, false)] {
            let wrong = S3Condition.ifMatch(Self.unknownTag, quoted: isQuoted)
            switch try await deletion(of: key, wrong) {
            case .done: return isRefused ? .refused : .none
            case .unknown: return .none
            case .refused:
                isRefused = true
                continue
            case .conditionFailed: break
            }
            let tag = try await client.put(key, body: .bytes([1]), isOwn: true).entityTag
            guard !tag.isEmpty else { return .none }
            let right = S3Condition.ifMatch(tag, quoted: isQuoted)
            switch try await deletion(of: key, right) {
            case .done: return form
            case .unknown: return .none
            case .refused, .conditionFailed: isRefused = true
            }
        }
        return .refused
    }

    private enum Deletion {
        case done
        case conditionFailed
        case refused
        /// The connection failed, or the server did: what is wrong is told by what follows.
        case unknown
    }

    /// What becomes of a deletion with a condition.
    private func deletion(
        of key: [UInt8],
        _ condition: S3Condition
    ) async throws(CloudFSError) -> Deletion {
        do throws(CloudFSError) {
            try await client.delete(own: key, condition: condition)
            return .done
        } catch {
            guard error.code != .cancelled else { throw error }
            logger.debug("a deletion of a probe failed", metadata: ["error": "\(error)"])
            return switch error.cause as? S3Failure {
            case .conditionFailed: .conditionFailed
            // Gone: an earlier try, whose answer was lost, has deleted it.
            case .noSuchKey, .conditionConflict: .unknown
            default: error.isTransient ? .unknown : .refused
            }
        }
    }

    /// The tag of no object.
    private static let unknownTag = String(repeating: "0", count: 32)

    /// How often copies are tried of which one may have been carried out unheard.
    private static let mostCopyProbes = 3

    /// Whether copies are refused where uploads are, and only there: some servers ask the source.
    ///
    /// - Parameter key: Of nothing, before and after.
    private func honoursOnCopies(
        _ rules: S3WriteRules,
        to key: [UInt8]
    ) async throws(CloudFSError) -> Bool {
        guard rules.create else { return false }
        for _ in 1...Self.mostCopyProbes {
            let isHonoured = try await tryCopies(rules, to: key)
            try await client.delete(key, isOwn: true)
            if let isHonoured { return isHonoured }
        }
        return false
    }

    /// - Returns: `nil` if one was refused where nothing was: an earlier try was carried out whose
    ///   answer was lost, or the server refuses them all.
    private func tryCopies(
        _ rules: S3WriteRules,
        to key: [UInt8]
    ) async throws(CloudFSError) -> Bool? {
        let wrong = rules.condition(replacing: Self.unknownTag)
        for (condition, isToFail) in [
            (S3Condition.ifNoneMatchAny, false), (.ifNoneMatchAny, true), (wrong, true),
        ] where condition != .none {
            let isRefused = try await isCopyRefused(to: key, condition)
            if isRefused == isToFail { continue }
            return isRefused == true ? nil : false
        }
        return true
    }

    /// Whether a copy is refused for its condition; `nil` if it fails otherwise.
    ///
    /// A server that makes no copies, or hangs in them, is within reach all the same: whether it is
    /// gone is told by the deletion that follows.
    private func isCopyRefused(
        to key: [UInt8],
        _ condition: S3Condition
    ) async throws(CloudFSError) -> Bool? {
        do throws(CloudFSError) {
            _ = try await client.copy(
                from: containerKey,
                sourceIfMatch: nil,
                to: key,
                condition: condition,
                weight: .metadata
            )
            return false
        } catch {
            guard error.code != .cancelled else { throw error }
            if [.exists, .remoteChanged].contains(error.code) { return true }
            logger.debug("a copy of a probe failed", metadata: ["error": "\(error)"])
            return nil
        }
    }

    /// Uses these rules; whether anything may be written is remembered until the next start too.
    private func keep(
        _ rules: S3WriteRules,
        as identity: String
    ) async throws(CloudFSError) {
        setConnected(identity: identity, rules: rules)
        guard let path = readOnlyMark else { return }
        let isReadOnly = rules.isReadOnly
        try await pool.engine { () throws in
            let isMarked = FileManager.default.fileExists(atPath: path)
            guard isMarked != isReadOnly else { return }
            if isReadOnly {
                try Data().write(to: URL(filePath: path))
            } else {
                try FileManager.default.removeItem(atPath: path)
            }
        }
    }

    private func isRefused(
        _ key: [UInt8],
        _ condition: S3Condition,
        body: [UInt8] = [2]
    ) async throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            _ = try await client.put(key, body: .bytes(body), condition: condition)
            return false
        } catch  where error.code == .exists || error.code == .remoteChanged {
            return true
        } catch  where error.isAboutCondition {
            return false
        }
    }

    // MARK: - Changes

    func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        let page = try await journal.changes(after: anchor) { self.sweepIfDue() }
        // Whoever begins or ends to move a folder says so in the journal.
        if !page.hints.isEmpty {
            forgetFolders()
            do throws(CloudFSError) {
                try await readIntents()
            } catch {
                journal.takeBack(page)
                throw error
            }
        }
        return page
    }

    func noteUse() {
        journal.noteUse()
    }

    func announce(_ path: RemotePath) async {
        await journal.announce([.item(path), .subtree(path)])
    }

    // MARK: - Who asks

    func login(_ login: ProviderLogin) async throws(CloudFSError) {
        guard let keepLogin else {
            throw CloudFSError(
                .unsupported,
                "the drive is mounted with the option anonymous and needs no login"
            )
        }
        let entered = S3Credentials(accessKeyID: login.name, secretAccessKey: login.secret)
        try entered.check(source: "what was entered")
        // Tried before they are kept: a slip of the hand must not replace what works.
        let trial = S3Client(
            endpoint: client.endpoint,
            credentials: S3FixedCredentials(entered),
            transport: client.transport,
            clocks: client.clocks,
            limits: client.limits,
            note: client.note
        )
        _ = try await trial.list(
            prefix: keys.prefix,
            delimiter: false,
            limit: 1,
            mayLackKeys: true
        )
        try await keepLogin(entered)
        // Another key may be permitted to do other things.
        forgetProbe()
        guard !identity.isEmpty else { return }
        do throws(CloudFSError) {
            try await probe(as: identity)
        } catch {
            logger.notice(
                "it is not known yet what may be written",
                metadata: ["error": "\(error)"]
            )
        }
    }

    var serverNotes: [String: String] {
        let rules = rules
        guard rules.isProbed else { return [:] }
        return ["writes": rules.description, "leases": Self.leaseNote(rules)]
    }
}

extension CloudFSError {
    /// Whether a server answers so to a condition that it does not know, or wants in another form.
    fileprivate var isAboutCondition: Bool {
        if case .invalidRequest? = cause as? S3Failure { return true }
        return code == .unsupported
    }
}

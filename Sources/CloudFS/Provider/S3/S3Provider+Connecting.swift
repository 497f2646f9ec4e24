extension S3WriteRules: CustomStringConvertible {
    /// For people, in `cloudfs status`.
    var description: String {
        if isReadOnly { return "none: the credentials may only read" }
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
        let page = try await client.list(prefix: keys.prefix, delimiter: false, limit: 2)
        let stored = try await storedIdentity()
        if let stored {
            if let expected = expecting.identity, expected != stored {
                throw CloudFSError(
                    .offline,
                    "this is another container than the one this drive was made with"
                )
            }
            try await probe(as: stored)
            try await readIntents()
            return stored
        }
        if expecting.hasItems, page.objects.isEmpty {
            throw CloudFSError(.offline, "the bucket is empty where it was not")
        }
        let identity = expecting.identity ?? DocumentID.random().description
        let agreed = try await storeIdentity(identity)
        try await probe(as: agreed)
        return agreed
    }

    private func storedIdentity() async throws(CloudFSError) -> String? {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            _ = try await client.get(containerKey, range: nil, ifMatch: nil) { _, piece in
                if bytes.all.count < 256 { bytes.append(piece) }
            }
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            return nil
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
            _ = try await client.put(
                containerKey,
                body: .bytes(Array("\(identity)\n".utf8)),
                contentType: "text/plain",
                condition: .ifNoneMatchAny
            )
        } catch  where error.code == .denied {
            setConnected(identity: "", rules: S3WriteRules(isProbed: true, isReadOnly: true))
            let endpoint = client.endpoint
            let address = "\(endpoint.host):\(endpoint.port)/\(endpoint.bucket)"
            return S3Metadata.documentID([:], key: keys.prefix, container: address).description
        } catch  where error.code == .exists {
            logger.debug("another device named the container")
        }
        guard let stored = try await storedIdentity() else {
            throw CloudFSError(.offline, "the bucket does not keep what is written to it")
        }
        return stored
    }

    // MARK: - Conditions

    /// Finds out once which conditions the server honours.
    private func probe(as identity: String) async throws(CloudFSError) {
        guard !hasProbed else { return setConnected(identity: identity, rules: rules) }
        var rules = S3WriteRules(isProbed: true)
        let key = keys.room + Array("probe-\(DocumentID.random())".utf8)
        do throws(CloudFSError) {
            let written = try await client.put(key, body: .bytes([1]))
            rules.create = try await isRefused(key, .ifNoneMatchAny)
            for form in [S3WriteRules.Replacing.unquoted, .quoted] {
                rules.replace = form
                let wrong = rules.condition(replacing: "00000000000000000000000000000000")
                let right = rules.condition(replacing: written.entityTag)
                let isHonoured = try await isRefused(key, wrong)
                if isHonoured, try await !isRefused(key, right, body: [1]) { break }
                rules.replace = .none
            }
            try await client.delete(key)
        } catch  where error.code == .denied {
            rules = S3WriteRules(isProbed: true, isReadOnly: true)
        }
        logger.info(
            "conditional writes of the bucket",
            metadata: ["create": "\(rules.create)", "replace": "\(rules.replace)"]
        )
        setConnected(identity: identity, rules: rules)
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
        } catch  where error.code == .unsupported {
            return false
        }
    }

    // MARK: - Changes

    func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        let page = try await journal.changes(after: anchor)
        // Whoever begins or ends to move a folder says so in the journal.
        if !page.hints.isEmpty {
            forgetFolders()
            try await readIntents()
        }
        return page
    }

    func noteUse() {
        journal.noteUse()
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
        _ = try await trial.list(prefix: keys.prefix, delimiter: false, limit: 1)
        try await keepLogin(entered)
        // Another key may be permitted to do other things.
        forgetProbe()
    }

    var serverNotes: [String: String] {
        let rules = rules
        return rules.isProbed ? ["writes": rules.description] : [:]
    }
}

/// Reaching the cloud, and hearing of what happens there.
extension ChangeFeed {
    /// Reaches the container for the first time or again.
    func connect() async throws(CloudFSError) {
        let record = try await pool.engine {
            try self.catalog.read { try $0.containers() }.first { $0.id == self.container }
        }
        guard let record else { throw CloudFSError(.internalFailure, "the container is unknown") }
        let identity = try await applier.provider.connect(
            expecting: ContainerExpectation(identity: record.identity, hasItems: record.hasItems)
        )
        if record.identity != identity {
            try await pool.engine {
                try self.catalog.write { try $0.setContainer(self.container, identity: identity) }
            }
        }
        connection.setQuota(try await applier.provider.quota())
        noteConnected()
    }

    private func noteConnected() {
        connection.didConnect()
        onConnect()
        failed.noteConnected()
    }

    func stayConnected() async {
        var delay = Duration.seconds(1)
        while !Task.isCancelled {
            do throws(CloudFSError) {
                try await connect()
                logger.info("the cloud is reached")
                delay = .seconds(1)
                try await follow()
            } catch {
                if Task.isCancelled { return }
                connection.didFail(error)
                logger.notice("the cloud cannot be reached", metadata: ["error": "\(error)"])
            }
            await pause(delay)
            delay = min(delay * 2, .seconds(15))
        }
    }

    /// Tries the cloud again after any request found it out of reach: the feed itself may be
    /// waiting quietly and never hear of it.
    func probe() async {
        while !Task.isCancelled {
            await connection.lost.wait()
            var delay = Duration.milliseconds(200)
            while !Task.isCancelled, !connection.isOnline {
                await pause(delay)
                delay = min(delay * 2, .seconds(15))
                do throws(CloudFSError) {
                    try await connect()
                } catch {
                    logger.debug("still out of reach", metadata: ["error": "\(error)"])
                }
            }
            compareIfNeeded()
        }
    }

    /// Goes on with a comparison that stopped when the cloud went out of reach.
    private func compareIfNeeded() {
        if !hasCompared { scanNeeded.raise() }
    }

    private func follow() async throws(CloudFSError) {
        var anchor = try await applier.provider.changes(after: nil).anchor
        noteHeard(upTo: anchor)
        needComparison()
        scanNeeded.raise()
        while !Task.isCancelled {
            let page = try await applier.provider.changes(after: anchor)
            try await note(page.hints)
            anchor = page.anchor
            noteHeard(upTo: anchor)
            if !connection.isOnline {
                noteConnected()
                compareIfNeeded()
            }
        }
    }
}

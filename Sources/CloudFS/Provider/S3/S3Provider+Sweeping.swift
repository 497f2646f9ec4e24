/// Clearing away what is left behind: old records, probes, and uploads that nobody goes on with.
extension S3Provider {
    /// Begins to clear away if it is time, beside everything else.
    func sweepIfDue() {
        guard beginsSweep() else { return }
        Task { await sweep() }
    }

    /// What fails is tried again the next time.
    func sweep() async {
        do throws(CloudFSError) {
            let count = try await journal.sweep()
            if count > 0 { logger.debug("records were swept", metadata: ["count": "\(count)"]) }
        } catch {
            logger.notice("old records were not swept", metadata: ["error": "\(error)"])
        }
        do throws(CloudFSError) {
            try await deleteOldProbes()
        } catch {
            logger.notice("old probes were not deleted", metadata: ["error": "\(error)"])
        }
        do throws(CloudFSError) {
            try await abortAbandonedUploads()
        } catch {
            logger.notice("uploads were not given up", metadata: ["error": "\(error)"])
        }
    }

    /// Deletes what attempts to connect have left that were interrupted; one page of it at once.
    private func deleteOldProbes() async throws(CloudFSError) {
        let objects = try await client.list(prefix: probes, delimiter: false).objects
        guard let now = client.serverNow else { return }
        let old = objects.filter { now.since($0.lastModified) > settings.probeAge }
        for refused in try await client.deleteBatch(old.map(\.key), isOwn: true).prefix(1) {
            logger.notice("an old probe stays", metadata: ["reason": "\(refused.message)"])
        }
    }

    /// Gives up the uploads in parts that this drive began and nobody has gone on with for long.
    ///
    /// Others than those in the list of this drive are not looked for.
    private func abortAbandonedUploads() async throws(CloudFSError) {
        let oldest = client.clocks.now() + (.zero - settings.uploadAge)
        for (key, upload) in try await uploads.abandoned(since: oldest) {
            do throws(CloudFSError) {
                try await abandon(key, upload)
            } catch {
                // One that may not be given up keeps no others.
                guard !error.isOfConnection, error.code != .cancelled else { throw error }
                logger.notice("an upload was not given up", metadata: ["error": "\(error)"])
            }
        }
    }
}

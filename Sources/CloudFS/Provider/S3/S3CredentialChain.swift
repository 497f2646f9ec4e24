import Synchronization

/// Finds credentials where AWS's own tools look for them, and renews them while they are used.
///
/// The order is: the drive's login file, the environment, a web identity named there, the profile
/// (web identity, credentials file, program, config file). What was found serves until a file
/// changed, a server refused it, or its end is near.
final class S3CredentialChain: S3CredentialSource {
    /// How long before their end credentials are renewed.
    static let renewalMargin = Duration.seconds(300)
    /// How long a look at the files is good for.
    static let checkInterval = Duration.seconds(1)
    /// How long after a renewal that failed, or gave nothing longer, the next one is tried.
    static let renewalPause = Duration.seconds(10)

    private struct State {
        /// Counts what was forgotten, so that work begun before cannot bring it back.
        var generation: UInt64 = 0
        var cached: Cached?
        var failure: CloudFSError?
    }

    private struct Cached {
        var credentials: S3Credentials
        var fingerprints: [S3ProfileFile.Fingerprint?]
        /// By the clock that never goes back.
        var nextCheck: Duration
        var nextRenewal: Duration
    }

    private let search: S3CredentialSearch
    private let isAnonymous: Bool
    private let clocks: Clocks
    private let pool: BlockingPool
    private let exchange: S3WebIdentityRequest.Exchange
    private let noteFailure: @Sendable (CloudFSError) -> Void
    private let flights = SingleFlight<UInt64, S3Credentials>()
    private let state = Mutex(State())

    /// - Parameters:
    ///   - environment: Of the process that mounts.
    ///   - profile: What the drive's options name; `nil` leaves it to the environment.
    ///   - home: The user's home folder, without a slash at the end.
    ///   - loginFile: What `cloudfs login` writes for the drive; it need not be there yet.
    ///   - isAnonymous: Whether requests go out unsigned, whatever there is.
    ///   - clocks: Tell when credentials end.
    ///   - pool: Reads the files and runs the profile's program.
    ///   - exchange: Sends a request to the security token service.
    ///   - noteFailure: Hears why credentials could not be renewed while older ones still serve;
    ///     once for each reason.
    init(
        environment: [String: String],
        profile: String?,
        home: String,
        loginFile: String?,
        isAnonymous: Bool = false,
        clocks: Clocks = .system,
        pool: BlockingPool,
        exchange: @escaping S3WebIdentityRequest.Exchange,
        noteFailure: @escaping @Sendable (CloudFSError) -> Void
    ) {
        search = S3CredentialSearch(
            environment: environment,
            profile: profile,
            home: home,
            loginFile: loginFile
        )
        self.isAnonymous = isAnonymous
        self.clocks = clocks
        self.pool = pool
        self.exchange = exchange
        self.noteFailure = noteFailure
    }

    func credentials() async throws(CloudFSError) -> S3Credentials? {
        guard !isAnonymous else { return nil }
        let (generation, cached) = state.withLock { ($0.generation, $0.cached) }
        if let cached, clocks.elapsed() < cached.nextCheck, !needsRenewal(cached) {
            return cached.credentials
        }
        if let cached, needsRenewal(cached), isGood(cached) {
            renew(generation)
            return cached.credentials
        }
        do {
            return try await found(generation)
        } catch let error as CloudFSError {
            throw error
        } catch is CancellationError {
            throw CloudFSError(.cancelled, "the search for S3 credentials was given up")
        } catch {
            throw CloudFSError(.internalFailure, "S3 credentials cannot be found", cause: error)
        }
    }

    func invalidate(_ rejected: S3Credentials?) {
        state.withLock { state in
            // Without anything cached a search runs already, or the next call begins one.
            if let rejected, state.cached?.credentials != rejected { return }
            state.generation += 1
            state.cached = nil
            state.failure = nil
        }
    }

    // MARK: - Renewal

    private func found(_ generation: UInt64) async throws -> S3Credentials {
        try await flights.value(for: generation) { [self] in try await refreshed(generation) }
    }

    /// Looks for newer credentials while the old ones still serve: nobody waits for that.
    private func renew(_ generation: UInt64) {
        guard !flights.runningKeys.contains(generation) else { return }
        Task {
            do {
                _ = try await found(generation)
            } catch {
                // `noteFailure` was told, and so is whoever comes when the old ones have ended.
            }
        }
    }

    /// Whether credentials are good for longer than a request is on its way.
    private func isGood(_ cached: Cached) -> Bool {
        timeLeft(of: cached).map { $0 > Self.longestRequest } ?? false
    }

    private static let longestRequest = Duration.seconds(20)

    private func needsRenewal(_ cached: Cached) -> Bool {
        guard let expiration = cached.credentials.expiration else { return false }
        // The pause counts also after the end: a wrong clock here must not mean a renewal for
        // each request.
        return expiration < clocks.now() + Self.renewalMargin
            && clocks.elapsed() >= cached.nextRenewal
    }

    /// How long credentials are good for yet; `nil` when they are not.
    private func timeLeft(of cached: Cached) -> Duration? {
        guard let expiration = cached.credentials.expiration else { return Self.renewalPause }
        let rest = expiration.since(clocks.now())
        return rest > .zero ? rest : nil
    }

    private func refreshed(_ generation: UInt64) async throws -> S3Credentials {
        let fingerprints = try await pool.run { [search] in search.fingerprints() }
        let cached = state.withLock { $0.generation == generation ? $0.cached : nil }
        if let cached, cached.fingerprints == fingerprints, !needsRenewal(cached) {
            state.withLock { state in
                guard state.generation == generation else { return }
                state.cached?.nextCheck = clocks.elapsed() + Self.checkInterval
            }
            return cached.credentials
        }
        do {
            let finding = try await pool.run { [search] in try search.find() }
            let found = try await credentials(from: finding)
            keep(found, fingerprints, generation, renewsAt: clocks.elapsed() + Self.renewalPause)
            return found
        } catch let error as CloudFSError {
            // What changed for good is obeyed at once; else the old ones serve to their end.
            guard let cached, cached.fingerprints == fingerprints || error.isTransient,
                let rest = timeLeft(of: cached)
            else {
                state.withLock { if $0.generation == generation { $0.cached = nil } }
                throw error
            }
            keep(
                cached.credentials,
                cached.fingerprints,
                generation,
                renewsAt: clocks.elapsed() + min(rest, Self.renewalPause),
                failure: error
            )
            return cached.credentials
        }
    }

    private func credentials(
        from finding: S3CredentialSearch.Finding
    ) async throws -> S3Credentials {
        switch finding {
        case .credentials(let credentials):
            return credentials
        case .process(let process):
            return try await pool.run { try process.credentials() }
        case .webIdentity(let identity):
            let request = try await pool.run { try identity.request() }
            return try identity.credentials(in: try await exchange(request))
        }
    }

    private func keep(
        _ credentials: S3Credentials,
        _ fingerprints: [S3ProfileFile.Fingerprint?],
        _ generation: UInt64,
        renewsAt nextRenewal: Duration,
        failure: CloudFSError? = nil
    ) {
        let nextCheck = clocks.elapsed() + Self.checkInterval
        let isNews = state.withLock { state in
            guard state.generation == generation else { return false }
            state.cached = Cached(
                credentials: credentials,
                fingerprints: fingerprints,
                nextCheck: nextCheck,
                nextRenewal: nextRenewal
            )
            defer { state.failure = failure }
            return state.failure?.message != failure?.message
        }
        if isNews, let failure { noteFailure(failure) }
    }
}

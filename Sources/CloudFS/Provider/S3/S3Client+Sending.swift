/// What became of one try.
private enum S3Outcome<Value: Sendable>: Sendable {
    case done(Value)
    case refused(S3Refusal)
}

/// How far one request has come with its tries.
private struct S3Tries {
    var spent = Duration.zero
    var count = 0
    /// Whether an earlier try may have done what was asked without our hearing of it.
    var mayHaveHappened = false
    var hasMendedClock = false
    var hasMendedCredentials = false
    var hasMendedRegion = false
    var hasWaivedCondition = false
}

extension S3Client {
    /// Finds out what became of a request that was not answered.
    ///
    /// - Returns: What it made; `nil` if all is as it was before.
    /// - Throws: What is to be told if somebody else has written since, or if nobody can know.
    typealias Settling<Value> = (_ unheard: CloudFSError) async throws(CloudFSError) -> Value?

    /// Sends a request until it succeeds, is refused for good, or its time is over.
    ///
    /// One that may have been carried out unheard is sent again only if that harms nobody, or after
    /// a look at what is there: it fails where there is none.
    ///
    /// - Parameters:
    ///   - call: Makes the request; called for each try, since a download goes on where it was.
    ///   - settle: Looks before an unheard request is sent again, and when a condition fails that
    ///     our own earlier try may have broken.
    ///   - consume: Reads an answer that is a success.
    func perform<Value: Sendable>(
        _ call: @Sendable () throws(CloudFSError) -> S3Call,
        settle: Settling<Value>? = nil,
        consume: @escaping @Sendable (HTTPAnswer) async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        var tries = S3Tries()
        var digest: String?
        while true {
            var call = try call()
            if tries.hasWaivedCondition { call.waiveCondition() }
            if case .some(let key) = call.key { try Self.check(key) }
            if digest == nil { digest = try await payloadDigest(of: call) }
            tries.count += 1
            let left = call.budget(limits) - tries.spent
            let meter = transport.meter(call.limits(limits, within: left))
            let used = try await currentCredentials()
            let reason: CloudFSError
            var wait: Duration?
            do throws(CloudFSError) {
                let request = signed(call, digest: digest, credentials: used)
                let outcome = try await attempt(request, meter: meter, consume)
                switch outcome {
                case .done(let value): return value
                case .refused(let answer):
                    let refusal = try await explained(answer, call, used, meter)
                    tries.spent += meter.networkTime
                    if try await mend(refusal, call, used, &tries) { continue }
                    reason = S3ErrorMapping.error(for: refusal, to: call.question(at: endpoint))
                    wait = refusal.retryAfter
                }
            } catch {
                guard error.code != .cancelled else { throw error }
                tries.spent += meter.networkTime
                reason = error
            }
            if Self.isUnheard(reason) { tries.mayHaveHappened = true }
            if reason.cause as? S3Failure == .conditionFailed, tries.mayHaveHappened {
                guard let value = try await settle?(reason) else { throw reason }
                return value
            }
            let mayHarm = tries.mayHaveHappened && !call.isRepeatable
            guard Self.isWorthRepeating(reason), !mayHarm || settle != nil else { throw reason }
            try await pause(before: call, after: reason, asked: wait, &tries)
            if mayHarm, let value = try await settle?(reason) { return value }
        }
    }

    /// Whether a request that failed so may have been carried out.
    static func isUnheard(_ error: CloudFSError) -> Bool {
        if let failure = error.cause as? HTTPFailure { return failure.mayHaveArrived }
        return switch error.cause as? S3Failure {
        case .serverFault, .noAnswer: true
        default: false
        }
    }

    private static func isWorthRepeating(_ error: CloudFSError) -> Bool {
        if let failure = error.cause as? HTTPFailure {
            if case .notHTTP = failure { return false }
            return true
        }
        // An answer that began as a success and ended as an error.
        return (error.cause as? S3Failure).map(S3ErrorMapping.isWorthRepeating) ?? false
    }

    private static func check(_ key: [UInt8]) throws(CloudFSError) {
        guard !key.isEmpty else {
            throw CloudFSError(.invalidArgument, "an object's key cannot be empty")
        }
        guard key.count <= 1_024 else {
            throw CloudFSError(
                .nameTooLong,
                "the path is longer than the 1,024 bytes of a key",
                cause: S3Failure.keyTooLong
            )
        }
    }

    /// Waits before the next try.
    ///
    /// - Throws: `reason` when there is neither time nor another try left; `cancelled`.
    private func pause(
        before call: S3Call,
        after reason: CloudFSError,
        asked: Duration?,
        _ tries: inout S3Tries
    ) async throws(CloudFSError) {
        var random = SystemRandomNumberGenerator()
        var wait = limits.backoff.delay(afterFailures: tries.count, using: &random)
        if let asked { wait = max(wait, min(asked, limits.longestRetryAfter)) }
        var attempts = limits.attempts
        if case .notConnected? = reason.cause as? HTTPFailure { attempts = limits.connectAttempts }
        guard tries.count < attempts, tries.spent + wait < call.budget(limits) else {
            throw reason
        }
        note(.retried(method: call.method, attempt: tries.count, reason: reason.message))
        do {
            try await Task.sleep(for: wait)
        } catch {
            throw CloudFSError(.cancelled, "the request was given up", cause: reason)
        }
        tries.spent += wait
    }

    // MARK: - One try

    private func currentCredentials() async throws(CloudFSError) -> S3Credentials? {
        try await credentials.credentials()
    }

    /// What is signed of a body: nothing where TLS guards it already.
    private func payloadDigest(of call: S3Call) async throws(CloudFSError) -> String {
        if case .file = call.body, endpoint.scheme == .https { return "UNSIGNED-PAYLOAD" }
        return try await transport.digest(of: call.body)
    }

    private func signed(
        _ call: S3Call,
        digest: String?,
        credentials: S3Credentials?
    ) -> HTTPTransport.Request {
        let base = "\(endpoint.scheme.rawValue)://\(endpoint.hostHeader)"
        let path = endpoint.encodedPath(of: call.key)
        guard let credentials else {
            return HTTPTransport.Request(
                method: call.method,
                url: base + SignedRequest.pathAndQuery(path, call.query),
                headers: call.headers,
                body: call.body,
                lane: call.lane
            )
        }
        let (region, offset) = learned.withLock { ($0.region, $0.clockOffset) }
        let request = SigV4(region: region).sign(
            method: call.method,
            host: endpoint.hostHeader,
            encodedPath: path,
            encodedQuery: call.query,
            headers: call.headers,
            payload: digest.map { .sha256Hex($0) } ?? .unsigned,
            credentials: credentials,
            date: clocks.now() + offset
        )
        return HTTPTransport.Request(
            method: call.method,
            url: base + request.pathAndQuery,
            headers: request.headers,
            body: call.body,
            lane: call.lane
        )
    }

    private func attempt<Value: Sendable>(
        _ request: HTTPTransport.Request,
        meter: HTTPMeter,
        _ consume: @escaping @Sendable (HTTPAnswer) async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> S3Outcome<Value> {
        try await transport.send(request, meter: meter) { [self] answer throws(CloudFSError) in
            let difference = noteDate(of: answer)
            if (200..<300).contains(answer.status) {
                return .done(try await consume(answer))
            }
            let isDocument = (answer.header("content-type") ?? "xml").contains("xml")
            // A long page of a proxy is no reason to fail otherwise than its status says.
            let document = try await answer.shortBody(
                S3XML.longestRefusal,
                atMost: S3XML.maximumByteCount
            )
            return .refused(
                S3Refusal(
                    status: answer.status,
                    headers: answer.headers,
                    document: isDocument ? document : [],
                    clockDifference: difference
                )
            )
        }
    }

    /// Keeps the server's time, and tells how it differs from this machine's.
    private func noteDate(of answer: HTTPAnswer) -> Duration? {
        guard let date = answer.header("date").flatMap(S3Time.http) else { return nil }
        let now = clocks.elapsed()
        learned.withLock { learned in
            learned.serverDate = date
            learned.serverDateReadAt = now
        }
        return date.since(clocks.now())
    }

    /// Asks again with GET why a HEAD was refused, since its answer carries no reason.
    private func explained(
        _ refusal: S3Refusal,
        _ call: S3Call,
        _ credentials: S3Credentials?,
        _ meter: HTTPMeter
    ) async throws(CloudFSError) -> S3Refusal {
        let isDoubtful = refusal.status == 404 && !refusal.isOfServer
        guard call.method == "HEAD",
            isDoubtful || [301, 307, 400, 401, 403].contains(refusal.status)
        else { return refusal }
        var question = call
        question.method = "GET"
        if call.key == nil {
            question.ask("list-type", "2")
            question.ask("max-keys", "1")
        } else {
            question.headers.append((name: "range", value: "bytes=0-0"))
        }
        let empty = try await transport.digest(of: .none)
        let outcome: S3Outcome<Bool> = try await attempt(
            signed(question, digest: empty, credentials: credentials),
            meter: transport.meter(meter.limits)
        ) { _ throws(CloudFSError) in true }
        guard case .refused(var explanation) = outcome, explanation.status == refusal.status else {
            return refusal
        }
        explanation.region = explanation.region ?? refusal.region
        return explanation
    }

    // MARK: - Mending

    /// Does what makes the next try succeed, once for each cause.
    ///
    /// - Returns: Whether there is a reason to try again.
    private func mend(
        _ refusal: S3Refusal,
        _ call: S3Call,
        _ used: S3Credentials?,
        _ tries: inout S3Tries
    ) async throws(CloudFSError) -> Bool {
        switch S3ErrorMapping.failure(of: refusal, to: call.question(at: endpoint)) {
        case .clockSkew(let difference):
            guard !tries.hasMendedClock, let difference else { return false }
            tries.hasMendedClock = true
            useClock(offBy: difference)
            return true
        case .expiredCredentials, .unknownAccessKey, .signatureMismatch:
            guard !tries.hasMendedCredentials, let used else { return false }
            tries.hasMendedCredentials = true
            credentials.invalidate(used)
            guard try await currentCredentials() != used else { return false }
            note(.credentialsRefreshed)
            return true
        case .wrongRegion(let region):
            guard !tries.hasMendedRegion, let region else { return false }
            tries.hasMendedRegion = true
            let isNews = learned.withLock { learned in
                defer { learned.region = region }
                return learned.region != region
            }
            if isNews { note(.regionLearned(region)) }
            return isNews
        case .unsupported:
            guard call.isConditionOptional, call.condition != .none else { return false }
            tries.hasWaivedCondition = true
            return true
        default:
            return false
        }
    }

    private func useClock(offBy difference: Duration) {
        let isNews = learned.withLock { learned in
            learned.clockOffset = difference
            defer { learned.hasNotedSkew = true }
            return !learned.hasNotedSkew
        }
        if isNews { note(.clockSkew(difference)) }
    }
}

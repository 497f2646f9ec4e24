import Synchronization

@testable import CloudFS

/// Leases in memory, which can be out of reach or lose its answers.
final class MemoryLeases: LeaseStore {
    private struct State {
        var latest: [DocumentID: LeaseRecord] = [:]
        var trouble: CloudFSError?
        var losesAnswers = false
        var requests = 0
    }

    private let state = Mutex(State())

    /// What every request fails with.
    var trouble: CloudFSError? {
        get { state.withLock { $0.trouble } }
        set { state.withLock { $0.trouble = newValue } }
    }

    /// Whether records are stored, and the answer does not say so.
    var losesAnswers: Bool {
        get { state.withLock { $0.losesAnswers } }
        set { state.withLock { $0.losesAnswers = newValue } }
    }

    var requests: Int { state.withLock { $0.requests } }

    func now(_ document: DocumentID) -> LeaseRecord? { state.withLock { $0.latest[document] } }

    func latest(of document: DocumentID) async throws(CloudFSError) -> LeaseRecord? {
        try ask { $0.latest[document] }
    }

    func append(_ record: LeaseRecord) async throws(CloudFSError) -> Bool {
        let isLatest = try ask { state in
            guard record.number > state.latest[record.document]?.number ?? 0 else { return false }
            state.latest[record.document] = record
            return true
        }
        if losesAnswers { throw CloudFSError(.timedOut, "the answer was lost") }
        return isLatest
    }

    func all(atMost limit: Int) async throws(CloudFSError) -> [LeaseRecord] {
        try ask { Array($0.latest.values.prefix(limit)) }
    }

    private func ask<Value: Sendable>(
        _ act: (inout State) -> Value
    ) throws(CloudFSError) -> Value {
        let result = state.withLock { state -> Result<Value, CloudFSError> in
            state.requests += 1
            if let trouble = state.trouble { return .failure(trouble) }
            return .success(act(&state))
        }
        return try result.get()
    }
}

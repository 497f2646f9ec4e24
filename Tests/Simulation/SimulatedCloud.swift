import Synchronization

@testable import CloudFS

/// The cloud that all devices of a simulation share.
final class SimulatedCloud: Sendable {
    private let state: Mutex<CloudTree>
    let traits: CloudTree.Traits

    init(_ traits: CloudTree.Traits) {
        self.traits = traits
        state = Mutex(CloudTree(traits))
    }

    /// One request, all of it or nothing.
    func act<Value: Sendable>(
        _ body: (inout CloudTree) throws(CloudFSError) -> Value
    ) throws(CloudFSError) -> Value {
        try state.withLock { tree throws(CloudFSError) in try body(&tree) }
    }

    func look<Value: Sendable>(_ body: (CloudTree) -> Value) -> Value {
        state.withLock { body($0) }
    }

    /// How much news there was.
    var newsCount: Int { state.withLock { $0.news.count } }
}

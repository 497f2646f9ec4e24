import CloudFSTestSupport
import Glibc
import Synchronization

@testable import CloudFS

/// A cloud of folders and versions, with what clouds can and cannot do as its traits say.
final class TreeCloud: SimulatedCloud {
    private let state: Mutex<CloudTree>
    let traits: CloudTree.Traits

    init(_ traits: CloudTree.Traits) {
        self.traits = traits
        state = Mutex(CloudTree(traits))
    }

    func access(for visitor: Visitor) -> Access {
        let provider = SimulatedProvider(self, over: visitor.link, trace: visitor.trace)
        return Access(provider: provider) { provider.end() }
    }

    /// One request, all of it or nothing.
    func act<Value: Sendable>(
        _ body: (inout CloudTree) throws(CloudFSError) -> Value
    ) throws(CloudFSError) -> Value {
        try state.withLock { tree throws(CloudFSError) in try body(&tree) }
    }

    /// How much news there was.
    var newsCount: Int { state.withLock { $0.news.count } }

    // MARK: - What it has

    func bytes(at path: RemotePath) throws -> [UInt8] {
        try act { tree throws(CloudFSError) in try tree.node(at: path).bytes }
    }

    func contents() -> [[UInt8]] {
        state.withLock { tree in tree.nodes.values.filter { $0.kind == .file }.map(\.bytes) }
    }

    var excusedMarks: Set<String> { [] }

    func bytes(ofVersion content: String) -> [UInt8]? {
        state.withLock { $0.history[content] }
    }

    func tree() -> [String: Observer.Shown] {
        state.withLock { tree in
            var shown: [String: Observer.Shown] = [:]
            var folders: [(Int, String)] = [(CloudTree.root, "")]
            while let (folder, path) = folders.popLast() {
                for (name, number) in tree.nodes[folder]?.children ?? [:] {
                    guard let node = tree.nodes[number] else { continue }
                    let full = path + "/" + Observer.text(name)
                    let isFile = node.kind == .file
                    shown[full] = Observer.Shown(
                        kind: node.kind,
                        size: isFile
                            ? Int64(node.bytes.count) : Int64(node.linkTarget?.count ?? 0),
                        permissions: node.metadata.permissions,
                        modified: isFile ? node.metadata.modified : nil,
                        linkTarget: node.linkTarget,
                        attributes: node.attributes,
                        version: isFile ? node.version.content : nil
                    )
                    if node.kind == .folder { folders.append((number, full)) }
                }
            }
            return shown
        }
    }
}

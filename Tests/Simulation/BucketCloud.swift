import CloudFSTestSupport
import Logging
import Synchronization

@testable import CloudFS

/// A bucket, and the provider for buckets between it and each device.
final class BucketCloud: SimulatedCloud {
    private struct State {
        var server: FakeS3Direct
        /// The bytes of every version that there ever was.
        var history: [String: [UInt8]] = [:]
        var blindWrites = BlindWrites()
    }

    private let state: Mutex<State>

    private static let ownFolder = FakeS3Key(".cloudfs/")

    init(_ settings: FakeS3Settings) {
        state = Mutex(State(server: FakeS3Direct(settings: settings)))
    }

    // MARK: - Devices

    func access(for visitor: Visitor) throws -> Access {
        let wire = SimulatedWire(
            of: visitor.device,
            to: self,
            over: visitor.link,
            trace: visitor.trace
        )
        let client = S3Client(
            endpoint: try S3Endpoint.parse(
                url: "http://127.0.0.1:9",
                bucket: "bucket",
                region: "us-east-1"
            ),
            credentials: S3FixedCredentials(
                S3Credentials(accessKeyID: "key", secretAccessKey: "secret")
            ),
            transport: HTTPTransport(over: wire, maximumConnections: 8, pool: visitor.pool)
        )
        var settings = S3ProviderSettings()
        settings.deviceName = visitor.device
        settings.scanInterval = Self.scanInterval
        let provider = S3Provider(
            client: client,
            prefix: [],
            deviceID: visitor.device,
            stateDirectory: visitor.stateDirectory,
            pool: visitor.pool,
            settings: settings,
            logger: Logger(label: visitor.device) { _ in SwiftLogNoOpLogHandler() }
        )
        return Access(provider: provider) { wire.end() }
    }

    /// How often everything is compared: a record of the journal may be lost.
    private static let scanInterval = Duration.seconds(60)

    /// What a device knows when it sends a request.
    struct Sending: Sendable {
        var memory: BlindWrites.Memory
        var moment: Timestamp
    }

    func beginSending(by device: String) -> Sending {
        state.withLock { state in
            Sending(memory: state.blindWrites.memory(of: device), moment: state.server.now)
        }
    }

    /// An answer, and what a device that hears it has seen then.
    struct Told: Sendable {
        var answer: FakeS3Direct.Answer
        var seen: BlindWrites.Memory
    }

    func note(_ told: Told, by device: String) {
        state.withLock { $0.blindWrites.note(told.seen, by: device) }
    }

    /// One request, all of it or nothing.
    func perform(
        _ method: String,
        _ target: String,
        headers: [(name: String, value: String)],
        body: [UInt8],
        _ sending: Sending
    ) -> Told {
        let key = Self.key(target)
        let source = headers.first { $0.name.lowercased() == "x-amz-copy-source" }
            .flatMap { Self.key($0.value) }
        return state.withLock { state in
            let before = BlindWrites.Sight(key.flatMap { state.server.object($0) })
            let answer = state.server.perform(method, target, headers: headers, body: body)
            if method == "PUT", answer.status == 200, !body.isEmpty {
                let tag = answer.headers.first { $0.name == "ETag" }?.value.filter { $0 != "\"" }
                if let tag { state.history["\(tag):\(body.count)"] = body }
            }
            var seen: BlindWrites.Memory = [:]
            if let key, [200, 204, 206, 404].contains(answer.status) {
                let after = BlindWrites.Sight(state.server.object(key))
                let lost = state.blindWrites.compare(
                    before,
                    after,
                    known: sending.memory[key],
                    sent: sending.moment
                )
                if !lost.isEmpty {
                    Trace.note("cloud", "\(key.text) has no \(lost.sorted()) any more")
                }
                seen[key] = (after, state.server.now)
            }
            if let source, answer.status == 200, source != key {
                seen[source] = (BlindWrites.Sight(state.server.object(source)), state.server.now)
            }
            return Told(answer: answer, seen: seen)
        }
    }

    /// The key of a path in the bucket; `nil` for the bucket itself.
    private static func key(_ path: String) -> FakeS3Key? {
        let path = path.prefix { $0 != "?" }.drop { $0 == "/" }
        guard let slash = path.firstIndex(of: "/"),
            let key = URIEncoding.decode(path[path.index(after: slash)...].utf8), !key.isEmpty
        else { return nil }
        return FakeS3Key(key)
    }

    var excusedMarks: Set<String> { state.withLock { $0.blindWrites.marks } }

    // MARK: - What it has

    func bytes(at path: RemotePath) throws -> [UInt8] {
        let parts = try path.names.enumerated().map { depth, name in
            switch try S3Keys.part(of: name, isInRoot: depth == 0) {
            case .part(let part), .folderBesideFile(let part), .long(let part): part
            }
        }
        let key = FakeS3Key(Array(parts.joined(separator: [UInt8(ascii: "/")])))
        guard let object = state.withLock({ $0.server.object(key) }) else {
            throw CloudFSError(.notFound, "\(path) is not in the bucket")
        }
        return object.bytes
    }

    func contents() -> [[UInt8]] {
        state.withLock { state in
            state.server.keys().filter { !$0.hasPrefix(Self.ownFolder) }
                .compactMap { state.server.object($0)?.bytes }
        }
    }

    func bytes(ofVersion content: String) -> [UInt8]? {
        state.withLock { $0.history[content] }
    }

    /// Read from the keys alone, as a tool would that knows nothing of CloudFS.
    func tree() throws -> [String: Observer.Shown] {
        let objects = state.withLock { state in
            state.server.keys().filter { !$0.hasPrefix(Self.ownFolder) }.compactMap { key in
                state.server.object(key).map { (key.bytes, $0) }
            }
        }
        let files = Set(objects.lazy.map(\.0).filter { $0.last != UInt8(ascii: "/") })
        var tree: [String: Observer.Shown] = [:]
        for (key, object) in objects {
            var path = ""
            var folder: [UInt8] = []
            let parts = key.split(separator: UInt8(ascii: "/"))
            let isMarker = key.last == UInt8(ascii: "/")
            for (depth, part) in parts.enumerated() {
                folder += part
                guard isMarker || depth < parts.count - 1 else {
                    let name = try S3Keys.name(of: Array(part), isInRoot: depth == 0)
                    tree[path + "/" + Observer.text(name.bytes)] = Self.file(object)
                    break
                }
                let name =
                    try files.contains(folder)
                    ? S3Keys.nameOfFolderBesideFile(Array(part))
                    : S3Keys.name(of: Array(part), isInRoot: depth == 0)
                path += "/" + Observer.text(name.bytes)
                let isOwn = isMarker && depth == parts.count - 1
                if isOwn || tree[path] == nil { tree[path] = Self.folder(isOwn ? object : nil) }
                folder.append(UInt8(ascii: "/"))
            }
        }
        return tree
    }

    private static func file(_ object: FakeS3Object) -> Observer.Shown {
        let kind = S3Metadata.kind(object.metadata) == .symlink ? ItemKind.symlink : .file
        let metadata = S3Metadata.metadata(
            object.metadata,
            kind: kind,
            lastModified: object.lastModified
        )
        return Observer.Shown(
            kind: kind,
            size: Int64(object.bytes.count),
            permissions: metadata.permissions,
            modified: kind == .file ? metadata.modified : nil,
            linkTarget: kind == .symlink ? object.bytes : nil,
            attributes: S3Metadata.attributes(object.metadata),
            version: kind == .file ? "\(object.entityTag):\(object.bytes.count)" : nil
        )
    }

    /// - Parameter marker: `nil` for a folder that only what is in it tells of.
    private static func folder(_ marker: FakeS3Object?) -> Observer.Shown {
        let metadata = S3Metadata.metadata(
            marker?.metadata ?? [:],
            kind: .folder,
            lastModified: marker?.lastModified ?? Timestamp(nanoseconds: 0)
        )
        return Observer.Shown(
            kind: .folder,
            size: 0,
            permissions: metadata.permissions,
            modified: nil,
            linkTarget: nil,
            attributes: S3Metadata.attributes(marker?.metadata ?? [:]),
            version: nil
        )
    }
}

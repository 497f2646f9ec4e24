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
    }

    private let state: Mutex<State>

    private static let ownFolder = FakeS3Key(".cloudfs/")

    init(_ settings: FakeS3Settings) {
        state = Mutex(State(server: FakeS3Direct(settings: settings)))
    }

    // MARK: - Devices

    func access(for visitor: Visitor) throws -> Access {
        let wire = SimulatedWire(to: self, over: visitor.link, trace: visitor.trace)
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

    /// One request, all of it or nothing.
    func perform(
        _ method: String,
        _ target: String,
        headers: [(name: String, value: String)],
        body: [UInt8]
    ) -> FakeS3Direct.Answer {
        state.withLock { state in
            let answer = state.server.perform(method, target, headers: headers, body: body)
            if method == "PUT", answer.status == 200, !body.isEmpty {
                let tag = answer.headers.first { $0.name == "ETag" }?.value.filter { $0 != "\"" }
                if let tag { state.history["\(tag):\(body.count)"] = body }
            }
            return answer
        }
    }

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

import Foundation
import Logging

/// Buckets: how they are reached, as options, environment and profile say.
extension DriveParts {
    static func s3Provider(
        _ configuration: MountConfiguration,
        bucket: String,
        prefix: String,
        deviceID: String,
        logger: Logger
    ) throws(CloudFSError) -> S3Provider {
        let options = configuration.s3
        let environment = ProcessInfo.processInfo.environment
        // mount(8), and systemd for the machine's own units, start their programs without it.
        let home = environment["HOME"] ?? NSHomeDirectory()
        let found = try S3ProfileSettings.load(
            environment: environment,
            profile: options.profile,
            home: home
        )
        let endpoint = try S3Endpoint.parse(
            url: options.endpoint ?? found.endpointURL,
            bucket: bucket,
            region: options.region ?? found.region ?? "us-east-1",
            style: options.addressing.flatMap { S3Endpoint.Style(rawValue: $0.rawValue) }
        )
        let pool = BlockingPool(name: "cloudfs-cloud", width: 8)
        let transport = try HTTPTransport(
            maximumConnections: connectionCount,
            caFile: options.caFile ?? found.caBundle,
            pool: pool
        )
        let loginFile = configuration.stateDirectory + "/login"
        let chain = S3CredentialChain(
            environment: environment,
            profile: options.profile,
            home: home,
            loginFile: loginFile,
            isAnonymous: options.isAnonymous,
            pool: pool,
            exchange: webIdentityExchange(transport),
            noteFailure: { error in
                logger.warning(
                    "credentials could not be renewed; those at hand serve until their end",
                    metadata: ["error": "\(error)"]
                )
            }
        )
        let client = S3Client(
            endpoint: endpoint,
            credentials: chain,
            transport: transport,
            note: { log($0, to: logger) }
        )
        var settings = S3ProviderSettings()
        settings.deviceName = configuration.deviceName
        settings.tellsOwners = configuration.remoteIDs
        settings.pollInterval = options.pollInterval
        settings.idlePollInterval = max(options.pollInterval, options.idlePollInterval)
        settings.idleAfter = options.idleAfter
        settings.scanInterval = options.scanInterval
        return S3Provider(
            client: client,
            prefix: Array(prefix.utf8),
            deviceID: deviceID,
            stateDirectory: configuration.stateDirectory,
            pool: pool,
            settings: settings,
            logger: logger,
            keepLogin: options.isAnonymous ? nil : loginKeeper(chain, loginFile, pool)
        )
    }

    private static func loginKeeper(
        _ chain: S3CredentialChain,
        _ path: String,
        _ pool: BlockingPool
    ) -> S3Provider.KeepLogin {
        { credentials async throws(CloudFSError) in
            try await pool.engine { try S3LoginFile.write(credentials, to: path) }
            chain.invalidate()
        }
    }

    /// Requests that are under way at once.
    private static let connectionCount = 48

    /// What the journal calls this drive; made at the first mount.
    static func deviceID(in catalog: Catalog) throws(CloudFSError) -> String {
        try catalog.write { writer in
            if let known = try writer.reader.setting("device-id") { return known }
            let id = String(DocumentID.random().description.prefix(16))
            try writer.setSetting("device-id", to: id)
            return id
        }
    }

    private static func webIdentityExchange(
        _ transport: HTTPTransport
    ) -> S3WebIdentityRequest.Exchange {
        { request throws(CloudFSError) in
            let limit = Duration.seconds(20)
            let meter = transport.meter(HTTPLimits(total: limit, firstByte: limit, idle: limit))
            return try await transport.send(
                HTTPTransport.Request(
                    method: "POST",
                    url: request.url,
                    headers: request.headers,
                    body: .bytes(request.body),
                    // Who reads waits for it, and must not wait for uploads.
                    lane: .receiving
                ),
                meter: meter
            ) { answer throws(CloudFSError) in
                S3WebIdentityAnswer(
                    status: answer.status,
                    body: try await answer.wholeBody(atMost: S3WebIdentityAnswer.byteLimit)
                )
            }
        }
    }

    private static func log(_ note: S3Note, to logger: Logger) {
        switch note {
        case .retried(let method, let attempt, let reason):
            logger.debug(
                "a request is sent again",
                metadata: ["method": "\(method)", "attempt": "\(attempt)", "reason": "\(reason)"]
            )
        case .clockSkew(let offset):
            logger.warning(
                "the server's clock differs from this machine's; its time is used",
                metadata: ["offset": "\(offset)"]
            )
        case .regionLearned(let region):
            logger.notice("the bucket is in another region", metadata: ["region": "\(region)"])
        case .credentialsRefreshed:
            logger.info("credentials were read again")
        }
    }
}

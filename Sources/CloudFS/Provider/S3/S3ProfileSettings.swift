/// What environment and profile say about the server, beside credentials.
struct S3ProfileSettings: Sendable, Equatable {
    var region: String?
    var endpointURL: String?
    /// Path of a file with certificates to trust.
    var caBundle: String?

    /// Reads them in the order of AWS's tools: the environment goes before the profile.
    ///
    /// Blocks, but briefly.
    /// - Parameters:
    ///   - environment: Of the process that mounts.
    ///   - profile: What the drive's options name.
    ///   - home: The user's home folder, without a slash at the end.
    /// - Throws: What is wrong with a file; `invalidArgument` for a named profile in neither.
    static func load(
        environment: [String: String],
        profile: String?,
        home: String
    ) throws(CloudFSError) -> S3ProfileSettings {
        let location = S3ProfileLocation(environment: environment, profile: profile, home: home)
        return S3ProfileSettings(environment: environment, profile: try location.load())
    }

    /// What `environment` says, and `profile` where it says nothing.
    init(environment: [String: String], profile: S3Profile) {
        let environment = environment.filter { !$0.value.isEmpty }
        region =
            environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"] ?? profile["region"]
        caBundle = environment["AWS_CA_BUNDLE"] ?? profile["ca_bundle"]
        endpointURL = Self.endpointURL(of: "S3", environment: environment, profile: profile)
    }

    init(region: String? = nil, endpointURL: String? = nil, caBundle: String? = nil) {
        self.region = region
        self.endpointURL = endpointURL
        self.caBundle = caBundle
    }

    /// The URL configured for a service, `S3` or `STS`; the special goes before the general.
    ///
    /// - Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints"
    static func endpointURL(
        of service: String,
        environment: [String: String],
        profile: S3Profile
    ) -> String? {
        let ignored =
            environment["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"]
            ?? profile["ignore_configured_endpoint_urls"]
        guard ignored?.lowercased() != "true" else { return nil }
        let candidates = [
            environment["AWS_ENDPOINT_URL_\(service)"], environment["AWS_ENDPOINT_URL"],
            profile.services["\(service.lowercased()).endpoint_url"], profile["endpoint_url"],
        ]
        return candidates.lazy.compactMap(\.self).first { !$0.isEmpty }
    }
}

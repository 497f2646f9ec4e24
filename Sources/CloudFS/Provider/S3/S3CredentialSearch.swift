/// Looks for credentials, in AWS's order, and says where it looked when there are none.
///
/// Only files and the environment are looked at; what takes a request or a program is returned as
/// what is to be done.
struct S3CredentialSearch: Sendable {
    enum Finding: Sendable {
        case credentials(S3Credentials)
        case process(S3CredentialProcess)
        case webIdentity(S3CredentialWebIdentity)
    }

    let environment: [String: String]
    let location: S3ProfileLocation
    /// Whether the drive's options name the profile: then the environment's keys are not meant.
    let isProfileChosen: Bool
    let loginFile: String?

    init(environment: [String: String], profile: String?, home: String, loginFile: String?) {
        self.environment = environment.filter { !$0.value.isEmpty }
        location = S3ProfileLocation(environment: environment, profile: profile, home: home)
        isProfileChosen = profile != nil
        self.loginFile = loginFile
    }

    /// The state of every file that is looked at; another state may mean other credentials.
    func fingerprints() -> [S3ProfileFile.Fingerprint?] {
        [loginFile, location.credentialsPath, location.configPath].map { path in
            path.flatMap(S3ProfileFile.Fingerprint.init(path:))
        }
    }

    /// Finds the first source that has something; blocks, but briefly.
    ///
    /// - Throws: `unauthenticated` when there is none; what is wrong with a source that is there.
    func find() throws(CloudFSError) -> Finding {
        if let loginFile, let credentials = try S3LoginFile.read(loginFile) {
            return .credentials(credentials)
        }
        if !isProfileChosen {
            if let credentials = try fromEnvironment() { return .credentials(credentials) }
            if let identity = try identityFromEnvironment() { return .webIdentity(identity) }
        }
        if let finding = try fromProfile(location.load()) { return finding }
        throw CloudFSError(
            .unauthenticated,
            "there are no S3 credentials in \(places.joined(separator: ", ")) or the profile "
                + "\(location.name) of \(location.credentialsPath) and \(location.configPath); "
                + "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the option profile, or "
                + "anonymous for a public bucket; for a drive that is mounted: cloudfs login"
        )
    }

    private var places: [String] {
        var places: [String] = []
        if let loginFile { places.append(loginFile) }
        if !isProfileChosen { places.append("the environment (AWS_ACCESS_KEY_ID)") }
        // With a chosen profile and no login file the sentence still needs a first place.
        return places.isEmpty ? ["a login file"] : places
    }

    private func fromEnvironment() throws(CloudFSError) -> S3Credentials? {
        try S3Credentials(
            accessKeyID: environment["AWS_ACCESS_KEY_ID"],
            secretAccessKey: environment["AWS_SECRET_ACCESS_KEY"],
            sessionToken: environment["AWS_SESSION_TOKEN"] ?? environment["AWS_SECURITY_TOKEN"],
            expiration: environment["AWS_CREDENTIAL_EXPIRATION"]
                .flatMap(S3Time.iso8601),
            source: "the environment"
        )
    }

    private func identityFromEnvironment() throws(CloudFSError) -> S3CredentialWebIdentity? {
        guard let role = environment["AWS_ROLE_ARN"],
            let token = environment["AWS_WEB_IDENTITY_TOKEN_FILE"]
        else { return nil }
        return try S3CredentialWebIdentity(
            roleARN: role,
            tokenPath: token,
            sessionName: environment["AWS_ROLE_SESSION_NAME"],
            environment: environment,
            profile: location.load()
        )
    }

    private func fromProfile(_ profile: S3Profile) throws(CloudFSError) -> Finding? {
        if let role = profile["role_arn"] {
            guard let token = profile["web_identity_token_file"] else {
                throw unsupported("role_arn without web_identity_token_file", of: profile)
            }
            return .webIdentity(
                try S3CredentialWebIdentity(
                    roleARN: role,
                    tokenPath: token,
                    sessionName: profile["role_session_name"],
                    environment: environment,
                    profile: profile
                )
            )
        }
        let stored = "the profile \(profile.name) of \(location.credentialsPath)"
        if let credentials = try S3Credentials(values: profile.stored, of: stored) {
            return .credentials(credentials)
        }
        if let command = profile["credential_process"] {
            return .process(
                S3CredentialProcess(
                    command: command,
                    profile: profile.name,
                    environment: environment
                )
            )
        }
        let configured = "the profile \(profile.name) of \(location.configPath)"
        if let credentials = try S3Credentials(values: profile.configured, of: configured) {
            return .credentials(credentials)
        }
        for key in ["sso_session", "sso_start_url", "login_session"] where profile[key] != nil {
            throw unsupported(key, of: profile)
        }
        return nil
    }

    private func unsupported(_ key: String, of profile: S3Profile) -> CloudFSError {
        CloudFSError(
            .unsupported,
            "the profile \(profile.name) uses \(key), which only AWS's own tools understand; give "
                + "another profile credential_process = aws configure export-credentials "
                + "--profile \(profile.name)"
        )
    }
}

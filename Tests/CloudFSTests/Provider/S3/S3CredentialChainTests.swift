import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// Clocks and a security token service that do as a test says, and a home folder.
final class CredentialFixture: Sendable {
    struct State {
        var now = Timestamp(seconds: 1_800_000_000, nanoseconds: 0)
        var elapsed = Duration.zero
        var requests: [S3WebIdentityRequest] = []
        var answer = Result<S3WebIdentityAnswer, CloudFSError>.failure(
            CloudFSError(.offline, "no service")
        )
        var failures: [CloudFSError.Code] = []
    }

    let home: TemporaryDirectory
    let state = Mutex(State())
    private let pool = BlockingPool(name: "test", width: 2)

    init() throws {
        home = try TemporaryDirectory()
    }

    var requestCount: Int { state.withLock { $0.requests.count } }

    func advance(by duration: Duration) {
        state.withLock { state in
            state.now = state.now + duration
            state.elapsed += duration
        }
    }

    func answer(_ status: Int, _ body: String) {
        let answer = S3WebIdentityAnswer(status: status, body: Array(body.utf8))
        state.withLock { $0.answer = .success(answer) }
    }

    /// An answer with credentials that are good for so long.
    func grant(_ key: String, for lifetime: Duration) {
        let end = S3Time.extended(state.withLock { $0.now } + lifetime)
        let fields = [
            "AccessKeyId": key, "SecretAccessKey": "se&amp;cret", "SessionToken": "tok",
            "Expiration": end,
        ]
        let text = fields.map { "<\($0.key)>\($0.value)</\($0.key)>" }.joined(separator: "\n")
        answer(200, "<?xml version=\"1.0\"?><A xmlns=\"x\"><Credentials>\(text)</Credentials></A>")
    }

    func chain(
        _ environment: [String: String] = [:],
        profile: String? = nil,
        isAnonymous: Bool = false
    ) -> S3CredentialChain {
        S3CredentialChain(
            environment: environment,
            profile: profile,
            home: home.path,
            loginFile: home.path("login"),
            isAnonymous: isAnonymous,
            clocks: Clocks(
                now: { [self] in state.withLock { $0.now } },
                elapsed: { [self] in state.withLock { $0.elapsed } }
            ),
            pool: pool,
            exchange: { [self] request throws(CloudFSError) in
                let answer = state.withLock { state in
                    state.requests.append(request)
                    return state.answer
                }
                return try answer.get()
            },
            noteFailure: { [self] error in state.withLock { $0.failures.append(error.code) } }
        )
    }

    /// Why renewals failed, as it was told.
    var failures: [CloudFSError.Code] { state.withLock { $0.failures } }

    /// A profile with one pair of keys, as AWS's files have it.
    static func keys(_ title: String, _ key: String) -> String {
        "[\(title)]\naws_access_key_id = \(key)\naws_secret_access_key = secret\n"
    }
}

@Suite struct S3CredentialChainTests {
    private let fixture: CredentialFixture
    private var home: TemporaryDirectory { fixture.home }
    private let keysOfEnvironment = [
        "AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t",
    ]

    init() throws {
        fixture = try CredentialFixture()
    }

    private func key(of chain: S3CredentialChain) async throws -> String? {
        try await chain.credentials()?.accessKeyID
    }

    private func login(_ key: String) throws {
        try S3LoginFile.write(
            S3Credentials(accessKeyID: key, secretAccessKey: "s"),
            to: home.path("login")
        )
    }

    // MARK: - Where credentials come from

    @Test func `the login file goes before the environment, and that before the profile`()
        async throws
    {
        try home.write(CredentialFixture.keys("default", "CONFIG").utf8, to: ".aws/config")
        #expect(try await key(of: fixture.chain()) == "CONFIG")
        try home.write(CredentialFixture.keys("default", "STORED").utf8, to: ".aws/credentials")
        #expect(try await key(of: fixture.chain()) == "STORED")
        let found = try await fixture.chain(keysOfEnvironment).credentials()
        #expect(
            found
                == S3Credentials(accessKeyID: "ENV", secretAccessKey: "s", sessionToken: "t")
        )
        try login("LOGIN")
        #expect(try await key(of: fixture.chain(keysOfEnvironment)) == "LOGIN")
        let anonymous = fixture.chain(keysOfEnvironment, isAnonymous: true)
        #expect(try await anonymous.credentials() == nil)
    }

    @Test func `a profile chosen for the drive goes before the environment's keys`() async throws {
        try home.write(CredentialFixture.keys("x", "PROFILE").utf8, to: ".aws/credentials")
        let environment = keysOfEnvironment.merging(["AWS_PROFILE": "x"]) { $1 }
        #expect(try await key(of: fixture.chain(environment)) == "ENV")
        #expect(try await key(of: fixture.chain(environment, profile: "x")) == "PROFILE")
    }

    @Test func `without credentials the error says where they were looked for`() async throws {
        let error = await #expect(throws: CloudFSError.self) {
            try await fixture.chain().credentials()
        }
        #expect(error?.code == .unauthenticated)
        let message = error?.message ?? ""
        for place in [
            home.path("login"), "AWS_ACCESS_KEY_ID", "profile default",
            home.path(".aws/credentials"), home.path(".aws/config"), "cloudfs login", "anonymous",
        ] {
            #expect(message.contains(place), "\(message)")
        }
    }

    @Test func `half a pair in the environment is an error`() async throws {
        let error = await #expect(throws: CloudFSError.self) {
            try await fixture.chain(["AWS_ACCESS_KEY_ID": "a"]).credentials()
        }
        #expect(error?.message == "the environment has no secret key beside the other one")
    }

    @Test(arguments: ["role_arn = r\nsource_profile = y", "sso_session = s", "sso_start_url = u"])
    func `what only AWS's tools understand is named`(lines: String) async throws {
        try home.write("[profile x]\n\(lines)".utf8, to: ".aws/config")
        let error = await #expect(throws: CloudFSError.self) {
            try await fixture.chain(profile: "x").credentials()
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("export-credentials --profile x") == true)
    }

    // MARK: - Change

    @Test func `a changed file is seen within a second`() async throws {
        let chain = fixture.chain()
        try home.write(CredentialFixture.keys("default", "ONE").utf8, to: ".aws/credentials")
        #expect(try await key(of: chain) == "ONE")
        try home.write(CredentialFixture.keys("default", "SECOND").utf8, to: ".aws/credentials")
        #expect(try await key(of: chain) == "ONE")
        fixture.advance(by: .seconds(1))
        #expect(try await key(of: chain) == "SECOND")

        try login("LOGIN")
        fixture.advance(by: .seconds(1))
        #expect(try await key(of: chain) == "LOGIN")
        try home.remove("login")
        try home.remove(".aws/credentials")
        fixture.advance(by: .seconds(1))
        await #expect(throws: CloudFSError.self) { try await chain.credentials() }
        try login("AGAIN")
        #expect(try await key(of: chain) == "AGAIN")
    }

    @Test func `refused credentials are looked for again at once`() async throws {
        let chain = fixture.chain()
        try login("ONE")
        let first = try await chain.credentials()
        try login("TWO")
        chain.invalidate(first)
        let second = try await chain.credentials()
        #expect(second?.accessKeyID == "TWO")
        try login("THREE")
        chain.invalidate(first)
        #expect(try await key(of: chain) == "TWO", "those that were refused had gone")
        chain.invalidate()
        #expect(try await key(of: chain) == "THREE")
    }

    // MARK: - Web identity

    private func identity(_ more: [String: String] = [:]) throws -> [String: String] {
        try home.write("tok.en\n".utf8, to: "token")
        return [
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/r", "AWS_REGION": "eu-central-1",
            "AWS_WEB_IDENTITY_TOKEN_FILE": home.path("token"),
        ].merging(more) { $1 }
    }

    @Test func `a token is exchanged for credentials`() async throws {
        fixture.grant("STS", for: .seconds(3_600))
        let found = try await fixture.chain(identity()).credentials()
        #expect(found?.accessKeyID == "STS")
        #expect(found?.secretAccessKey == "se&cret")
        #expect(found?.sessionToken == "tok")
        #expect(found?.expiration == Timestamp(seconds: 1_800_003_600, nanoseconds: 0))
        let request = try #require(fixture.state.withLock { $0.requests.first })
        #expect(request.url == "https://sts.eu-central-1.amazonaws.com/")
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
                + "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"
                + "&RoleSessionName=cloudfs&WebIdentityToken=tok.en"
        )
        #expect(!"\(request) \(String(reflecting: request))".contains("tok"))
    }

    @Test func `a profile can name the identity and the service`() async throws {
        _ = try identity()
        let config = """
            [profile k8s]
            role_arn = role
            web_identity_token_file = \(home.path("token"))
            role_session_name = me
            endpoint_url = http://rgw.example:7480
            """
        try home.write(config.utf8, to: ".aws/config")
        fixture.grant("STS", for: .seconds(3_600))
        #expect(try await key(of: fixture.chain(profile: "k8s")) == "STS")
        let request = try #require(fixture.state.withLock { $0.requests.first })
        #expect(request.url == "http://rgw.example:7480/")
        #expect(String(decoding: request.body, as: UTF8.self).contains("RoleSessionName=me&"))
    }

    @Test func `credentials are renewed five minutes before their end`() async throws {
        let chain = fixture.chain(try identity())
        fixture.grant("ONE", for: .seconds(3_600))
        #expect(try await key(of: chain) == "ONE")
        fixture.advance(by: .seconds(3_299))
        fixture.grant("TWO", for: .seconds(3_600))
        #expect(try await key(of: chain) == "ONE")
        fixture.advance(by: .seconds(2))
        // Nobody waits for it while the old ones serve.
        try await eventually("they are renewed") { try await key(of: chain) == "TWO" }
        #expect(fixture.requestCount == 2)
    }

    @Test func `a renewal that fails leaves the old ones until their end`() async throws {
        let chain = fixture.chain(try identity())
        fixture.grant("ONE", for: .seconds(400))
        #expect(try await key(of: chain) == "ONE")
        fixture.answer(503, "")
        fixture.advance(by: .seconds(200))
        #expect(try await key(of: chain) == "ONE")
        try await eventually("it has failed") { fixture.failures == [.offline] }
        fixture.advance(by: .seconds(9))
        #expect(try await key(of: chain) == "ONE")
        #expect(fixture.requestCount == 2, "not tried at each request")
        fixture.advance(by: .seconds(1))
        #expect(try await key(of: chain) == "ONE")
        try await eventually("it is tried again") { fixture.requestCount == 3 }
        fixture.advance(by: .seconds(190))
        let error = await #expect(throws: CloudFSError.self) { try await chain.credentials() }
        #expect(error?.code == .offline)
        fixture.grant("TWO", for: .seconds(400))
        #expect(try await key(of: chain) == "TWO")
        #expect(fixture.failures == [.offline], "each reason is told once")
    }

    @Test func `short credentials are not renewed at each request`() async throws {
        let chain = fixture.chain(try identity())
        fixture.grant("SHORT", for: .seconds(60))
        for _ in 0..<5 { #expect(try await key(of: chain) == "SHORT") }
        #expect(fixture.requestCount == 1)
    }

    @Test func `credentials that come expired, as a wrong clock has it, are used for a while`()
        async throws
    {
        let chain = fixture.chain(try identity())
        fixture.grant("OLD", for: .seconds(-60))
        for _ in 0..<5 { #expect(try await key(of: chain) == "OLD") }
        #expect(fixture.requestCount == 1)
        fixture.advance(by: .seconds(10))
        #expect(try await key(of: chain) == "OLD")
        #expect(fixture.requestCount == 2)
    }

    @Test func `a profile that broke is an error until it is mended`()
        async throws
    {
        let chain = fixture.chain()
        try home.write(CredentialFixture.keys("default", "ONE").utf8, to: ".aws/credentials")
        #expect(try await key(of: chain) == "ONE")
        try home.write("nonsense".utf8, to: ".aws/credentials")
        fixture.advance(by: .seconds(1))
        let error = await #expect(throws: CloudFSError.self) { try await chain.credentials() }
        #expect(error?.code == .invalidArgument)
        try home.write(CredentialFixture.keys("default", "TWO").utf8, to: ".aws/credentials")
        #expect(try await key(of: chain) == "TWO")
    }

    @Test func `many requests wait for one exchange`() async throws {
        let chain = fixture.chain(try identity())
        fixture.grant("STS", for: .seconds(3_600))
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<50 {
                group.addTask { try await chain.credentials()?.accessKeyID }
            }
            for try await key in group { #expect(key == "STS") }
        }
        #expect(fixture.requestCount == 1)
    }

    @Test(
        arguments: [
            (403, "<Error><Code>AccessDenied</Code></Error>", CloudFSError.Code.unauthenticated),
            (400, "<Error><Code>ExpiredTokenException</Code></Error>", .unauthenticated),
            (400, "nonsense", .unauthenticated), (503, "", .offline), (429, "", .offline),
            (200, "", .offline), (200, "<AccessKeyId>a</AccessKeyId>", .unauthenticated),
            (200, "<AccessKeyId><b/></AccessKeyId>", .offline), (302, "", .unauthenticated),
            (200, String(repeating: "x", count: 70_000), .offline),
        ]
    )
    func `an answer without credentials is an error`(
        status: Int,
        body: String,
        code: CloudFSError.Code
    ) async throws {
        fixture.answer(status, body)
        let chain = fixture.chain(try identity())
        let error = await #expect(throws: CloudFSError.self) { try await chain.credentials() }
        #expect(error?.code == code)
        #expect(error?.description.contains("tok.en") == false)
    }

    @Test(arguments: ["", "two words", "\n"])
    func `a token file without a token is an error`(content: String) async throws {
        let environment = try identity()
        try home.write(content.utf8, to: "token")
        let error = await #expect(throws: CloudFSError.self) {
            try await fixture.chain(environment).credentials()
        }
        #expect(error?.code == .unauthenticated)
        #expect(fixture.requestCount == 0)
    }

    @Test func `a region that would lead to another host is refused`() async throws {
        let chain = fixture.chain(try identity(["AWS_REGION": "x.evil.example/"]))
        let error = await #expect(throws: CloudFSError.self) { try await chain.credentials() }
        #expect(error?.code == .invalidArgument)
        #expect(fixture.requestCount == 0)
    }
}

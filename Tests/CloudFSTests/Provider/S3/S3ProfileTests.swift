import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct S3ProfileTests {
    private let home: TemporaryDirectory

    init() throws {
        home = try TemporaryDirectory()
    }

    private func settings(
        _ environment: [String: String] = [:],
        profile: String? = nil
    ) throws -> S3ProfileSettings {
        try S3ProfileSettings.load(environment: environment, profile: profile, home: home.path)
    }

    @Test func `without files and variables nothing is said`() throws {
        #expect(try settings() == S3ProfileSettings())
        #expect(try settings(["AWS_REGION": "", "AWS_PROFILE": ""]) == S3ProfileSettings())
    }

    @Test func `the environment goes before the profile`() throws {
        let config = """
            [default]
            region = from-profile
            endpoint_url = https://profile.example
            ca_bundle = /profile.pem
            """
        try home.write(config.utf8, to: ".aws/config")
        #expect(
            try settings()
                == S3ProfileSettings(
                    region: "from-profile",
                    endpointURL: "https://profile.example",
                    caBundle: "/profile.pem"
                )
        )
        var environment = [
            "AWS_DEFAULT_REGION": "second", "AWS_ENDPOINT_URL": "https://any.example",
            "AWS_CA_BUNDLE": "/env.pem",
        ]
        #expect(
            try settings(environment)
                == S3ProfileSettings(
                    region: "second",
                    endpointURL: "https://any.example",
                    caBundle: "/env.pem"
                )
        )
        environment["AWS_REGION"] = "first"
        environment["AWS_ENDPOINT_URL_S3"] = "https://s3.example"
        #expect(try settings(environment).region == "first")
        #expect(try settings(environment).endpointURL == "https://s3.example")
        environment["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
        #expect(try settings(environment).endpointURL == nil)
    }

    @Test func `a service's endpoint goes before the profile's`() throws {
        let config = """
            [profile x]
            services = mine
            endpoint_url = https://profile.example
            [services mine]
            s3 =
              endpoint_url = https://s3.example
            dynamodb =
              endpoint_url = https://other.example
            """
        try home.write(config.utf8, to: ".aws/config")
        #expect(try settings(profile: "x").endpointURL == "https://s3.example")
    }

    @Test(arguments: ["[profile a b]", "[profile  a b ]", "[profile \"a b\"]", "[profile\t'a b']"])
    func `a profile is found however it is written`(title: String) throws {
        try home.write("\(title)\nregion = here\n[a b]\nregion = not here".utf8, to: ".aws/config")
        #expect(try settings(profile: "a b").region == "here")
        #expect(try settings(["AWS_PROFILE": "a b"]).region == "here")
        #expect(try settings(["AWS_PROFILE": "none"], profile: "a b").region == "here")
    }

    @Test func `files can be elsewhere`() throws {
        try home.write("[default]\nregion = there".utf8, to: "there/config")
        #expect(try settings(["AWS_CONFIG_FILE": "~/there/config"]).region == "there")
        #expect(try settings(["AWS_CONFIG_FILE": home.path("there/config")]).region == "there")
        #expect(try settings(["AWS_CONFIG_FILE": "/dev/null"]).region == nil)
    }

    @Test func `a named profile that is nowhere is an error`() throws {
        try home.write("[other]\nregion = x".utf8, to: ".aws/credentials")
        for (environment, profile) in [(["AWS_PROFILE": "gone"], nil), ([:], "gone")] {
            let error = #expect(throws: CloudFSError.self) {
                try settings(environment, profile: profile)
            }
            #expect(error?.code == .invalidArgument)
            #expect(error?.message.contains("no profile gone in \(home.path)") == true)
        }
        #expect(try settings(profile: "other").region == "x")
    }

    @Test func `a folder in the place of a file is an error`() throws {
        try home.makeFolder(".aws/config")
        #expect(throws: CloudFSError.self) { try settings() }
    }
}

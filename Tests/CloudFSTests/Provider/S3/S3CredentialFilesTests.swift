import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// The drive's login file, and what `S3Credentials` show of themselves.
@Suite struct S3CredentialFilesTests {
    private let folder: TemporaryDirectory
    private let path: String
    private let login = S3Credentials(
        accessKeyID: "AKIDLOGIN1234",
        secretAccessKey: "#;[sec=ret]:/+",
        sessionToken: "token==",
        expiration: Timestamp(seconds: 1_900_000_000, nanoseconds: 0)
    )

    init() throws {
        folder = try TemporaryDirectory()
        path = folder.path("new/folder/drive.login")
    }

    private func mode(_ path: String) -> mode_t {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
    }

    @Test func `what is written is read again`() throws {
        #expect(try S3LoginFile.read(path) == nil)
        try S3LoginFile.write(login, to: path)
        #expect(try S3LoginFile.read(path) == login)
        #expect(mode(path) == 0o600)
        #expect(mode(folder.path("new")) == 0o700)

        let other = S3Credentials(accessKeyID: "other", secretAccessKey: "x")
        try S3LoginFile.write(other, to: path)
        #expect(try S3LoginFile.read(path) == other)
        let names = try onlyNames(in: folder.path("new/folder"))
        #expect(names == ["drive.login"])
    }

    private func onlyNames(in path: String) throws -> [String] {
        let stream = try #require(opendir(path))
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    @Test(arguments: ["", "a b", "line\nbreak", "naïve", "tab\t", "nul\0"])
    func `what no file could give back is not written`(secret: String) throws {
        let error = #expect(throws: CloudFSError.self) {
            try S3LoginFile.write(
                S3Credentials(accessKeyID: "AKID", secretAccessKey: secret),
                to: path
            )
        }
        #expect(error?.code == .invalidArgument)
        #expect(!folder.exists("new"))
    }

    @Test func `a login that cannot be written leaves the old one`() throws {
        try folder.write("file".utf8, to: "blocked")
        let error = #expect(throws: CloudFSError.self) {
            try S3LoginFile.write(login, to: folder.path("blocked/drive.login"))
        }
        #expect(error?.code == .denied)
        #expect(try folder.read("blocked") == Array("file".utf8))
    }

    @Test(arguments: [mode_t(0o640), 0o604, 0o660, 0o610])
    func `a file open to others is refused`(mode: mode_t) throws {
        try S3LoginFile.write(login, to: path)
        chmod(path, mode)
        let error = #expect(throws: CloudFSError.self) { try S3LoginFile.read(path) }
        #expect(error?.code == .notPermitted)
        #expect(error?.message.contains("chmod 600 \(path)") == true)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give files away"))
    func `a file of another user is refused`() throws {
        try S3LoginFile.write(login, to: path)
        try #require(chown(path, 12_345, 12_345) == 0)
        let error = #expect(throws: CloudFSError.self) { try S3LoginFile.read(path) }
        #expect(error?.code == .notPermitted)
    }

    @Test func `a symbolic link, a pipe and a folder are refused`() throws {
        try S3LoginFile.write(login, to: path)
        let (link, pipe) = (folder.path("link"), folder.path("pipe"))
        try #require(symlink(path, link) == 0)
        try #require(mkfifo(pipe, 0o600) == 0)
        for path in [link, pipe, folder.path("new")] {
            #expect(throws: CloudFSError.self, "\(path)") { try S3LoginFile.read(path) }
        }
    }

    @Test func `a file with half a login says so`() throws {
        try folder.write("[default]\naws_access_key_id = AKID\n".utf8, to: "half")
        chmod(folder.path("half"), 0o600)
        let error = #expect(throws: CloudFSError.self) {
            try S3LoginFile.read(folder.path("half"))
        }
        #expect(error?.code == .unauthenticated)
        #expect(error?.message.contains("no secret key") == true)
    }

    @Test func `credentials show no secrets`() {
        var dumped = ""
        dump(login, to: &dumped)
        let shown = ["\(login)", String(reflecting: login), "\([login])", dumped]
        for text in shown {
            for secret in [login.accessKeyID, login.secretAccessKey, "token"] {
                #expect(!text.contains(secret), "\(text)")
            }
            #expect(text.contains("…1234"))
        }
    }

    @Test(
        arguments: [
            ("2013-05-24T00:00:00Z", 1_369_353_600), ("2024-02-29T12:30:01.123456Z", 1_709_209_801),
            ("2024-02-29T14:30:01+02:00", 1_709_209_801), ("1970-01-01T00:00:00Z", 0),
            ("2024-02-29T10:00:01-0230", 1_709_209_801), ("2100-03-01T00:00:00Z", 4_107_542_400),
        ]
    )
    func `times are read`(text: String, seconds: Int64) {
        #expect(S3Time.iso8601(text)?.seconds == seconds)
    }

    @Test(
        arguments: [
            "", "2013-05-24", "2013-05-24T00:00:00", "2013-13-24T00:00:00Z", "13-05-24T00:00:00Z",
            "2013-05-24T24:00:00Z", "2013-05-24T00:00:00Zx", "never",
        ]
    )
    func `what is no time is no time`(text: String) {
        #expect(S3Time.iso8601(text) == nil)
    }

    @Test func `every day has its date`() {
        var time = tm()
        for day in stride(from: -20_000, to: 60_000, by: 1) {
            let seconds = day * 86_400 + 45_296
            var moment = time_t(seconds)
            gmtime_r(&moment, &time)
            let date = Timestamp(seconds: Int64(seconds), nanoseconds: 0)
            let text = S3Time.extended(date)
            let parts = text.split { !$0.isNumber }.compactMap { Int32($0) }
            let expected = [
                time.tm_year + 1_900, time.tm_mon + 1, time.tm_mday, time.tm_hour, time.tm_min,
                time.tm_sec,
            ]
            guard parts == expected, S3Time.iso8601(text) == date else {
                Issue.record("day \(day): \(text) is not \(expected)")
                return
            }
        }
    }
}

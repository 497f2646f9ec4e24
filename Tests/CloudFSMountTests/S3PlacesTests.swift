import CloudFSTestSupport
import Testing

/// Favorites, tags and bookmarks of objects, of which listings tell little.
@Suite(
    .onMounts,
    .printingLogs,
    .notingIssues,
    .enabled(if: !S3TestServers.all.isEmpty, Comment(rawValue: S3TestServers.reason))
)
struct S3PlacesTests {
    /// Two devices on a new bucket, into which the first has put something before the second came.
    private static func withTwoDevices(
        on server: S3TestServer,
        filling: String,
        body: (_ first: TestDrive, _ second: TestDrive) async throws -> Void
    ) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            var options = S3DriveTests.options(server, bucket)
            try await TestDrive.with(options: options, slots: 2) { first in
                try await first.run(filling)
                try await first.drain()
                options.arguments += ["--device-name", "second"]
                try await first.withSecondDrive(options: options) { second in
                    try await body(first, second)
                }
            }
        }
    }

    @Test(arguments: S3TestServers.all)
    func `favorites and tags of two devices meet in a bucket`(server: S3TestServer) async throws {
        try await Self.withTwoDevices(
            on: server,
            filling: "echo text > file; setfattr -n user.xdg.tags -v old file"
        ) { first, second in
            try await eventually("the second has the tag", within: .seconds(20)) {
                guard try await second.exists("file") else { return false }
                return try await second.attribute("user.xdg.tags", of: "file") == "old"
            }
            try await first.mustDo(["pause"])
            try await second.mustDo(["pause"])
            try await first.run("setfattr -n user.cloudfs.favorite -v 1 file")
            try await first.run("setfattr -n user.xdg.tags -v old,here file")
            try await second.run("setfattr -n user.xdg.tags -v there file")
            try await first.mustDo(["resume"])
            try await first.drain()
            // A listing tells two changes of one second apart by nothing.
            try await first.run(Self.nextSecond)
            try await second.mustDo(["resume"])
            for device in [first, second] {
                try await eventually("both have all of it", within: .seconds(30)) {
                    let tags = try await device.attribute("user.xdg.tags", of: "file")
                    guard Set((tags ?? "").split(separator: ",")) == ["here", "there"]
                    else { return false }
                    let favorite = "user.cloudfs.favorite"
                    return try await device.attribute(favorite, of: "file") == "1"
                }
            }
            #expect(try await first.names() == ["file"])
        }
    }

    @Test(arguments: S3TestServers.all)
    func `what another device writes on a folder is seen, also what it wrote while this was off`(
        server: S3TestServer
    ) async throws {
        try await Self.withTwoDevices(
            on: server,
            filling: "mkdir folder; echo text > folder/file"
        ) { first, second in
            func seen(_ tag: String, _ mode: String) async throws {
                try await eventually("the second has \(tag)", within: .seconds(20)) {
                    guard try await second.exists("folder/file") else { return false }
                    let shown = try await second.attribute("user.xdg.tags", of: "folder")
                    guard shown == tag else { return false }
                    return try await second.run("stat -c %a folder") == mode
                }
            }
            try await first.run("setfattr -n user.xdg.tags -v one folder")
            try await seen("one", "755")
            // Of one second, perhaps: a listing tells nothing of it, but the journal does.
            try await first.run("chmod 750 folder; setfattr -n user.xdg.tags -v two folder")
            try await seen("two", "750")
            try await second.mount.stop()
            // A listing tells two changes of one second apart by nothing.
            try await first.run(Self.nextSecond)
            try await first.run("setfattr -n user.xdg.tags -v three folder")
            try await first.drain()
            _ = try await second.again()
            try await seen("three", "750")
        }
    }

    /// Waits for the next but one second.
    private static let nextSecond =
        "now=$(date +%s); while [ $(date +%s) -le $((now + 1)) ]; do :; done"

    @Test(arguments: S3TestServers.all)
    func `a bookmark of an object that only a listing told of follows it`(
        server: S3TestServer
    ) async throws {
        let folder = try TemporaryDirectory()
        try folder.write("plain".utf8, to: "plain")
        try await S3TestServers.withBucket(on: server) { bucket in
            let options = S3DriveTests.options(server, bucket)
            try await TestDrive.with(options: options) { first in
                // One that has its own identity in the bucket, and one that has none.
                try await first.run("mkdir sub; echo one > sub/a; mv sub/a sub/own")
                try await first.drain()
            }
            try await S3Programs.rclone(
                ["copyto", folder.path("plain"), "cloud:\(bucket)/sub/plain"],
                on: server
            )
            try await TestDrive.with(options: options, slots: 2) { drive in
                var tokens: [String] = []
                for name in ["sub/own", "sub/plain"] {
                    let said = try await drive.mustDo(["bookmark", "create", name])
                    tokens.append(String(said.dropLast()))
                }
                var options = options
                options.arguments += ["--device-name", "second"]
                try await drive.withSecondDrive(options: options) { second in
                    try await second.run("mv sub/own moved-own")
                    try await second.drain()
                    // A plain tool's object is the same document while it has its key.
                    for (token, name) in zip(tokens, ["moved-own", "sub/plain"]) {
                        try await eventually("the bookmark follows", within: .seconds(20)) {
                            let found = try await drive.cloudfs(["bookmark", "resolve", token])
                            return found.output == "\(drive.path)/\(name)\n"
                        }
                    }
                }
            }
        }
    }
}

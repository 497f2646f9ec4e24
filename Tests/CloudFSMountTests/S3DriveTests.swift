import CloudFSTestSupport
import Testing

/// Drives on buckets of real servers.
@Suite(
    .onMounts,
    .printingLogs,
    .notingIssues,
    .enabled(if: !S3TestServers.all.isEmpty, Comment(rawValue: S3TestServers.reason))
)
struct S3DriveTests {
    static func options(_ server: S3TestServer, _ bucket: String) -> TestMount.Options {
        var options = TestMount.Options(["--poll-interval", "200ms"])
        options.container = "s3://\(bucket)"
        options.environment = server.environment
        return options
    }

    static func withDrive(
        on server: S3TestServer,
        body: (TestDrive, String) async throws -> Void
    ) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            try await TestDrive.with(options: options(server, bucket)) { drive in
                try await body(drive, bucket)
            }
        }
    }

    @Test(arguments: S3TestServers.all)
    func `what rclone wrote is there, and rclone reads what the drive wrote`(
        server: S3TestServer
    ) async throws {
        let folder = try TemporaryDirectory()
        for number in 0..<20 {
            try folder.write("content \(number)".utf8, to: "docs/file \(number).txt")
        }
        try await S3TestServers.withBucket(on: server) { bucket in
            _ = try await Shell.run([
                "touch", "-d", "2001-02-03T04:05:06.5Z", folder.path("docs/file 3.txt"),
            ])
            try await S3Programs.rclone(
                ["copy", folder.path("docs"), "cloud:\(bucket)/docs"],
                on: server
            )
            try await TestDrive.with(options: Self.options(server, bucket)) { drive in
                try await drive.run(
                    """
                    [ "$(ls docs | wc -l)" = 20 ]
                    [ "$(stat -c %Y 'docs/file 3.txt')" = 981173106 ]
                    [ "$(cat 'docs/file 7.txt')" = "content 7" ]
                    echo "from the drive" > docs/new.txt
                    touch -d 2003-04-05T06:07:08Z docs/new.txt
                    mkdir -p deep/er && cp docs/new.txt "deep/er/Grüße.txt"
                    rm 'docs/file 0.txt' && mv 'docs/file 1.txt' deep/
                    """
                )
                try await drive.drain()
            }
            try await S3Programs.rclone(
                ["copy", "cloud:\(bucket)", folder.path("back"), "--exclude", "/.cloudfs/**"],
                on: server
            )
        }
        #expect(try folder.read("back/docs/new.txt") == Array("from the drive\n".utf8))
        #expect(try folder.read("back/deep/er/Grüße.txt") == Array("from the drive\n".utf8))
        #expect(try folder.read("back/deep/file 1.txt") == Array("content 1".utf8))
        #expect(!folder.exists("back/docs/file 0.txt"))
        let time = try await Shell.run(["stat", "-c", "%Y", folder.path("back/docs/new.txt")])
        #expect(time.output == "1049522828\n")
    }

    @Test(
        .enabled(if: TestMount.isRoot, "owners need root"),
        arguments: S3TestServers.all
    )
    func `modes, times, owners and links agree with rclone`(server: S3TestServer) async throws {
        let folder = try TemporaryDirectory()
        let made = try await Shell.script(
            """
            set -e; mkdir -p \(folder.path("from/d")); cd \(folder.path("from/d"))
            echo text > script; chmod 750 script; chown 1234:2345 script
            touch -d 2005-06-07T08:09:10.5Z script; ln -s script link
            """
        )
        #expect(made.status == 0, "\(made)")
        try await S3TestServers.withBucket(on: server) { bucket in
            try await S3Programs.rclone(
                ["copy", "--metadata", "--links", folder.path("from"), "cloud:\(bucket)"],
                on: server
            )
            var drive = Self.options(server, bucket)
            drive.arguments.append("--remote-ids")
            try await TestDrive.with(options: drive) { drive in
                try await drive.run(
                    """
                    [ "$(stat -c '%a %Y %u %g' d/script)" = "750 1118131750 1234 2345" ]
                    [ "$(readlink d/link.rclonelink)" = script ]
                    echo more > d/other; chmod 600 d/other; chown 3456:4567 d/other
                    touch -d 2006-07-08T09:10:11Z d/other
                    ln -s ../d/other d/back.rclonelink; chmod 710 d/script
                    """
                )
                try await drive.drain()
            }
            // Apart, as it sets attributes, which links cannot have.
            for options in [["--metadata", "--exclude", "*.rclonelink"], ["--links"]] {
                try await S3Programs.rclone(
                    ["copy", "cloud:\(bucket)/d", folder.path("back/d")] + options,
                    on: server
                )
            }
        }
        let back = try await Shell.script(
            """
            set -e; cd \(folder.path("back/d"))
            [ "$(stat -c '%a %Y %u %g' other)" = "600 1152349811 3456 4567" ]
            [ "$(stat -c '%a %Y %u %g' script)" = "710 1118131750 1234 2345" ]
            [ "$(readlink back)" = ../d/other ] && [ "$(cat back)" = more ]
            """
        )
        #expect(back.status == 0, "\(back)")
    }

    @Test(
        .enabled(if: S3Programs.hasS3fs && TestMount.isRoot, "needs s3fs, and root for owners"),
        arguments: S3TestServers.all
    )
    func `modes, times, owners and links agree with s3fs`(server: S3TestServer) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            try await S3Programs.withS3fs(bucket, on: server) { folder in
                let result = try await Shell.script(
                    """
                    set -e; cd \(folder)
                    mkdir d; echo text > d/script; chmod 750 d/script; chown 1234:2345 d/script
                    touch -d 2005-06-07T08:09:10Z d/script
                    ln -s script d/link; mkdir empty
                    """
                )
                #expect(result.status == 0, "\(result)")
            }
            var options = Self.options(server, bucket)
            options.arguments.append("--remote-ids")
            try await TestDrive.with(options: options) { drive in
                try await drive.run(
                    """
                    [ "$(stat -c '%a %Y %u %g' d/script)" = "750 1118131750 1234 2345" ]
                    [ "$(readlink d/link)" = script ] && [ "$(cat d/link)" = text ]
                    [ -d empty ]
                    echo more > d/other; chmod 600 d/other; chown 3456:4567 d/other
                    touch -d 2006-07-08T09:10:11Z d/other
                    ln -s ../d/other empty/back; mkdir made
                    """
                )
                try await drive.drain()
            }
            try await S3Programs.withS3fs(bucket, on: server) { folder in
                let result = try await Shell.script(
                    """
                    set -e; cd \(folder)
                    [ "$(stat -c '%a %Y %u %g' d/other)" = "600 1152349811 3456 4567" ]
                    [ "$(readlink empty/back)" = ../d/other ] && [ "$(cat empty/back)" = more ]
                    [ -d made ] && [ "$(stat -c %a d/script)" = 750 ]
                    """
                )
                #expect(result.status == 0, "\(result)")
            }
        }
    }

    @Test(arguments: S3TestServers.all)
    func `names that nothing new in a bucket can have are refused at once`(
        server: S3TestServer
    ) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            try await TestDrive.with(options: Self.options(server, bucket)) { drive in
                try await drive.run("mkdir d; echo text > file; ln -s file link")
                try await drive.python(
                    """
                    for name in "‛d%2F", "d/‛a~0123456789ABCDEF", "‛plain":
                        fails(errno.EINVAL, os.mkdir, name)
                        fails(errno.EINVAL, open, name, "w")
                        fails(errno.EINVAL, os.symlink, "file", name)
                        for old in "d", "file", "link":
                            fails(errno.EINVAL, os.rename, old, name)
                    """
                )
                #expect(try await drive.run("ls; cat file") == "d\nfile\nlink\ntext")
            }
        }
    }

    /// How long it takes until something is seen: the shortest of up to three times, as other tests
    /// may keep the processors busy.
    private static func shortest(
        _ change: (Int) async throws -> Void,
        until isSeen: @escaping (Int) async throws -> Bool
    ) async throws -> Duration {
        var shortest = Duration.seconds(3_600)
        for round in 1...3 where shortest > .seconds(2) {
            try await change(round)
            let begin = ContinuousClock.now
            try await eventually("it is seen") { try await isSeen(round) }
            shortest = min(shortest, .now - begin)
        }
        return shortest
    }

    @Test(arguments: S3TestServers.all)
    func `another device sees a change within two seconds`(server: S3TestServer) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            try await TestDrive.with(options: Self.options(server, bucket)) { first in
                try await first.run("echo one > file; mkdir folder")
                try await first.drain()
                var options = Self.options(server, bucket)
                options.arguments += ["--device-name", "second"]
                try await first.withSecondDrive(options: options) { second in
                    try await second.run("[ \"$(cat file)\" = one ]")
                    let there = try await Self.shortest { round in
                        try await first.run("echo two > file; echo \(round) > folder/new")
                        try await first.drain()
                    } until: { round in
                        try await second.run("cat file folder/new || true") == "two\n\(round)"
                    }
                    #expect(there <= .seconds(2))
                    let back = try await Self.shortest { round in
                        try await second.run("mv folder/* folder/moved\(round); rm -f file")
                        try await second.drain()
                    } until: { round in
                        try await first.run("echo *; ls folder") == "folder\nmoved\(round)"
                    }
                    #expect(back <= .seconds(2))
                }
            }
        }
    }

    @Test(arguments: S3TestServers.all)
    func `a package is one object, and comes whole`(server: S3TestServer) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            var options = Self.options(server, bucket)
            options.arguments += ["--package", "bundle"]
            try await TestDrive.with(options: options, slots: 2) { first in
                try await first.run(
                    """
                    mkdir -p N.bundle/sub; echo 1 > N.bundle/a; echo 1 > N.bundle/sub/b
                    setfattr -n user.kind -v note N.bundle/a; chmod 750 N.bundle
                    """
                )
                try await first.drain()
                let names = try await S3Programs.rclone(
                    ["lsf", "-R", "--files-only", "cloud:\(bucket)"],
                    on: server
                )
                .output.split(separator: "\n")
                #expect(names.filter { !$0.hasPrefix(".cloudfs") } == ["N.bundle"])
                let archive = try await S3Programs.rclone(
                    ["cat", "cloud:\(bucket)/N.bundle"],
                    on: server
                )
                #expect(archive.output.contains("sub/b"))
                options.arguments += ["--device-name", "second"]
                try await first.withSecondDrive(options: options) { second in
                    try await eventually("it is there", within: .seconds(20)) {
                        try await second.has(["N.bundle"])
                    }
                    #expect(try await second.fetched().bytes == 0)
                    try await second.run(
                        """
                        [ "$(cat N.bundle/a N.bundle/sub/b)" = "$(printf '1\\n1')" ]
                        [ "$(getfattr --only-values -n user.kind N.bundle/a)" = note ]
                        [ "$(stat -c %a N.bundle)" = 750 ]
                        echo 2 > N.bundle/a; rm -r N.bundle/sub; mv N.bundle M.bundle
                        """
                    )
                    try await second.drain()
                    try await eventually("it came back", within: .seconds(20)) {
                        try await first.has(["M.bundle/a"], not: ["N.bundle", "M.bundle/sub"])
                    }
                    #expect(try await first.text("M.bundle/a") == "2\n")
                    try await first.mustDo(["check"])
                }
            }
        }
    }

    @Test(arguments: S3TestServers.all)
    func `devices that write one document by turns make no conflict`(
        server: S3TestServer
    ) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            try await TestDrive.with(options: Self.options(server, bucket), slots: 2) { first in
                try await first.run("touch log")
                try await first.drain()
                var options = Self.options(server, bucket)
                options.arguments += ["--device-name", "second"]
                try await first.withSecondDrive(options: options) { second in
                    let writers = try [first, second].map { drive in
                        try drive.start(
                            """
                            for turn in 1 2 3 4 5; do
                                cloudfs coordinate --write log --timeout 2m -- \
                                    sh -c 'echo \(drive.path) >> log' || exit 1
                            done
                            """
                        )
                    }
                    for writer in writers {
                        #expect(try await writer.wait(within: .seconds(120)) == 0)
                    }
                    for drive in [first, second] {
                        try await eventually("all lines are there", within: .seconds(20)) {
                            // Of a version that is being replaced a reader gets ESTALE.
                            let text = try await drive.run("cat log || true")
                            let lines = text.split(separator: "\n")
                            return lines.count { $0 == first.path } == 5 && lines.count == 10
                        }
                        #expect(try await drive.names() == ["log"])
                    }
                }
            }
        }
    }

    @Test(arguments: S3TestServers.all)
    func `a folder of many objects moves whole, through a crash`(
        server: S3TestServer
    ) async throws {
        let count = 200
        try await Self.withDrive(on: server) { drive, bucket in
            try await drive.run(
                "mkdir -p old/sub; for i in {1..\(count)}; do echo $i > old/sub/$i; done"
            )
            try await drive.drain()
            let begin = ContinuousClock.now
            try await drive.run("mv old new; [ -e new/sub/1 ] && [ ! -e old ]")
            #expect(ContinuousClock.now - begin < .seconds(1))
            // In the middle of the copies, or before, or after: all must end alike.
            try await drive.run("timeout 0.3 cloudfs drain --wait || true")
            _ = try await drive.crash()
            for _ in 0..<5 {
                #expect(try await drive.run("ls new/sub | wc -l; ls") == "\(count)\nnew")
            }
            try await drive.drain()
            #expect(try await drive.run("cat new/sub/* | sort -n | uniq | wc -l") == "\(count)")
            let listing = try await S3Programs.rclone(
                ["lsf", "-R", "--files-only", "cloud:\(bucket)", "--exclude", "/.cloudfs/**"],
                on: server
            )
            let keys = listing.output.split(separator: "\n")
            #expect(keys.count == count)
            #expect(keys.allSatisfy { $0.hasPrefix("new/sub/") })
        }
    }

    @Test(arguments: S3TestServers.all)
    func `a large file goes up in parts and comes back whole`(
        server: S3TestServer
    ) async throws {
        try await Self.withDrive(on: server) { drive, _ in
            try await drive.run(
                """
                head -c 30000001 /dev/urandom > "$SCRATCH/large"
                cp "$SCRATCH/large" large
                """
            )
            try await drive.drain()
            try await drive.mustDo(["evict", "large"])
            try await drive.run(#"cmp large "$SCRATCH/large""#)
        }
    }

    @Test(arguments: S3TestServers.all)
    func `a pause ends an upload in parts, which goes on after it`(
        server: S3TestServer
    ) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            var options = Self.options(server, bucket)
            options.arguments += ["--upload-limit", "8MB"]
            try await TestDrive.with(options: options) { drive in
                try await drive.run(
                    """
                    head -c 30000001 /dev/urandom > "$SCRATCH/large"
                    cp "$SCRATCH/large" large
                    """
                )
                let isOnItsWay = /uploading +[1-9]/
                try await eventually("some of it is sent", within: .seconds(20)) {
                    try await drive.cloudfs(["queue"]).output.contains(isOnItsWay)
                }
                try await drive.mustDo(["pause"])
                try await eventually("nothing is sent", within: .seconds(5)) {
                    try await !drive.cloudfs(["queue"]).output.contains("uploading")
                }
                try await drive.mustDo(["resume"])
                try await drive.drain()
                try await drive.mustDo(["evict", "large"])
                try await drive.run(#"cmp large "$SCRATCH/large""#)
            }
            let left = try await S3Programs.rclone(
                ["backend", "list-multipart-uploads", "cloud:\(bucket)"],
                on: server
            )
            #expect(!left.output.contains("large"), "\(left)")
        }
    }
}

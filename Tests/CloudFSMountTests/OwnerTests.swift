import CloudFSTestSupport
import Testing

/// Whom items belong to, here and in the cloud.
@Suite(
    .onMounts,
    .printingLogs,
    .notingIssues,
    .enabled(if: TestMount.isRoot, "owners need root")
)
struct OwnerTests {
    @Test func `with remote-ids owners are the cloud's, and change with them`() async throws {
        try await TestDrive.with(["--remote-ids"]) { drive in
            try await drive.run(
                """
                mkdir "$CLOUD/d"; echo text > "$CLOUD/d/file"; ln -s file "$CLOUD/d/link"
                chown -h 1234:2345 "$CLOUD/d" "$CLOUD/d/file" "$CLOUD/d/link"
                owners() { stat -c %u:%g d d/file d/link | xargs; }
                until [ "$(owners)" = "1234:2345 1234:2345 1234:2345" ]; do sleep 0.05; done
                chown 3456:4567 "$CLOUD/d" "$CLOUD/d/file"
                until [ "$(owners)" = "3456:4567 3456:4567 1234:2345" ]; do sleep 0.05; done
                echo more > d/made; chown 5678 d/made; chgrp 6789 d/file
                """
            )
            try await drive.drain()
            let owners = try await drive.run("cd \"$CLOUD/d\"; stat -c %u:%g made file | xargs")
            #expect(owners == "5678:0 3456:6789")
        }
    }

    @Test func `a tag set here undoes nobody's change of an owner`() async throws {
        try await TestDrive.with(["--remote-ids"]) { drive in
            try await drive.run("echo text > tagged; echo text > given")
            try await drive.drain()
            try await drive.mustDo(["pause"])
            try await drive.run(
                """
                setfattr -n user.xdg.tags -v red tagged; chown 1111:2222 given
                chown 1234:2345 "$CLOUD/tagged"; chown 1234:2345 "$CLOUD/given"
                """
            )
            try await drive.mustDo(["resume"])
            try await drive.drain()
            try await eventually("both are agreed upon", within: .seconds(20)) {
                let here = try await drive.run("stat -c %u:%g tagged given | xargs")
                return here == "1234:2345 1111:2222"
            }
            let there = try await drive.run("cd \"$CLOUD\"; stat -c %u:%g tagged given | xargs")
            #expect(there == "1234:2345 1111:2222")
            #expect(
                try await drive.run("getfattr -n user.xdg.tags \"$CLOUD/tagged\"").contains("red")
            )
        }
    }

    @Test func `what is not given to anybody here stays whose it is in the cloud`() async throws {
        try await TestDrive.with { drive in
            try await drive.run("echo text > \"$CLOUD/file\"; chown 1234:2345 \"$CLOUD/file\"")
            try await eventually("it is listed") { try await drive.exists("file") }
            let shown = try await drive.run("stat -c %u:%g file")
            try await drive.mount.stop()
            // Known from before, when nobody asked for owners.
            let drive = try await drive.again(["--remote-ids"])
            try await drive.run("echo more >> file; chmod 640 file; setfattr -n user.a -v b file")
            try await drive.drain()
            let there = try await drive.run("stat -c %u:%g:%a \"$CLOUD/file\"")
            #expect(there == "1234:2345:640")
            try await drive.run(
                """
                chmod 644 "$CLOUD/file"
                until [ "$(stat -c %u:%g:%a file)" = 1234:2345:644 ]; do sleep 0.05; done
                """
            )
            try await drive.mount.stop()
            let again = try await drive.again([])
            #expect(try await again.run("stat -c %u:%g file") == shown)
        }
    }

    @Test func `without remote-ids owners stay where they are set`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                echo text > "$CLOUD/file"; chown 1234:2345 "$CLOUD/file"
                until [ -e file ]; do sleep 0.05; done
                [ "$(stat -c %u:%g file)" = "$(id -u):$(id -g)" ]
                chown 3456:4567 file; chmod 600 file; echo more >> file
                """
            )
            try await drive.drain()
            try await drive.run(
                """
                [ "$(stat -c %u:%g:%a "$CLOUD/file")" = 1234:2345:600 ]
                [ "$(stat -c %u:%g:%a file)" = 3456:4567:600 ]
                """
            )
            let again = try await drive.restart()
            #expect(try await again.run("stat -c %u:%g file") == "3456:4567")
        }
    }
}

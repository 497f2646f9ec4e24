import CloudFSTestSupport
import Testing

/// Packages that programs claim parts of, or put too much into.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct PackageClaimTests {
    /// Whoever is granted the package in its place would delete all of it.
    @Test func `a claim inside a package is for what was asked, and counts for all of it`()
        async throws
    {
        try await TestDrive.with(["--package", "bundle"]) { drive in
            try await drive.run("mkdir Note.bundle; echo one > Note.bundle/one")
            let granted = try await drive.python(
                """
                import json, socket, subprocess
                drives = json.loads(subprocess.check_output(["cloudfs", "mounts", "--json"]))
                place = [d["socket"] for d in drives if d["mountpoint"] == os.environ["DRIVE"]][0]
                for names in [["one", "new"], ["two"]]:
                    wishes = [{"path": "Note.bundle/" + n, "access": "write"} for n in names]
                    order = json.dumps({"intents": wishes})
                    with socket.socket(socket.AF_UNIX) as drive:
                        drive.settimeout(10)
                        drive.connect(place)
                        drive.sendall((
                            "POST /v1/claims HTTP/1.1\\r\\nHost: drive\\r\\n"
                            "Content-Type: application/json\\r\\n"
                            f"Content-Length: {len(order)}\\r\\n\\r\\n{order}"
                        ).encode())
                        told = ""
                        while '"granted"}' not in told:
                            told += drive.recv(65536).decode()
                    event = [l for l in told.splitlines() if "granted" in l and "{" in l][0]
                    print(*json.loads(event[event.index("{"):])["paths"])
                """
            )
            #expect(granted == "Note.bundle/one Note.bundle/new\nNote.bundle/two")
            let holder = try drive.start(
                """
                cloudfs coordinate --write Note.bundle/one -- \
                    sh -c 'touch begun; while [ ! -e stop ]; do sleep 0.05; done'
                """
            )
            try await eventually("it is held") { try await drive.exists("begun") }
            let other = ["coordinate", "--timeout", "0.2s", "--read", "Note.bundle", "--", "true"]
            #expect(try await drive.cloudfs(other).status != 0)
            try await drive.write("stop", "")
            #expect(try await holder.wait(within: .seconds(20)) == 0)
            try await drive.mustDo(other)
        }
    }

    /// In the file that goes to the cloud they would be a header that nobody can read.
    @Test func `a package with too long attributes stays here until it has fewer`() async throws {
        try await TestDrive.with(["--package", "bundle", "--quiet-time", "100ms"]) { drive in
            try await drive.python(
                """
                os.mkdir("Note.bundle")
                open("Note.bundle/one", "w").write("one")
                for n in range(12):
                    os.setxattr("Note.bundle/one", f"user.{n}", bytes(65536))
                """
            )
            try await eventually("it is refused") {
                try await drive.cloudfs(["queue"]).output.contains("too many or too long")
            }
            #expect(try await drive.cloudfs(["evict", "Note.bundle"]).status != 0)
            #expect(try await drive.text("Note.bundle/one") == "one")
            try await drive.python(
                """
                for n in range(6):
                    os.removexattr("Note.bundle/one", f"user.{n}")
                """
            )
            try await drive.drain()
            try await drive.mustDo(["evict", "Note.bundle"])
            #expect(try await drive.text("Note.bundle/one") == "one")
        }
    }
}

import CloudFSTestSupport
import Foundation
import Testing

/// `cloudfs check`: damage that a drive in use does not mend by itself.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct CheckDamageTests {
    private func isSound(_ drive: TestDrive) async throws {
        let result = try await drive.cloudfs(["check"])
        #expect(result.status == 0 && result.output.contains("nothing is wrong"), "\(result)")
    }

    /// Runs SQL in the catalog of a drive that is not mounted.
    private func change(_ drive: TestDrive, _ sql: String) async throws {
        let catalog = "\(drive.mount.state)/catalog.sqlite"
        let result = try await Shell.run(["sqlite3", catalog, sql])
        try #require(result.status == 0, "\(result)")
    }

    @Test(.asRoot) func `what hides a part of the drive is found`() async throws {
        let filling = Filling { cloud in
            try cloud.write("folder/file", "text")
            try cloud.write("plain", "plain")
        }
        try await TestDrive.with(prepare: filling) { drive in
            try await drive.run("find . > /dev/null; mount -t tmpfs other folder")
            let found = try await drive.cloudfs(["check", "--repair"])
            try await drive.run("umount folder")
            #expect(found.status == 1, "\(found)")
            #expect(found.output.contains("tree-shown folder: "), "\(found)")
            #expect(found.output.contains("tree-shown folder/file: "), "\(found)")
            #expect(!found.output.contains("plain"), "\(found)")
            try await isSound(drive)
        }
    }

    /// It does not have what its table has: queries that go by it would miss items.
    @Test func `an index that differs from its table is found, if not looked at quickly`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.write("plain", "plain") }) { drive in
            try await drive.run("ls")
            try await drive.drain()
            try await drive.mount.stop()
            try await change(
                drive,
                """
                PRAGMA writable_schema = ON;
                UPDATE sqlite_schema SET sql = replace(sql, 'policy = 3', 'policy = 0')
                    WHERE name = 'item_excluded'
                """
            )
            let broken = try await drive.again()
            let found = try await broken.cloudfs(["check"])
            #expect(found.status == 1, "\(found)")
            #expect(found.output.contains("catalog-intact: row 1 missing from index"), "\(found)")
            #expect(try await broken.cloudfs(["check", "--quick"]).status == 0)
        }
    }

    @Test func `rows of local ranges that are lost lose nothing else`() async throws {
        let text = HydrationTests.bytes(3 << 20)
        let filling = Filling { try $0.write("film", text) }
        try await TestDrive.with(["--hydration", "partial"], prepare: filling) { drive in
            try await drive.run("head -c 4096 film > /dev/null")
            try await drive.drain()
            try await drive.mount.stop()
            try await change(drive, "DELETE FROM range")
            let broken = try await drive.again()
            try await isSound(broken)
            #expect(try await broken.bytes("film") == text)
            try await isSound(broken)
        }
    }

    /// Bytes that a program may be writing are compared with nothing.
    @Test func `what is in use is left out, and counted`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("plain", "plain") }) { drive in
            try await drive.run("cat plain")
            // What has just come is in use until it is stored as local.
            try await eventually("nothing is in use", within: .seconds(20)) {
                try await drive.run("cloudfs check").contains(/looked at \d+: nothing is wrong/)
            }
            let held = try await drive.run("cloudfs check < plain")
            #expect(held.contains(/looked at \d+, not at 1 in use: nothing is wrong/), "\(held)")
        }
    }

    @Test func `what stays otherwise than in the cloud is found`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("plain", "plain") }) { drive in
            try await drive.run("cat plain")
            try await drive.drain()
            try await drive.mount.stop()
            // From now on nobody can note what the cloud has.
            try await change(
                drive,
                """
                CREATE TRIGGER stuck BEFORE UPDATE ON base
                    WHEN CAST(old.name AS TEXT) = 'plain' BEGIN SELECT RAISE(IGNORE); END;
                CREATE TRIGGER lost BEFORE INSERT ON base
                    WHEN CAST(new.name AS TEXT) = 'plain' BEGIN SELECT RAISE(IGNORE); END
                """
            )
            let broken = try await drive.again()
            try await isSound(broken)
            try broken.cloud.write("plain", "longer")
            let found = try await broken.cloudfs(["check"])
            #expect(found.status == 1, "\(found)")
            #expect(found.output.contains("cloud-agrees /: \"plain\" in it"), "\(found)")
            try await broken.mount.stop()
            try await change(broken, "DROP TRIGGER stuck; DROP TRIGGER lost")
            let mended = try await broken.again()
            // Before, a read asks for bytes of the version that is gone (ESTALE), whatever size the
            // drive had noted already; but it never gives a part of one.
            try await eventually("it is as in the cloud") {
                let text = try await mended.run("cat plain || true")
                #expect(["", "plain", "longer"].contains(text))
                return text == "longer"
            }
            #expect(try await mended.text("plain") == "longer")
            #expect(try await mended.status("plain").size == 6)
            try await isSound(mended)
        }
    }

    @Test func `bytes of an item that nothing leads to go to where a person finds them`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.write("plain", "plain") }) { drive in
            try await drive.run("cat plain")
            try await drive.mount.stop()
            try await change(
                drive,
                """
                CREATE TRIGGER lost AFTER INSERT ON name WHEN CAST(new.name AS TEXT) = 'victim'
                    BEGIN DELETE FROM name WHERE id = new.id; END
                """
            )
            let broken = try await drive.again()
            try await isSound(broken)
            // Else what is to be sent would be found to be gone.
            try await broken.mustDo(["pause"])
            try await broken.run("echo victim > victim; [ \"$(ls)\" = plain ]")
            let found = try await broken.cloudfs(["check"])
            #expect(found.status == 1 && found.output.contains("item-known: "), "\(found)")
            let repaired = try await broken.cloudfs(["check", "--repair"])
            #expect(repaired.status == 0, "\(repaired)")
            #expect(repaired.output.contains("item-known: "), "\(repaired)")
            try await isSound(broken)
            let kept = try await Shell.script("cat '\(broken.mount.state)'/lost+found/*")
            #expect(kept.output == "victim\n", "\(kept)")
            try await broken.mustDo(["resume"])
        }
    }

    /// The cloud's tag is the digest of an object that came in one piece.
    @Test func `bytes of an object that rotted are fetched again`() async throws {
        let bytes = HydrationTests.bytes(200_000)
        let server = try await FakeS3Server.start()
        server.put("prefix/file", bytes)
        server.put("prefix/other", "other")
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run("cat file other > /dev/null")
            try await drive.drain()
            try await drive.mount.stop()
            // One byte in place, with size and time as before.
            let rot = try await Shell.script(
                """
                path=$(find '\(drive.mount.state)/content' -type f -size +100k)
                touch -r "$path" "$path.time"
                [ "$(od -An -tu1 -j 100000 -N 1 "$path")" -ne 0 ] && byte='\\0' || byte='\\1'
                printf "$byte" | dd of="$path" bs=1 seek=100000 conv=notrunc status=none
                touch -r "$path.time" "$path"; rm "$path.time"
                """
            )
            try #require(rot.status == 0, "\(rot)")
            let rotten = try await drive.again()
            #expect(try await rotten.bytes("file") != bytes)
            let found = try await rotten.cloudfs(["check"])
            #expect(found.status == 1, "\(found)")
            #expect(found.output.contains("content-sound file"), "\(found)")
            #expect(!found.output.contains("other"), "\(found)")
            let repaired = try await rotten.cloudfs(["check", "--repair"])
            #expect(repaired.status == 0, "\(repaired)")
            #expect(repaired.output.contains("content-sound file"), "\(repaired)")
            try await rotten.drain()
            try await isSound(rotten)
            #expect(try await rotten.bytes("file") == bytes)
        }
        #expect(server.object("prefix/file")?.bytes == bytes)
    }
}

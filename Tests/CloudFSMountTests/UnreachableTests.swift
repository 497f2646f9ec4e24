import CloudFSTestSupport
import Glibc
import Testing

/// Unreachable is not absent: nothing vanishes because the cloud cannot be seen.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct UnreachableTests {
    static func fill(_ cloud: TestFolder) throws {
        try cloud.write("here", "resident")
        try cloud.write("folder/absent", HydrationTests.bytes(100_000))
        for number in 0..<20 { try cloud.write("folder/\(number)", "x") }
    }

    /// What must hold as long as the cloud is out of reach, whatever was done to it.
    static func expectNothingVanished(_ drive: TestDrive) async throws {
        #expect(try await drive.names() == ["folder", "here"])
        #expect(try await drive.names("folder").count == 21)
        #expect(try await drive.text("here") == "resident")
        #expect(try await drive.status("folder/absent").size == 100_000)
        try await drive.python(
            """
            begin = time.monotonic()
            try:
                open("folder/absent", "rb").read()
            except OSError as error:
                assert error.errno in (errno.ENETUNREACH, errno.ETIMEDOUT), error
            else:
                raise AssertionError("bytes from nowhere")
            assert time.monotonic() - begin < 8
            """
        )
    }

    static func untilOffline(_ drive: TestDrive) async throws {
        try await eventually("the drive knows", within: .seconds(10)) {
            let status = try JSONNode(try await drive.mustDo(["status", "--json"]))
            return status.first("connection")?["state"]?.string == "offline"
        }
    }

    enum Loss: CaseIterable, Sendable {
        /// The folder is renamed away.
        case missing
        /// Another, empty folder is in its place.
        case emptied
        /// A folder with other things is in its place.
        case replaced
    }

    @Test(arguments: Loss.allCases)
    func `a cloud folder that is lost hides and deletes nothing`(loss: Loss) async throws {
        try await TestDrive.with(["--read-timeout", "3s"], prepare: Filling(Self.fill)) { drive in
            try await drive.hydrate("here")
            try await drive.run("find . > /dev/null")
            try await drive.run("mv \"$CLOUD\" \"$CLOUD.away\"")
            if loss != .missing { try drive.cloud.makeFolder("") }
            if loss == .replaced { try drive.cloud.write("stranger", "x") }
            try await Self.untilOffline(drive)
            try await Self.expectNothingVanished(drive)
            try await drive.run("echo offline > new; echo more >> here; rm folder/3; mkdir made")
            if loss != .missing {
                #expect(try drive.cloud.paths() == (loss == .replaced ? ["stranger"] : []))
                try await drive.run("rm -r \"$CLOUD\"")
            }
            try await drive.run("mv \"$CLOUD.away\" \"$CLOUD\"")
            try await drive.untilCloudHas("new", "offline\n", within: .seconds(20))
            try await drive.untilCloudHas("here", "residentmore\n", within: .seconds(20))
            try await eventually("all of it arrives", within: .seconds(20)) {
                drive.cloud.exists("made") && !drive.cloud.exists("folder/3")
            }
            #expect(try await drive.bytes("folder/absent") == HydrationTests.bytes(100_000))
            #expect(try await drive.names("folder").count == 20)
        }
    }

    @Test(.asRoot)
    func `a cloud whose file system is unmounted hides and deletes nothing`() async throws {
        try await Self.withDisk(Self.unmounting)
    }

    @Test(.asRoot)
    func `what the disk of a cloud cannot read hides nothing else`() async throws {
        try await Self.withDisk { drive in
            try drive.cloud.write("closed/known", "x")
            try drive.cloud.write("lone/only", "x")
            try await eventually("all is known", within: .seconds(5)) {
                try await drive.has(["closed/known", "folder/absent", "lone/only"])
            }
            let inode = try await drive.status("folder/19").inode
            try await drive.mount.stop()
            try await drive.run("cd \"$CLOUD/folder\" && mv 19 moved")
            let damaged = ["here", "folder/absent", "folder/moved", "closed", "lone/only"]
            let places = try await Self.checksums(of: damaged, drive)
            try await Self.flip(places, drive)
            let again = try await drive.again()
            try await Self.damaged(again)
            try await again.mount.stop()
            try await Self.flip(places, again)
            let mended = try await again.again()
            try await eventually("what was moved is known by its new name") {
                try await mended.has(["folder/moved"], not: ["folder/19"])
            }
            #expect(try await mended.status("folder/moved").inode == inode)
            try await mended.untilCloudHas("here", "changed", within: .seconds(20))
        }
    }

    /// A drive whose cloud is a file system of its own, on a loop device.
    private static func withDisk(_ body: (TestDrive) async throws -> Void) async throws {
        try await TestDrive.with(["--read-timeout", "3s"], ending: .killed) { outer in
            // Another cloud, on a file system of its own.
            let folder = outer.folder
            try await outer.mount.stop()
            let setUp = """
                cd "\(folder)"
                truncate -s 64M disk.img
                mkfs.ext4 -q -e continue disk.img
                mount -o loop disk.img "$CLOUD"
                rmdir "$CLOUD/lost+found"
                """
            let result = try await Shell.script(setUp, environment: outer.environment)
            try #require(result.status == 0, "\(result)")
            do {
                try Self.fill(outer.cloud)
                // The state of the first container is not this one's.
                try await outer.run("cd /; rm -r \"\(outer.mount.state)\"")
                try await body(try await outer.again())
            } catch {
                _ = try await Shell.run(["umount", "-l", outer.cloud.path])
                throw error
            }
            _ = try await Shell.run(["umount", "-l", outer.cloud.path])
        }
    }

    /// Where the checksums of inodes are on the disk, in bytes.
    private static func checksums(of paths: [String], _ drive: TestDrive) async throws -> String {
        let script = """
            set -e
            cd "$CLOUD"
            sync -f .
            size=$(dumpe2fs -h ../disk.img 2> /dev/null | sed -n 's/^Block size: *//p')
            for inode in $(stat -c %i \(paths.joined(separator: " "))); do
                # "located at block 35, offset 0x0b00"
                set -- $(debugfs -R "imap <$inode>" ../disk.img 2> /dev/null |
                    sed -n 's/.*block \\([0-9]*\\), offset \\(0x[0-9a-f]*\\).*/\\1 \\2/p')
                echo $(($1 * size + $2 + 0x7c))
            done
            """
        let result = try await Shell.script(script, environment: drive.environment)
        try #require(result.status == 0, "\(result)")
        return result.output
    }

    /// Breaks checksums of inodes, so that the disk cannot read them any more; or mends them.
    private static func flip(_ places: String, _ drive: TestDrive) async throws {
        let script = """
            set -e
            umount "$CLOUD"
            # A device that is not let go of yet would be used again, with what it keeps in memory.
            is_kept() { losetup -j "$CLOUD/../disk.img" | grep -q .; }
            for ((try = 0; try < 400; try++)); do is_kept || break; sleep 0.05; done
            ! is_kept || { echo "the loop device stays" >&2; exit 1; }
            python3 - \(places.split(separator: "\n").joined(separator: " ")) <<'END'
            import os, sys
            with open(os.environ["CLOUD"] + "/../disk.img", "r+b") as disk:
                for place in map(int, sys.argv[1:]):
                    disk.seek(place)
                    byte = disk.read(1)[0]
                    disk.seek(place)
                    disk.write(bytes([byte ^ 0x55]))
            END
            mount -o loop "$CLOUD/../disk.img" "$CLOUD"
            """
        let result = try await Shell.script(script, environment: drive.environment)
        try #require(result.status == 0, "\(result)")
    }

    private static func damaged(_ drive: TestDrive) async throws {
        try drive.cloud.write("new", "1")
        try drive.cloud.write("folder/new", "2")
        try drive.cloud.write("lone/new", "3")
        try await eventually("what is beside it appears", within: .seconds(10)) {
            try await drive.has(["new", "folder/new", "lone/new", "lone/only"])
        }
        #expect(try await drive.names() == ["closed", "folder", "here", "lone", "new"])
        #expect(try await drive.names("closed") == ["known"])
        #expect(try await drive.names("folder").count == 22)
        // What it was called before is all that is known of it.
        #expect(try await drive.has(["folder/19"], not: ["folder/moved"]))
        for file in ["here", "folder/absent"] {
            let said = try await drive.run("LC_ALL=C cat \(file) 2>&1 || true")
            #expect(said.contains("Input/output error"), "\(said)")
        }
        try await drive.write("here", "changed")
        try await eventually("it cannot be sent", within: .seconds(20)) {
            try await drive.run("getfattr -n user.cloudfs.error here 2>&1 || true")
                .contains("cannot be read")
        }
        #expect(try await drive.mustDo(["status", "--json"]).contains(/"state"\s*:\s*"online"/))
        try await drive.write("folder/mine", "sent")
        try await drive.untilCloudHas("folder/mine", "sent")
    }

    private static func unmounting(_ drive: TestDrive) async throws {
        try await drive.hydrate("here")
        try await drive.run("find . > /dev/null")
        try await drive.run("umount -l \"$CLOUD\"")
        try await Self.untilOffline(drive)
        try await Self.expectNothingVanished(drive)
        try await drive.write("new", "offline")
        #expect(try drive.cloud.paths().isEmpty)
        try await drive.run("mount -o loop \"$CLOUD/../disk.img\" \"$CLOUD\"")
        try await drive.untilCloudHas("new", "offline", within: .seconds(20))
        #expect(try await drive.bytes("folder/absent") == HydrationTests.bytes(100_000))
    }

    @Test(.asRoot)
    func `a file system that is mounted within a cloud hides what is below, and no more`()
        async throws
    {
        try await TestDrive.with(
            ["--read-timeout", "3s"],
            prepare: Filling { cloud in
                try cloud.write("over/known", "before")
                try cloud.write("over/absent", "not read yet")
                try cloud.write("beside/file", "1")
            }
        ) { drive in
            #expect(try await drive.text("over/known") == "before")
            let over = drive.cloud.path + "/over"
            _ = try await Shell.run(["mount", "-t", "tmpfs", "none", over])
            do {
                try await Self.mountedOver(drive)
                _ = try await drive.restart()
            } catch {
                _ = try await Shell.run(["umount", "-l", over])
                throw error
            }
            _ = try await Shell.run(["umount", "-l", over])
            try await eventually("what is below is heard of", within: .seconds(5)) {
                try drive.cloud.write("over/elsewhere", "4")
                return try await drive.has(["over/elsewhere"])
            }
            // Somebody had to act, so it would be tried by itself after five minutes only.
            try await drive.mustDo(["drain", "--wait"])
            try await drive.untilCloudHas("over/mine", "kept")
            // A read that failed may fail once more for a second.
            try await eventually("it is read", within: .seconds(5)) {
                try await drive.run("cat over/absent 2> /dev/null || true") == "not read yet"
            }
        }
    }

    private static func mountedOver(_ drive: TestDrive) async throws {
        try drive.cloud.write("over/of another", "hidden")
        try drive.cloud.write("beside/new", "2")
        try drive.cloud.write("top", "3")
        try await eventually("what is beside it appears", within: .seconds(5)) {
            try await drive.has(["beside/new", "top"])
        }
        #expect(try await drive.names() == ["beside", "over", "top"])
        #expect(try await drive.names("over") == ["absent", "known"])
        #expect(try await drive.text("over/known") == "before")
        #expect(
            try await drive.run("LC_ALL=C cat over/absent 2>&1 || true").contains("not supported")
        )
        try await drive.write("beside/mine", "sent")
        try await drive.untilCloudHas("beside/mine", "sent")
        try await drive.write("over/mine", "kept")
        #expect(try await drive.mustDo(["status", "--json"]).contains(/"state"\s*:\s*"online"/))
    }

    @Test func `offline everything of an ordinary file system works`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.hydrate("here")
            try await drive.run("find . > /dev/null; mv \"$CLOUD\" \"$CLOUD.away\"")
            try await Self.untilOffline(drive)
            try await drive.run(
                """
                mkdir -p a/b; echo one > a/b/one; cp a/b/one two; mv two a/three
                ln -s three a/link; chmod 600 a/three; touch -d '2001-01-01' a/three
                setfattr -n user.x -v y a/three; truncate -s 5000 a/b/one
                mv folder/absent a/absent; rm folder/0; rm -r folder; cat here a/three > a/sum
                printf part | dd of=a/absent bs=1 seek=5000 conv=notrunc status=none
                git init -q repo; df . > /dev/null; sqlite3 base 'create table t (n)'
                [ "$(cat a/sum)" = "residentone" ]
                """,
                within: .seconds(20)
            )
            try await drive.run("mv \"$CLOUD.away\" \"$CLOUD\"")
            try await eventually("all of it arrives", within: .seconds(30)) {
                drive.cloud.text("a/sum") == "residentone\n" && !drive.cloud.exists("folder")
                    && drive.cloud.exists("repo/.git/HEAD") && drive.cloud.exists("base")
            }
            var expected = HydrationTests.bytes(100_000)
            expected.replaceSubrange(5_000..<5_004, with: Array("part".utf8))
            try await eventually("the partial write too", within: .seconds(20)) {
                drive.cloud.bytes("a/absent") == expected
            }
        }
    }

    @Test func `deleting most of a cloud is believed only when it is confirmed`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<150 { try cloud.write("folder/\(number)", "x") }
                try cloud.write("kept", "x")
            }
        ) { drive in
            try await drive.run("find . > /dev/null; rm -r \"$CLOUD/folder\"")
            // A real deletion is confirmed by a second look, and then it holds.
            try await eventually("it is believed", within: .seconds(15)) {
                try await drive.has(["kept"], not: ["folder"])
            }
        }
    }
}

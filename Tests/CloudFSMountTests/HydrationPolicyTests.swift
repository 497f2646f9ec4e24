import CloudFSTestSupport
import Glibc
import Testing

/// Programs that read whole drives although nobody wants to see the files.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct HydrationPolicyTests {
    private static let size = 3 << 20

    private static var content: Filling {
        Filling { cloud in
            try cloud.write("film", HydrationTests.bytes(size))
            try cloud.write("small", "text")
        }
    }

    private static let programs = """
        cp /bin/cat "$SCRATCH/tumblerd"
        cp /bin/cat "$SCRATCH/my-scan"
        printf '#!/bin/bash\\nread -r < "$1"\\n' > "$SCRATCH/restic"
        chmod +x "$SCRATCH/restic"

        """

    @Test func `a thumbnailer gets metadata and what is here, and causes no download`()
        async throws
    {
        try await TestDrive.with(["--hydration", "partial"], prepare: Self.content) { drive in
            try await drive.run(
                Self.programs + """
                    ! "$SCRATCH/tumblerd" film 2> "$SCRATCH/said"
                    grep -q 'Object is remote' "$SCRATCH/said"
                    ! "$SCRATCH/tumblerd" small
                    [ "$(stat -c %s film)" = \(Self.size) ]
                    """
            )
            #expect(try await drive.fetched().bytes == 0)
            #expect(try await drive.state("film") == "cloud")
            try await drive.run("cat small; head -c 4096 film > /dev/null")
            let fetched = try await drive.fetched().bytes
            try await drive.run(
                """
                [ "$("$SCRATCH/tumblerd" small)" = text ]
                ! "$SCRATCH/tumblerd" film > "$SCRATCH/part" 2> /dev/null
                [ -s "$SCRATCH/part" ]
                cmp -n "$(stat -c %s "$SCRATCH/part")" "$SCRATCH/part" "$CLOUD/film"
                """
            )
            #expect(try await drive.fetched().bytes == fetched)
            let said = try JSONNode(try await drive.mustDo(["activity", "--json"]))
            let programs = said["programs"]?.elements ?? []
            let scan = programs.first { $0["program"]?.string == "tumblerd" }
            #expect(scan?["purpose"]?.string == "thumbnailer")
            #expect(scan?["bytes"]?.integer == 0 && scan?["files"]?.integer == 0)
            #expect((scan?["refusedReads"]?.integer ?? 0) >= 3)
            let cat = programs.first { $0["program"]?.string == "cat" }
            #expect(cat?["files"]?.integer == 1 && cat?["bytes"]?.integer == 4)
            #expect(try await drive.mustDo(["activity"]).contains("thumbnailer"))
            try await drive.run("cat film | cmp - \"$CLOUD/film\"")
            try await drive.run("\"$SCRATCH/tumblerd\" film | cmp - \"$CLOUD/film\"")
        }
    }

    @Test func `a script is refused by its name, and so is a mapping`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            try await drive.run(
                Self.programs + """
                    cp /usr/bin/python3 "$SCRATCH/borg" 2> /dev/null
                    "$SCRATCH/restic" small 2> "$SCRATCH/said" && exit 1
                    grep -q 'Object is remote' "$SCRATCH/said"
                    "$SCRATCH/borg" -c '
                    import mmap, os
                    file = os.open("film", os.O_RDONLY)
                    view = mmap.mmap(file, 4096, prot=mmap.PROT_READ)
                    print("mapped", flush=True)
                    view[0]' > "$SCRATCH/mapped" 2> /dev/null && exit 2
                    [ $? = 135 ]
                    [ "$(cat "$SCRATCH/mapped")" = mapped ]
                    """
            )
            #expect(try await drive.state("film") == "cloud")
        }
    }

    @Test func `the configuration names others, lets some, and says with which error`()
        async throws
    {
        let arguments = [
            "--hydration-deny", "my-*", "--hydration-allow", "tumblerd",
            "--hydration-error", "EACCES", "--hydration", "full",
        ]
        try await TestDrive.with(arguments, prepare: Self.content) { drive in
            try await drive.run(
                Self.programs + """
                    ! "$SCRATCH/my-scan" film 2> "$SCRATCH/said"
                    grep -q 'Permission denied' "$SCRATCH/said"
                    """
            )
            #expect(try await drive.fetched().bytes == 0)
            try await drive.run("\"$SCRATCH/tumblerd\" film | cmp - \"$CLOUD/film\"")
        }
    }

    @Test func `who reads the beginning of a file fetches that`() async throws {
        let prepare = Filling { cloud in
            try cloud.write("film", HydrationTests.bytes(Self.size))
            try cloud.writeSparse("large", size: 64 << 20)
        }
        try await TestDrive.with(prepare: prepare) { drive in
            try await drive.python(
                """
                file = os.open("film", os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
                assert len(os.pread(file, 4096, 0)) == 4096
                """
            )
            #expect(try await drive.fetched().bytes <= 64 << 10)
            let before = try await drive.fetched().bytes
            #expect(try await drive.state("film") == "partial")
            try await drive.run("head -c 4096 large > /dev/null")
            #expect(try await drive.fetched().bytes - before <= 256 << 10)
            // It reads the first and last 7 MiB of what it cannot tell sooner; no more comes.
            try await drive.run("file large")
            #expect(try await drive.fetched().bytes - before <= 16 << 20)
            #expect(try await drive.state("large") == "partial")
        }
    }
}

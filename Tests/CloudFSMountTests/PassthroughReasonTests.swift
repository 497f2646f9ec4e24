import CloudFSTestSupport
import Testing

/// What is told where the kernel may not reach content by itself.
@Suite(.onMounts, .asRoot, .printingLogs, .notingIssues)
struct PassthroughReasonTests {
    enum Disk: String, CaseIterable, Sendable {
        case stacked
        case memory

        /// Mounts it at the state directory `$STATE`, with what else it needs below `$ROOM`.
        var script: String {
            let memory = "mount -t tmpfs -o mode=700 tmpfs"
            return switch self {
            case .memory: "\(memory) \"$STATE\""
            case .stacked:
                """
                mkdir "$ROOM"
                \(memory) "$ROOM"
                mkdir -m 700 "$ROOM/lower" "$ROOM/upper" "$ROOM/work"
                mount -t overlay overlay "$STATE" \\
                    -o "lowerdir=$ROOM/lower,upperdir=$ROOM/upper,workdir=$ROOM/work"
                """
            }
        }

        var reason: String {
            switch self {
            case .memory: "files in memory keep no times of mapped writes"
            case .stacked: "the state directory is on a stacked file system"
            }
        }
    }

    /// In both forms in which it is told: the document's mode, and the line of the table.
    private static func expect(_ reason: String, of drive: TestDrive) async throws {
        let list = try await drive.cloudfs(["mounts", "--json"]).output
        #expect(list.contains("\"splice\"") && list.contains("\"\(reason)\""), "\(list)")
        // Of other tests' drives it knows nothing, and says so with its status.
        let table = try await drive.cloudfs(["mounts"]).output
        let line = table.split(separator: "\n").first { $0.contains(drive.path) }
        #expect(try #require(line).contains("splice: \(reason)"), "\(table)")
    }

    private static func shell(_ script: String, _ drive: TestDrive) async throws {
        let result = try await Shell.script(
            script,
            environment: ["STATE": drive.mount.state, "ROOM": "\(drive.folder)/room"]
        )
        try #require(result.status == 0, "\(result)")
    }

    @Test(arguments: Disk.allCases)
    func `a disk that the kernel cannot pass through is named, and its files are read`(
        disk: Disk
    ) async throws {
        try await TestDrive.with(
            ending: .killed,
            prepare: Filling { try $0.write("file", HydrationTests.bytes(200_000)) }
        ) { drive in
            try await drive.mount.stop()
            try await Self.shell(disk.script, drive)
            do {
                let again = try await drive.again()
                try await Self.expect(disk.reason, of: again)
                try await again.run(
                    """
                    cmp file "$CLOUD/file"; cmp file "$CLOUD/file"
                    echo more >> file; [ "$(tail -c 5 file)" = more ]
                    """
                )
                try await again.drain()
                try await again.run("cmp file \"$CLOUD/file\"")
                try await again.mount.stop()
            } catch {
                try await drive.mount.kill9()
                try await Self.shell("umount -l \"$STATE\" \"$ROOM\" || true", drive)
                throw error
            }
            try await Self.shell("umount \"$STATE\"; umount \"$ROOM\" || true", drive)
        }
    }

    /// Reads from the cloud, from the kernel's pages and from the disk, and writes.
    private static let script = """
        umask 022
        "$MOUNT" --state-dir state --quiet-time 50ms "local:$PWD/cloud" drive
        "${MOUNT%-mount}" mounts --json | grep -F '"it needs CAP_SYS_ADMIN"'
        "${MOUNT%-mount}" mounts | grep -F "$PWD/drive" | grep -F 'splice: it needs CAP_SYS_ADMIN'
        cmp drive/file cloud/file
        cmp drive/file cloud/file
        "${MOUNT%-mount}" drain --wait drive
        dd if=drive/file of=/dev/null iflag=nocache count=0 status=none
        cmp drive/file cloud/file
        echo more >> drive/file
        [ "$(tail -c 5 drive/file)" = more ]
        [ "$(stat -c %s drive/file)" = 200005 ]
        "${MOUNT%-mount}" drain --wait drive
        cmp drive/file cloud/file
        fusermount3 -u drive
        """

    @Test(.enabled(if: MountingTests.nobodyCanRun, "others cannot reach the binary"))
    func `users without rights are told what it needs, and read and write all the same`()
        async throws
    {
        try await MountingTests.asNobody(
            Self.script,
            prepare: { try $0.write("file", HydrationTests.bytes(200_000)) }
        )
    }
}

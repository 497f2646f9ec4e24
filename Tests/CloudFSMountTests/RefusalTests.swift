import CloudFSTestSupport
import Testing

/// Mounts that cannot be: one sentence, a status that is not 0, and nothing left behind.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct RefusalTests {
    /// What is wrong, and a word that the sentence must have.
    enum Fault: String, CaseIterable, Sendable {
        case noArguments
        case unknownOption
        case badValue
        case unknownScheme
        case notURL
        case missingCloud
        case cloudIsFile
        case missingMountpoint
        case mountpointIsFile
        case mountpointNotEmpty
        case missingDriveFile

        func arguments(in folder: String) -> [String] {
            let cloud = "local:\(folder)/cloud"
            let drive = "\(folder)/drive"
            return switch self {
            case .noArguments: []
            case .unknownOption: ["--quiet-tiem", "2s", cloud, drive]
            case .badValue: ["--cache-size", "many", cloud, drive]
            case .unknownScheme: ["gopher://host/path", drive]
            case .notURL: ["\(folder)/cloud", drive]
            case .missingCloud: ["local:\(folder)/nowhere", drive]
            case .cloudIsFile: ["local:\(folder)/file", drive]
            case .missingMountpoint: [cloud, "\(folder)/nowhere"]
            case .mountpointIsFile: [cloud, "\(folder)/file"]
            case .mountpointNotEmpty: [cloud, "\(folder)/full"]
            case .missingDriveFile: ["--config", "\(folder)/nowhere.toml"]
            }
        }

        var word: String {
            switch self {
            case .noArguments: "mountpoint"
            case .unknownOption: "quiet-tiem"
            case .badValue: "cache-size"
            case .unknownScheme: "gopher"
            case .notURL: "local:"
            case .missingCloud, .missingMountpoint, .missingDriveFile: "nowhere"
            case .cloudIsFile, .mountpointIsFile: "file"
            case .mountpointNotEmpty: "empty"
            }
        }
    }

    @Test(arguments: Fault.allCases, [true, false])
    func `what cannot be mounted is refused with one sentence`(
        fault: Fault,
        foreground: Bool
    ) async throws {
        let folder = try Shell.makeTemporaryFolder()
        defer { Shell.removeTree(folder) }
        for name in ["cloud", "drive", "run"] { _ = try TestFolder.make("\(folder)/\(name)") }
        try TestFolder(folder).write("file", "")
        try TestFolder(folder).write("full/of", "something")
        let state = fault == .noArguments ? [] : ["--state-dir", "\(folder)/state"]
        let result = try await Shell.run(
            [TestMount.binary("cloudfs-mount")] + (foreground ? ["-f"] : []) + state
                + fault.arguments(in: folder),
            environment: ["XDG_RUNTIME_DIR": "\(folder)/run", "HOME": folder],
            within: .seconds(15)
        )
        Self.expectRefusal(result, word: fault.word)
        #expect(MountEntry.all().allSatisfy { !$0.path.hasPrefix(folder) })
    }

    private static func expectRefusal(_ result: Shell.Result, word: String) {
        #expect(result.status != 0)
        #expect(result.errors.contains(word), "\(result)")
        let lines = result.errors.split(separator: "\n")
        #expect(lines.count == 1, "\(result)")
    }

    @Test func `a mountpoint in use is refused and stays as it is`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            let result = try await Shell.run(
                [TestMount.binary("cloudfs-mount"), "--state-dir", drive.folder + "/other"]
                    + ["local:\(drive.cloud.path)", drive.path],
                environment: drive.environment
            )
            Self.expectRefusal(result, word: drive.path)
            #expect(MountEntry.at(drive.path).count == 1)
            #expect(try await drive.text("a") == "1")
        }
    }

    @Test func `a state directory that another daemon owns is refused`() async throws {
        try await TestDrive.with { drive in
            let other = try TestFolder.make("\(drive.folder)/other")
            let result = try await Shell.run(
                [TestMount.binary("cloudfs-mount"), "--state-dir", drive.mount.state]
                    + ["local:\(drive.cloud.path)", other.path],
                environment: drive.environment
            )
            Self.expectRefusal(result, word: drive.mount.state)
            #expect(MountEntry.at(other.path).isEmpty)
        }
    }

    @Test func `the state of another container is refused`() async throws {
        try await TestDrive.with { drive in
            try await drive.mount.stop()
            let other = try TestFolder.make("\(drive.folder)/other cloud")
            let result = try await Shell.run(
                [TestMount.binary("cloudfs-mount"), "--state-dir", drive.mount.state]
                    + ["local:\(other.path)", drive.path],
                environment: drive.environment
            )
            Self.expectRefusal(result, word: "--state-dir")
            #expect(MountEntry.at(drive.path).isEmpty)
        }
    }

    @Test func `a cloud in a drive is refused`() async throws {
        try await TestDrive.with { drive in
            try await drive.run("mkdir cloud")
            let place = try TestFolder.make("\(drive.folder)/other")
            let result = try await Shell.run(
                [TestMount.binary("cloudfs-mount"), "--state-dir", "\(drive.folder)/other state"]
                    + ["local:\(drive.path)/cloud", place.path],
                environment: drive.environment
            )
            Self.expectRefusal(result, word: "ext4")
            #expect(MountEntry.at(place.path).isEmpty)
            if result.status == 0 { _ = try await Shell.run(["umount", "-l", place.path]) }
        }
    }

    @Test(.asRoot) func `a machine without FUSE is refused`() async throws {
        let folder = try Shell.makeTemporaryFolder()
        defer { Shell.removeTree(folder) }
        for name in ["cloud", "drive"] { _ = try TestFolder.make("\(folder)/\(name)") }
        let result = try await Shell.script(
            """
            unshare -m bash -c '
                mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3
                exec "$0" -f --state-dir "$1/state" "local:$1/cloud" "$1/drive"
            ' "\(TestMount.binary("cloudfs-mount"))" "\(folder)"
            """,
            within: .seconds(15)
        )
        Self.expectRefusal(result, word: "/dev/fuse")
    }
}

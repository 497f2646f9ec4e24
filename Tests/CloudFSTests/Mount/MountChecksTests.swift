import Foundation
import Testing

@testable import CloudFS

@Suite struct MountChecksTests {
    private typealias Checks = MountConfiguration.Checks

    /// What the checks say about this cloud directory, mountpoint and state directory.
    private static func check(
        _ cloud: String,
        _ mountpoint: String,
        _ state: String,
        offline: Bool = false,
        mounts: String = ""
    ) -> String {
        var configuration = MountConfiguration(
            containers: [.init(url: .local(path: cloud))],
            mountpoint: mountpoint,
            stateDirectory: state,
            deviceName: "laptop"
        )
        configuration.mayStartOffline = offline
        let checks = Checks(configuration, mounts: .init(parsing: mounts), userID: geteuid())
        return sentence { _ = try checks.run() }
    }

    @Test func `places inside one another are refused, symbolic links or not`() throws {
        let scratch = try MountScratch()
        let cloud = try scratch.folder("cloud")
        let mount = try scratch.folder("cloud/mount")
        let state = "\(scratch.path)/state"
        try FileManager.default.createSymbolicLink(
            atPath: "\(scratch.path)/link",
            withDestinationPath: cloud
        )
        #expect(Self.check(cloud, mount, state).contains("lies inside the cloud directory"))
        #expect(
            Self.check("\(scratch.path)/link", mount, state)
                .contains("lies inside the cloud directory")
        )
        #expect(Self.check(mount, cloud, state).contains("lies inside the mountpoint"))
        #expect(Self.check(cloud, cloud, state).contains("is the cloud directory too"))
        let free = try scratch.folder("free")
        #expect(Self.check(cloud, free, "\(cloud)/s").contains("choose another with --state-dir"))
        #expect(Self.check(cloud, free, scratch.path).contains("lies inside the state directory"))
        #expect(Self.check(cloud, free, "\(free)/s").contains("lies inside the mountpoint"))
    }

    @Test func `a missing cloud directory matters only at the first mount`() throws {
        let scratch = try MountScratch()
        let mount = try scratch.folder("mount")
        let missing = "\(scratch.path)/cloud"
        let state = "\(scratch.path)/state"
        #expect(Self.check(missing, mount, state).contains("cannot be reached"))
        #expect(!Self.check(missing, mount, state, offline: true).contains("cannot be reached"))
        let file = try scratch.file("file")
        #expect(Self.check(file, mount, state).contains("is not a folder"))
    }

    @Test func `a mountpoint must be an empty folder that is no mountpoint`() throws {
        let scratch = try MountScratch()
        let cloud = try scratch.folder("cloud")
        let state = "\(scratch.path)/state"
        let missing = Self.check(cloud, "\(scratch.path)/none", state)
        #expect(missing.contains("mkdir -p '\(scratch.path)/none'"))
        let file = try scratch.file("file")
        #expect(Self.check(cloud, file, state).contains("is not a folder"))
        let full = try scratch.folder("full")
        _ = try scratch.file("full/.hidden")
        #expect(Self.check(cloud, full, state).contains("is not empty"))
        let mount = try scratch.folder("mount")
        let line = "41 30 0:44 / \(mount) rw -"
        #expect(
            Self.check(cloud, mount, state, mounts: "\(line) tmpfs none rw")
                .contains("already a mountpoint, of type tmpfs")
        )
        // The folder itself answers, so the drive that the table shows is alive.
        #expect(
            Self.check(cloud, mount, state, mounts: "\(line) fuse.cloudfs local:/x rw")
                .contains("already mounted")
        )
    }

    @Test func `fuse.conf allows others only by a line of its own`() {
        #expect(Checks.allowsOthers("# x\nuser_allow_other\n"))
        #expect(Checks.allowsOthers("  user_allow_other  # yes"))
        #expect(!Checks.allowsOthers("#user_allow_other\n"))
        #expect(!Checks.allowsOthers("user_allow_others"))
        #expect(!Checks.allowsOthers(""))
    }

    @Test(arguments: [
        ("/a", "/a", true), ("/a", "/a/b", true), ("/a", "/ab", false), ("/a/b", "/a", false),
        ("/", "/x", true),
    ])
    func `a path contains what lies below it`(outer: String, inner: String, expected: Bool) {
        #expect(MountConfiguration.Paths.contains(outer, inner) == expected)
    }

    @Test func `paths are resolved as far as they exist`() throws {
        let scratch = try MountScratch()
        let real = try scratch.folder("real")
        try FileManager.default.createSymbolicLink(
            atPath: "\(scratch.path)/link",
            withDestinationPath: real
        )
        let paths = MountConfiguration.Paths.self
        #expect(paths.resolved("\(scratch.path)/link/a/b") == "\(real)/a/b")
        #expect(paths.resolvedMountpoint("\(scratch.path)/link") == real)
        #expect(paths.resolvedMountpoint("\(scratch.path)/link/x") == "\(real)/x")
        #expect(paths.resolvedMountpoint("/") == "/")
        #expect(paths.absolute("../x/./y/", base: "/a/b", home: nil) == "/a/x/y")
        #expect(paths.absolute("~", base: "/a", home: "/h") == "/h")
        #expect(paths.absolute("~x", base: "/a", home: "/h") == "/a/~x")
    }
}

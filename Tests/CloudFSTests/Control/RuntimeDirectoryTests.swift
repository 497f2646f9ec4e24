import CloudFSControlAPI
import Glibc
import Testing

@Suite struct RuntimeDirectoryTests {
    let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
    }

    @Test func `making it twice is making it once`() throws {
        try folder.directory.create()
        try folder.directory.create()
        try folder.directory.check()
    }

    @Test func `a folder that is not there is absent`() {
        #expect(throws: RuntimeDirectory.Fault.absent(path: folder.directory.path)) {
            try folder.directory.check()
        }
    }

    @Test func `a symbolic link is refused whatever it points to`() throws {
        let real = folder.path + "/real"
        #expect(mkdir(real, 0o700) == 0)
        #expect(symlink(real, folder.directory.path) == 0)
        let expected = RuntimeDirectory.Fault.notAFolder(path: folder.directory.path)
        #expect(throws: expected) { try folder.directory.create() }
        #expect(throws: expected) { try folder.directory.check() }
    }

    @Test func `a file of the name is refused`() throws {
        #expect(mknod(folder.directory.path, S_IFREG | 0o600, 0) == 0)
        #expect(throws: RuntimeDirectory.Fault.notAFolder(path: folder.directory.path)) {
            try folder.directory.create()
        }
    }

    @Test(arguments: [0o701, 0o710, 0o755, 0o777, 0o720] as [UInt32])
    func `a folder open to others is refused`(_ mode: UInt32) throws {
        try folder.directory.create()
        #expect(chmod(folder.directory.path, mode) == 0)
        #expect(throws: RuntimeDirectory.Fault.open(path: folder.directory.path, mode: mode)) {
            try folder.directory.create()
        }
    }

    @Test func `a folder of another user is refused`() throws {
        let path = folder.directory.path
        try folder.directory.create()
        let other = RuntimeDirectory(path: path, owner: geteuid() + 1)
        #expect(
            throws: RuntimeDirectory.Fault.owned(path: path, by: geteuid(), expected: geteuid() + 1)
        ) { try other.create() }
    }

    @Test func `names are sixteen digits and known ones stay as they are`() {
        // The published values of FNV-1a; running daemons are found by them.
        #expect(RuntimeDirectory.name(mountpoint: "") == "cbf29ce484222325")
        #expect(RuntimeDirectory.name(mountpoint: "a") == "af63dc4c8601ec8c")
        #expect(RuntimeDirectory.name(mountpoint: "foobar") == "85944171f73967e8")
        let directory = RuntimeDirectory(path: "/run/cloudfs", owner: 0)
        #expect(directory.socketPath(mountpoint: "a") == "/run/cloudfs/af63dc4c8601ec8c.sock")
        #expect(directory.recordPath(mountpoint: "a") == "/run/cloudfs/af63dc4c8601ec8c.json")
    }

    @Test func `root and others have their own places`() {
        #expect(
            RuntimeDirectory.candidates(user: 0).contains { $0.path == "/run/cloudfs" }
        )
        let places = RuntimeDirectory.candidates(user: 4_242)
        #expect(places.map(\.path) == ["/run/user/4242/cloudfs", "/tmp/cloudfs-4242"])
        #expect(places.allSatisfy { $0.owner == 4_242 })
    }
}

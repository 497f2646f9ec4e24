import CloudFSClient
import CloudFSControlAPI
import Testing

@Suite struct ClientMountTableTests {
    static let text = #"""
        22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
        30 22 0:25 / /proc rw shared:5 master:2 - proc proc rw
        40 22 0:50 / /a/b rw,nosuid - fuse.cloudfs local:/srv rw,user_id=1000,group_id=1000
        41 22 0:51 / /home/u/My\040Drive\134x rw - fuse.cloudfs s3://b rw,user_id=0
        42 40 0:52 / /a/b/inner rw - tmpfs tmpfs rw
        43 42 0:53 / /a/b/inner/deep rw - fuse.cloudfs local:/deep rw,user_id=1000
        44 22 0:50 /Docs /bound rw - fuse.cloudfs local:/srv rw,user_id=1000,group_id=1000
        45 22 0:60 / /twice rw - fuse.cloudfs local:/old rw,user_id=1000
        46 45 0:61 / /twice rw - fuse.cloudfs local:/new rw,user_id=1000
        47 22 0:62 / /hidden rw - fuse.cloudfs local:/hidden rw,user_id=1000
        48 47 0:63 / /hidden rw - tmpfs tmpfs rw
        49 22 0:64 / /sshfs rw - fuse.sshfs host: rw,user_id=1000
        broken line
        50 22 0:65 / /no-dash rw fuse.cloudfs x rw a b
        """#

    let table = MountTable(text: text)

    @Test(arguments: [
        ("/a/b", 40), ("/a/b/x/y", 40), ("/a/bc", 22), ("/a", 22), ("/", 22), ("/a/b/inner", 42),
        ("/a/b/inner/deep", 43), ("/a/b/inner/deeper", 42), ("/a/b/inn", 40), ("/bound/x", 44),
        ("/twice/x", 46), ("/hidden/x", 48), (#"/home/u/My Drive\x/f"#, 41), ("/procx", 22),
    ])
    func `the longest mountpoint and the last of several wins`(_ path: String, _ id: Int) {
        #expect(table.mount(of: path)?.id == id)
    }

    @Test func `drives are what is ours, on top, and each only once`() {
        #expect(table.drives.map(\.id) == [40, 41, 43, 46])
        #expect(table.drives.map(\.userID) == [1_000, 0, 1_000, 1_000])
    }

    @Test func `lines that make no sense are left out`() {
        #expect(table.mounts.map(\.id) == [22, 30] + Array(40...49))
        #expect(MountTable(text: "").mounts.isEmpty)
    }

    @Test func `a mountpoint is there until its line is gone`() {
        #expect(table.hasDrive(at: "/a/b"))
        #expect(!table.hasDrive(at: "/a/b/inner"))
        #expect(!table.hasDrive(at: "/a/b/"))
        #expect(!table.hasDrive(at: "/"))
    }
}

@Suite struct PathResolverTests {
    private func place(
        _ path: String,
        in folder: String = "/",
        links: [String: String] = [:],
        followsInside: Bool = false
    ) -> String? {
        let resolver = PathResolver(
            mounts: MountTable(text: ClientMountTableTests.text),
            workingFolder: folder
        ) { link in
            if !followsInside, link.hasPrefix("/a/b/") {
                Issue.record("the drive was asked about \(link)")
            }
            return links[link]
        }
        let place = followsInside ? resolver.followingLinks(path) : resolver.place(of: path)
        return place.map { "\($0.mount.id):" + $0.names.joined(separator: "/") }
    }

    @Test(arguments: [
        ("/a/b", "40:"), ("/a/b/", "40:"), ("/a//b/./c", "40:c"), ("/a/b/c/../d", "40:d"),
        ("/a/b/c/../../bc", nil), ("/a/bc", nil), ("/x/../a/b/c", "40:c"), ("/a/b/inner/x", nil),
        ("/a/b/inner/deep/x", "43:x"), ("/../../a/b/x", "40:x"), ("/bound/x", "44:x"), ("/", nil),
    ])
    func `absolute paths are placed`(_ path: String, _ expected: String?) {
        #expect(place(path) == expected)
    }

    @Test func `relative paths begin in the working folder`() {
        #expect(place("c/d", in: "/a/b") == "40:c/d")
        #expect(place(".", in: "/a/b/c") == "40:c")
        #expect(place("../x", in: "/a/b/c") == "40:x")
        #expect(place("..", in: "/a/b") == nil)
        #expect(place("b/c", in: "/a") == "40:c")
    }

    @Test func `links outside of drives are followed as the kernel does`() {
        let links = ["/home/u/D": "/a/b", "/home/u/E": "../../a/b/docs", "/l": "home/u/D/x"]
        #expect(place("/home/u/D", links: links) == "40:")
        #expect(place("/home/u/D/x", links: links) == "40:x")
        #expect(place("/home/u/E/y", links: links) == "40:docs/y")
        #expect(place("/l/y", links: links) == "40:x/y")
        #expect(place("/home/u/D/../z", links: links) == nil)
    }

    @Test func `a circle of links is no place`() {
        #expect(place("/p/x", links: ["/p": "/q", "/q": "/p"]) == nil)
    }

    @Test func `links inside are followed only when asked for, and never the last name`() {
        let links = ["/a/b/l": "docs", "/a/b/out": "/tmp", "/a/b/docs/m": "/a/b/other"]
        #expect(place("/a/b/l/x", links: links) == "40:l/x")
        #expect(place("/a/b/l/x", links: links, followsInside: true) == "40:docs/x")
        #expect(place("/a/b/l", links: links, followsInside: true) == "40:l")
        #expect(place("/a/b/l/m/x", links: links, followsInside: true) == "40:other/x")
        #expect(place("/a/b/out/x", links: links, followsInside: true) == nil)
    }
}

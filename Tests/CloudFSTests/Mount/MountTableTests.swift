import Testing

@testable import CloudFS

@Suite struct MountTableTests {
    private typealias MountTable = MountConfiguration.MountTable

    private static let text = #"""
        22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw
        30 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw
        41 30 0:44 / /mnt/my\040drive\134x rw,nosuid,nodev - fuse.cloudfs local:/a\040b rw,user_id=0
        42 30 0:45 / /mnt/two rw - tmpfs none rw
        43 42 0:46 / /mnt/two rw shared:9 - fuse.cloudfs local:/c rw
        broken line
        """#

    @Test func `mounts are found with their type, whatever is escaped`() {
        let table = MountTable(parsing: Self.text)
        #expect(table.entries.count == 5)
        #expect(
            table.mount(at: #"/mnt/my drive\x"#)
                == .init(
                    mountpoint: #"/mnt/my drive\x"#,
                    type: "fuse.cloudfs",
                    source: "local:/a b",
                    device: "0:44"
                )
        )
        #expect(table.mount(at: "/")?.type == "ext4")
        #expect(table.mount(at: "/mnt") == nil)
    }

    @Test func `of several mounts at one place the topmost counts`() {
        #expect(MountTable(parsing: Self.text).mount(at: "/mnt/two")?.type == "fuse.cloudfs")
    }

    @Test(arguments: [
        (#"a\040b"#, "a b"), (#"\134"#, #"\"#), (#"\011\012"#, "\t\n"), (#"a\04"#, #"a\04"#),
        (#"\999"#, #"\999"#), (#"\777"#, #"\777"#), (#"\303\244"#, "ä"), ("", ""),
    ])
    func `only three octal digits are an escape`(field: String, text: String) {
        #expect(MountTable.unescaped(field[...]) == text)
    }

    @Test func `this machine's own table is understood`() throws {
        #expect(try MountTable.current().mount(at: "/proc")?.type == "proc")
    }
}

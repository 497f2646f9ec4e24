import Testing

@testable import CloudFS

@Suite struct HelperArgumentsTests {
    private typealias Helper = MountConfiguration.HelperArguments

    @Test func `a program is the helper by its name`() {
        #expect(Helper.isHelper("/sbin/mount.cloudfs"))
        #expect(Helper.isHelper("mount.cloudfs"))
        #expect(!Helper.isHelper("/usr/bin/cloudfs-mount"))
        #expect(!Helper.isHelper("/opt/mount.d/cloudfs-mount"))
    }

    @Test(
        arguments: [
            (["local:/c", "/m"], ["--", "local:/c", "/m"]),
            (["local:/c", "/m", "-o", "rw,noauto"], ["-o", "rw,noauto", "--", "local:/c", "/m"]),
            (["local:/c", "/m", "-orw", "-t", "cloudfs"], ["-o", "rw", "--", "local:/c", "/m"]),
            (["-sv", "local:/c", "/m"], ["--sloppy", "--", "local:/c", "/m"]),
            (["local:/c", "/m", "-fno", "ro"], ["--dry-run", "-o", "ro", "--", "local:/c", "/m"]),
            (["local:/c", "-n", "/m", "-tfuse.cloudfs"], ["--", "local:/c", "/m"]),
            (["local:/c", "-"], ["--", "local:/c", "-"]),
            (["local:/c", "/m", "-N", "/proc/7/fd/4"], ["--", "local:/c", "/m"]),
            (["--help"], ["--help"]), (["-V"], ["--version"]),
        ] as [([String], [String])]
    )
    func `what mount says is translated`(given: [String], expected: [String]) throws {
        #expect(try Helper.translate(given).words == expected)
    }

    @Test func `the mount namespace is where mount says`() throws {
        #expect(try Helper.translate(["a", "/m", "-o", "rw"]).namespace == nil)
        #expect(try Helper.translate(["a", "/m", "-N", "/n", "-v"]).namespace == "/n")
        #expect(try Helper.translate(["a", "/m", "-vN/n"]).namespace == "/n")
    }

    @Test func `a process is in its own mount namespace, and no file is one`() throws {
        #expect(try !Helper.enter(namespace: "/proc/self/ns/mnt"))
        #expect(sentence { _ = try Helper.enter(namespace: "/nowhere") }.contains("/nowhere"))
        #expect(sentence { _ = try Helper.enter(namespace: "/dev/null") }.contains("/dev/null"))
    }

    @Test(
        arguments: [
            [], ["local:/c"], ["a", "b", "c"], ["a", "b", "-o"], ["a", "b", "-N"],
            ["a", "b", "--foreground"], ["a", "b", "-x"],
        ] as [[String]]
    )
    func `what mount never says is refused with one sentence`(given: [String]) {
        #expect(sentence { _ = try Helper.translate(given) }.hasPrefix("mount.cloudfs "))
    }
}

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
            (["--help"], ["--help"]), (["-V"], ["--version"]),
        ] as [([String], [String])]
    )
    func `what mount says is translated`(given: [String], expected: [String]) throws {
        #expect(try Helper.translate(given) == expected)
    }

    @Test(
        arguments: [
            [], ["local:/c"], ["a", "b", "c"], ["a", "b", "-o"], ["a", "b", "-N", "x"],
            ["a", "b", "--foreground"], ["a", "b", "-x"],
        ] as [[String]]
    )
    func `what mount never says is refused with one sentence`(given: [String]) {
        #expect(sentence { _ = try Helper.translate(given) }.hasPrefix("mount.cloudfs "))
    }
}

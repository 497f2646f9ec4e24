import CloudFSTestSupport
import Testing

/// Trees so deep that no path leads to what is at their ends: programs go there step by step.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct DeepTreeTests {
    private static let length = 250
    private static let depth = 20

    /// Makes folders in each other and a file in the last one, and renames the first one while it
    /// stands there.
    private static func making(_ depth: Int, _ length: Int) -> String {
        """
        for _ in range(\(depth)):
            os.mkdir("n" * \(length))
            os.chdir("n" * \(length))
        with open("bottom", "w") as file: file.write("here")
        os.rename(os.environ["DRIVE"] + "/" + "n" * \(length), os.environ["DRIVE"] + "/moved")
        assert open("bottom").read() == "here" and os.listdir(".") == ["bottom"]
        """
    }

    /// Goes to the end, and writes on there.
    private static func going(_ depth: Int, _ length: Int, _ text: String) -> String {
        """
        os.chdir("moved")
        for _ in range(\(depth - 1)):
            assert os.listdir(".") == ["n" * \(length)]
            os.chdir("n" * \(length))
        assert open("bottom").read() == "here", open("bottom").read()
        with open("more", "w") as file: file.write("\(text)")
        assert open("more").read() == "\(text)"
        os.remove("more")
        """
    }

    @Test func `what no path leads to is sent, checked, there after a restart, and removed`()
        async throws
    {
        try #require(Self.depth * Self.length > 4_096)
        try await TestDrive.with { drive in
            try await drive.python(Self.making(Self.depth, Self.length))
            try await drive.drain()
            let there = try await drive.run("cd \"$CLOUD\"; find moved -type d | wc -l")
            #expect(there == "\(Self.depth)")
            for isMountedAnew in [false, true] {
                if isMountedAnew {
                    _ = try await drive.restart()
                } else {
                    try await drive.mustDo(["restart"])
                }
                try await drive.python(Self.going(Self.depth, Self.length, "text"))
                try await drive.drain()
                let checked = try await drive.cloudfs(["check"])
                #expect(checked.status == 0, "\(checked.output.prefix(400))")
                #expect(checked.output.contains("nothing is wrong"))
            }
            try await drive.run("rm -r moved; [ -z \"$(ls)\" ]")
            try await drive.drain()
            #expect(try drive.cloud.paths() == [])
            #expect(try await drive.run("cloudfs check").contains("nothing is wrong"))
        }
    }

    @Test func `two thousand folders in each other are moved, found again and removed`()
        async throws
    {
        try await TestDrive.with(slots: 2) { drive in
            // What is sent for each of them is another matter.
            try await drive.mustDo(["pause"])
            try await drive.python(Self.making(2_000, 1), within: .seconds(90))
            try await drive.mustDo(["restart"])
            try await drive.python(Self.going(2_000, 1, "text"), within: .seconds(90))
            _ = try await drive.restart()
            try await drive.python(Self.going(2_000, 1, "text"), within: .seconds(90))
            try await drive.run("rm -r moved; [ -z \"$(ls)\" ]", within: .seconds(90))
            try await drive.mustDo(["resume"])
            try await drive.drain()
            #expect(try drive.cloud.paths() == [])
            #expect(try await drive.run("cloudfs check").contains("nothing is wrong"))
        }
    }
}

import CloudFSTestSupport
import Foundation
import Testing

/// Buckets with more in them than anybody looks at.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3ScaleTests {
    static func server(folders: Int, files: Int) async throws -> FakeS3Server {
        let server = try await FakeS3Server.start()
        server.makeBucket(
            "bucket",
            synthetic: SyntheticBucket(
                prefix: "prefix/",
                folderCount: folders,
                filesPerFolder: files
            )
        )
        return server
    }

    static func isFolder(_ request: FakeS3Request) -> Bool {
        request.query.contains { $0.name == "delimiter" }
    }

    static func pages(_ server: FakeS3Server) -> Int {
        server.requests(.list).count { isFolder($0) }
    }

    @Test func `a folder of 50,000 objects is listed once, by its names, through a crash`()
        async throws
    {
        let server = try await Self.server(folders: 0, files: 50_000)
        // The listing stops here until the drive was killed.
        let gate = FakeS3Gate()
        server.add(
            FakeS3Fault(.wait(gate), skipping: 30, count: 1) { Self.isFolder($0) }
        )
        try await TestDrive.with(options: S3FaultTests.options(server), slots: 4) { drive in
            #expect(drive.mount.startDuration < .seconds(2))
            try await eventually("much of it is listed", within: .seconds(60)) {
                Self.pages(server) >= 31
            }
            let again = try await drive.crash()
            gate.open()
            try await eventually("everything is listed", within: .seconds(120)) {
                // The two dots are counted too.
                try await again.run("(ls -f || true) | wc -l", within: .seconds(20)) == "50002"
            }
            #expect(try await again.run("head -c 4 file-0049999.bin | wc -c") == "4")
        }
        // Two pages may have been under way, and a small part of the requests looks for news.
        #expect(Self.pages(server) < 60)
        // Only a few samples tell whether there is more to the objects than a listing says.
        #expect(server.requestCount(.head) < 100)
    }

    @Test func `who looks before changes are heard of has nothing compared twice`() async throws {
        let server = try await Self.server(folders: 40, files: 2)
        // Nothing that happens in the bucket is heard of until the drive was looked at.
        let gate = FakeS3Gate()
        server.add(FakeS3Fault(.wait(gate)) { Self.isJournal($0) })
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            #expect(try await drive.run("ls | wc -l") == "40")
            gate.open()
            try await eventually("everything is compared", within: .seconds(30)) {
                // The second look comes when the first has begun what there is to compare.
                guard server.requests(.list).count(where: Self.isJournal) > 1 else { return false }
                return try await drive.mustDo(["status", "--json"]).contains(
                    /"isComplete"\s*:\s*true/
                )
            }
        }
        // Each folder once, and the drive's root again for who looked.
        #expect(Self.pages(server) <= 42)
    }

    @Test func `a bucket whose journal may not be listed is compared all the same`() async throws {
        let server = try await Self.server(folders: 40, files: 2)
        server.add(
            FakeS3Fault(.fail(status: 403, code: "AccessDenied"), count: nil) { Self.isJournal($0) }
        )
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            #expect(try await drive.run("ls | wc -l") == "40")
            try await eventually("every folder is listed", within: .seconds(40)) {
                Self.pages(server) >= 41
            }
        }
    }

    /// Folders that cannot be listed, for one reason or another.
    enum Refused: CaseIterable {
        case broken
        case closed

        /// Many may be closed; many that are broken mean that something else is.
        var count: Int { self == .broken ? 1 : 40 }

        var fault: FakeS3Fault.Action {
            switch self {
            case .broken: .fail(status: 501, code: "NotImplemented")
            case .closed: .fail(status: 403, code: "AccessDenied")
            }
        }
    }

    @Test(arguments: Refused.allCases)
    func `a folder that cannot be listed hides no others`(kind: Refused) async throws {
        let count = 200
        let server = try await Self.server(folders: count, files: 1)
        let refused = Set((0..<kind.count).map { String(format: "prefix/folder-%07d/", $0) })
        server.add(
            FakeS3Fault(kind.fault, count: nil) { refused.contains($0.parameter("prefix") ?? "") }
        )
        let areOthersListed = { (times: Int) in
            var counts: [String: Int] = [:]
            for request in server.requests(.list) where Self.isFolder(request) {
                counts[request.parameter("prefix") ?? "", default: 0] += 1
            }
            let others = counts.filter { !refused.contains($0.key) }
            return others.count == count + 1 - refused.count
                && others.values.allSatisfy { $0 >= times }
        }
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await eventually("all others are listed", within: .seconds(15)) {
                areOthersListed(1)
            }
            // What was known before is compared otherwise than what is new.
            let again = try await drive.restart()
            try await eventually("they are again", within: .seconds(15)) { areOthersListed(2) }
            #expect(try await again.run("ls folder-0000199 | wc -l") == "1")
        }
        let tries = server.requests(.list).count { refused.contains($0.parameter("prefix") ?? "") }
        #expect((2...40).contains(tries / refused.count), "\(tries)")
    }

    private static func isJournal(_ request: FakeS3Request) -> Bool {
        request.parameter("prefix")?.contains("journal") == true
    }

    @Test func `a comparison ends when the drive does`() async throws {
        let server = try await Self.server(folders: 20_000, files: 40)
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await eventually("the comparison runs", within: .seconds(20)) {
                Self.pages(server) > 20
            }
            let clock = ContinuousClock()
            let begin = clock.now
            try await drive.run("cd / && cloudfs unmount \"$DRIVE\"")
            #expect(try await drive.mount.wait(within: .seconds(20)) == 0)
            #expect(clock.now - begin < .seconds(5))
        }
        #expect(Self.pages(server) < 20_000)
    }
}

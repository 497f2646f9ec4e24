import CloudFSTestSupport
import Foundation
import Glibc
import Testing

/// The daemon is killed while the kernel holds one of its threads.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct KilledInKernelTests {
    /// A notification that pages are outdated waits for a page that a READ holds, and the READ for
    /// the daemon: neither may keep what is left of the daemon, or its readers, for ever.
    @Test func `a daemon killed in a notification is replaced, and its readers are freed`()
        async throws
    {
        var options = TestMount.Options()
        // The second time that content is to come, which no answer will end.
        options.environment = ["CLOUDFS_FAULTS": "notify.taken=delay:1000,content.made=block@1"]
        let old = [UInt8](repeating: 1, count: 300_000)
        try await TestDrive.with(
            options: options,
            ending: .killed,
            prepare: Filling { cloud in try cloud.write("file", old) }
        ) { drive in
            #expect(try await drive.bytes("file") == old)
            try drive.cloud.write("file", [UInt8](repeating: 2, count: 300_000))
            try await eventually("the new version is known", within: .seconds(30)) {
                try await drive.state("file") == "cloud"
            }
            let reader = try drive.start("cat file")
            let daemon = try #require(drive.mount.worker)
            try await eventually("the kernel holds a thread", within: .seconds(10)) {
                Self.waits(of: daemon).contains { $0.contains("folio") }
            }
            drive.mount.send(SIGKILL)
            drive.mount.change(environment: [:])
            let again = try await drive.again()
            #expect(try await reader.wait(within: .seconds(10)) != 0)
            #expect(MountEntry.at(again.path).count == 1)
            #expect(try await again.bytes("file").first == 2)
        }
    }

    /// Where in the kernel the threads of a process wait.
    private static func waits(of process: Int32) -> [String] {
        let tasks = (try? SystemCall.names(in: "/proc/\(process)/task")) ?? []
        return tasks.map { Shell.text(of: "/proc/\(process)/task/\($0)/wchan") }
    }
}

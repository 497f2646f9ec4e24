import CloudFSTestSupport
import Testing

extension Trait where Self == ConditionTrait {
    /// Tests of POSIX behaviour: on a mount, or in native runs on a plain folder.
    static var onDrives: Self {
        .enabled("needs /dev/fuse and cloudfs-mount", TestDrive.isNative || TestMount.isAvailable)
    }

    /// Tests of what only CloudFS does.
    static var onMounts: Self {
        .enabled("needs /dev/fuse and cloudfs-mount", !TestDrive.isNative && TestMount.isAvailable)
    }

    static var asRoot: Self {
        .enabled("needs root", TestMount.isRoot)
    }

    private static func enabled(_ why: Comment, _ condition: Bool) -> Self {
        .enabled(if: condition, why)
    }
}

/// Lets drives know whether their test recorded an issue, so that they print their logs.
struct LogTrait: TestTrait, SuiteTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        // Once for the test; the scope of its suite would be shared by all.
        guard testCase != nil else { return try await function() }
        try await IssueMark.$current.withValue(IssueMark()) { try await function() }
    }
}

extension Trait where Self == LogTrait {
    /// Prints the logs of a failing test's drives.
    static var printingLogs: Self { LogTrait() }
}

extension Trait where Self == IssueHandlingTrait {
    /// Goes with `printingLogs`.
    static var notingIssues: Self {
        .compactMapIssues { issue in
            IssueMark.current?.note()
            return issue
        }
    }
}

import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct RetryScheduleTests {
    @Test func `transient errors are retried from a second to five minutes`() {
        var random = SeededRandom(seed: 1)
        let schedule = RetrySchedule()
        for (count, longest) in [(1, 1), (2, 2), (5, 16), (9, 256), (10, 300), (500, 300)] {
            for _ in 0..<50 {
                let decision = schedule.decision(
                    after: .offline,
                    failureCount: count,
                    using: &random
                )
                #expect(!decision.needsUser)
                #expect(decision.delay <= .seconds(longest))
                #expect(decision.delay >= .seconds(longest) / 2)
            }
        }
    }

    @Test(arguments: [
        CloudFSError.Code.diskFull, .diskQuotaExceeded, .tooManyOpen, .lockHeld, .internalFailure,
    ])
    func `what this machine refused is tried at least once a minute`(code: CloudFSError.Code) {
        var random = SeededRandom(seed: 1)
        for count in [1, 7, 67, 500] {
            let decision = RetrySchedule().decision(
                after: code,
                failureCount: count,
                using: &random
            )
            #expect(!decision.needsUser)
            #expect(decision.delay <= .seconds(60))
        }
    }

    @Test(arguments: [
        CloudFSError.Code.unauthenticated, .quotaExceeded, .denied, .invalidName,
    ])
    func `errors that wait for the user are shown and tried every five minutes`(
        code: CloudFSError.Code
    ) {
        var random = SeededRandom(seed: 1)
        for count in [1, 2, 100] {
            let decision = RetrySchedule().decision(
                after: code,
                failureCount: count,
                using: &random
            )
            #expect(decision == .init(delay: .seconds(300), needsUser: true))
        }
    }

    @Test func `nothing transient waits for the user`() {
        for code in CloudFSError.Code.allCases {
            let isBoth = CloudFSError(code, "x").isTransient && RetrySchedule.needsUser(code)
            #expect(!isBoth, "\(code)")
        }
    }
}

import CloudFSControlAPI
import Testing

@testable import CloudFS

struct TimestampTests {
    @Test(arguments: [Int64.min, .min + 1, -1_000_000_001, -1, 0, 1, 999_999_999, .max])
    func `seconds and the rest make up every moment`(nanoseconds: Int64) {
        let moment = Timestamp(nanoseconds: nanoseconds)
        let rest = moment.nanosecondsOfSecond
        #expect((0..<1_000_000_000).contains(rest))
        let (product, _) = moment.seconds.multipliedReportingOverflow(by: 1_000_000_000)
        #expect(product &+ rest == nanoseconds)
    }

    @Test(arguments: [
        // Year 1, the zero of Go; 1601, the zero of NTFS; the ends of what a file can have.
        -62_135_596_800, -11_644_473_600, Int64.min, -9_223_372_037, 9_223_372_037, Int64.max,
    ])
    func `what is too far away is as far away as can be told`(seconds: Int64) {
        let moment = Timestamp(seconds: seconds, nanoseconds: 0)
        #expect(moment.nanoseconds == (seconds < 0 ? .min : .max))
        #expect(!moment.description.isEmpty)
        let written = WireTime(nanoseconds: moment.nanoseconds).description
        #expect(WireTime(written)?.nanoseconds == moment.nanoseconds)
    }
}

import CloudFSControlAPI
import Testing

@testable import CloudFS

/// Where pages of items begin.
@Suite struct ItemPositionTests {
    private let paths: [DrivePath]

    init() throws {
        paths = try [drivePath("a"), drivePath("b"), .root]
    }

    @Test func `a page begins where the one before says`() throws {
        #expect(try ItemPosition(nil, in: paths) == ItemPosition(path: 0))
        for position in [ItemPosition(path: 0), ItemPosition(path: 2, offset: 12_345)] {
            #expect(try ItemPosition(position.text, in: paths) == position)
        }
    }

    @Test(arguments: [
        "", "/", "1", "1/", "/1", "1/2/3", "-1/0", "0/-1", "3/0", "0/2147483648", "x/0", "0/x",
        "0 /1", "99999999999999999999/0",
    ])
    func `what no page has named is no page`(text: String) {
        let error = #expect(throws: CloudFSError.self) { try ItemPosition(text, in: paths) }
        #expect(error?.code == .invalidArgument, "\(text)")
    }
}

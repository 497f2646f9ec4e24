import Testing

@testable import CloudFS

/// Listings that a cloud never ends.
@Suite struct PageSequenceTests {
    /// How many pages are taken until the listing is given up; `nil` if none of the first is.
    private func count(of pages: Int, _ page: (Int) throws -> ListingPage) throws -> Int? {
        var sequence = PageSequence()
        for number in 0..<pages {
            let page = try page(number)
            do throws(CloudFSError) { try sequence.note(page) } catch { return number }
        }
        return nil
    }

    private func page(_ next: String?, isEmpty: Bool = false) throws -> ListingPage {
        var page = ListingPage(items: [], next: next.map { PageToken($0) })
        if !isEmpty { page.hidden = [try ItemName("something")] }
        return page
    }

    @Test(arguments: [1, 2, 3, 7, 100])
    func `a circle is left soon, wherever it begins`(length: Int) throws {
        for start in [0, 1, 50] {
            let given = try count(of: 10_000) { number in
                let place = number < start ? number : start + (number - start) % length
                return try page("\(place)")
            }
            #expect(try #require(given) < 4 * (start + length) + 4)
        }
    }

    @Test func `a long listing and many empty pages are none`() throws {
        #expect(try count(of: 100_000) { try page("\($0)") } == nil)
        #expect(try count(of: 900) { try page("\($0)", isEmpty: true) } == nil)
        #expect(try count(of: 2_000) { try page("\($0)", isEmpty: true) } == 1_000)
    }
}

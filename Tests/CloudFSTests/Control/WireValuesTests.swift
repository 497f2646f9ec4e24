import CloudFSControlAPI
import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

@Suite struct WireTimeTests {
    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000_000_000, "2000-03-01T00:00:00Z"),
            (1_709_164_800_000_000_001, "2024-02-29T00:00:00.000000001Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00Z"),
            (-2_203_891_200_000_000_000, "1900-03-01T00:00:00Z"),
            (.max, "2262-04-11T23:47:16.854775807Z"),
        ] as [(Int64, String)]
    )
    func `known moments are written and read`(_ nanoseconds: Int64, _ text: String) {
        #expect(WireTime(nanoseconds: nanoseconds).description == text)
        #expect(WireTime(text)?.nanoseconds == nanoseconds)
    }

    @Test func `random moments survive the way there and back`() {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        for _ in 0..<10_000 {
            let time = WireTime(nanoseconds: Int64(truncatingIfNeeded: random.next()) / 2)
            #expect(WireTime(time.description) == time)
        }
    }

    @Test(arguments: [
        "", "now", "2026-11-20", "2026-11-20T14:30:05", "2026-11-20 14:30:05Z",
        "2026-13-20T14:30:05Z", "2026-11-20T24:30:05Z", "2026-11-20T14:30:05.Z",
        "2026-11-20T14:30:05+01:00", "9999-01-01T00:00:00Z", "2026-11-2xT14:30:05Z",
    ])
    func `anything else is no time`(_ text: String) {
        #expect(WireTime(text) == nil)
    }
}

@Suite struct DrivePathTests {
    @Test func `any bytes survive the way there and back`() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        for _ in 0..<2_000 {
            let names = (0..<Int.random(in: 0...4, using: &random)).map { _ in
                (0..<Int.random(in: 1...8, using: &random)).map { _ in
                    // Few values, so that the special ones come up and meet.
                    [0x25, 0x2e, 0x41, 0x62, 0xc2, 0x9b, 0xc3, 0xa4, 0xff, 0x0a]
                        .randomElement(using: &random) ?? UInt8(0x41)
                }
            }
            guard let path = DrivePath(names: names) else { continue }
            let text = path.text
            #expect(DrivePath(text: text) == path)
            let json = try JSONEncoder().encode([path])
            #expect(try JSONDecoder().decode([DrivePath].self, from: json) == [path])
        }
    }

    @Test(
        arguments: [
            ("\u{9b}", "%C2%9B"), ("a\u{80}\u{9f}b", "a%C2%80%C2%9Fb"), ("\u{a0}Â", "\u{a0}Â"),
            ("\u{1b}\u{7f}", "%1B%7F"), ("ě\u{85}", "ě%C2%85"),
        ] as [(String, String)]
    )
    func `control characters of both sets are quoted`(_ name: String, _ text: String) throws {
        let path = try #require(DrivePath(names: [Array(name.utf8)]))
        #expect(path.text == text)
        #expect(DrivePath(text: text) == path)
    }

    @Test func `slashes and single dots around names mean nothing`() {
        #expect(DrivePath(text: "/a//./b/")?.text == "a/b")
        #expect(DrivePath(text: "/") == .root)
        #expect(DrivePath(text: "") == .root)
    }

    @Test(arguments: ["..", "a/../b", "%00", "a%2Fb", "%", "%4", "%zz", "%2e%2E"])
    func `a path that could leave the drive or is broken is none`(_ text: String) {
        #expect(DrivePath(text: text) == nil)
    }

    @Test func `names and paths have a longest length`() {
        let name = [UInt8](repeating: 0x61, count: 255)
        #expect(DrivePath(names: [name]) != nil)
        #expect(DrivePath(names: [name + [0x61]]) == nil)
        #expect(DrivePath(names: Array(repeating: name, count: 256)) != nil)
        #expect(DrivePath(names: Array(repeating: name, count: 257)) == nil)
    }

    @Test func `composed and decomposed letters are two names`() {
        #expect(DrivePath(text: "\u{e9}") != DrivePath(text: "e\u{301}"))
    }

    @Test func `the names of an item come out as they went in`() throws {
        let path = try #require(DrivePath(names: [[0xff], Array("b".utf8)]))
        #expect(try path.itemNames.map(\.bytes) == [[0xff], [0x62]])
    }
}

@Suite struct ControlValuesTests {
    @Test func `an error has the documented form`() throws {
        let failure = ControlFailure(code: "notFound", message: "there is no a")
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let text = String(decoding: try encoder.encode(failure), as: UTF8.self)
        #expect(text == #"{"error":{"code":"notFound","message":"there is no a"}}"#)
        #expect(try JSONDecoder().decode(ControlFailure.self, from: Data(text.utf8)) == failure)
    }

    @Test func `fields a client does not know are ignored`() throws {
        let text = #"{"remaining":{"waiting":1,"uploading":2,"failed":3,"bytes":4,"new":5},"x":{}}"#
        let result = try JSONDecoder().decode(UnmountResult.self, from: Data(text.utf8))
        #expect(result.remaining.total == 6)
    }

    @Test(arguments: PinPolicy.allCases)
    func `policies are the engine's`(_ policy: PinPolicy) {
        #expect(PinPolicy(policy.contentPolicy) == policy)
    }
}

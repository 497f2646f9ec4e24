import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

@Suite struct ConflictNamingTests {
    // 2026-11-20 14:30:05 UTC
    private let moment = Timestamp(seconds: 1_795_185_005, nanoseconds: 999_999_999)

    private func name(
        _ original: String,
        device: String = "laptop",
        number: Int = 1
    ) throws -> String {
        let original = try ItemName(original)
        return try ConflictNaming.name(
            for: original,
            device: device,
            at: moment,
            number: number
        ).description
    }

    @Test func `device and time stand before the extension`() throws {
        #expect(
            try name("report.odt") == "report (conflicted copy laptop 2026-11-20 14-30-05).odt"
        )
        #expect(try name("Makefile") == "Makefile (conflicted copy laptop 2026-11-20 14-30-05)")
        #expect(try name(".profile") == ".profile (conflicted copy laptop 2026-11-20 14-30-05)")
        #expect(try name("a.tar.gz") == "a.tar (conflicted copy laptop 2026-11-20 14-30-05).gz")
    }

    @Test func `further ones are numbered`() throws {
        #expect(
            try name("a.txt", number: 2) == "a (conflicted copy laptop 2026-11-20 14-30-05 2).txt"
        )
        #expect(try name("a.txt", number: 30).hasSuffix("14-30-05 30).txt"))
    }

    @Test func `a device's name cannot break the name`() throws {
        #expect(try name("a", device: "x/y\n\u{7f}z").contains("copy x-y--z 2026"))
        #expect(try name("a", device: "").contains("copy device 2026"))
        #expect(try name("a", device: String(repeating: "é", count: 200)).utf8.count < 130)
    }

    @Test func `a long stem is cut between characters`() throws {
        for text in ["a", "é", "漢", "🎈"] {
            for extra in 0..<4 {
                let lead = String(repeating: "x", count: extra)
                let count = (250 - extra) / text.utf8.count
                let long = lead + String(repeating: text, count: count) + ".odt"
                let result = try ConflictNaming.name(
                    for: ItemName(long),
                    device: "laptop",
                    at: moment
                )
                #expect(result.bytes.count <= 255 && result.bytes.count > 255 - 4)
                #expect(String(validating: result.bytes, as: UTF8.self) != nil)
                #expect(result.description.hasSuffix(".odt"))
            }
        }
    }

    @Test func `a very long extension is no extension`() throws {
        let original = try ItemName("a." + String(repeating: "b", count: 250))
        let result = try ConflictNaming.name(for: original, device: "laptop", at: moment)
        #expect(result.description.hasSuffix("14-30-05)"))
        #expect(result.bytes.count == 255)
    }

    @Test(arguments: ["a.txt", "Makefile", ".profile", "a (1).txt", "a.b.c", "é (x", "a.", "a)"])
    func `the original is recognised`(original: String) throws {
        for device in ["laptop", "a b (c)", "host.local", "2026-01-01 00-00-00", "1"] {
            for number in [1, 2, 17] {
                let copy = try ItemName(name(original, device: device, number: number))
                #expect(ConflictNaming.original(of: copy)?.description == original, "\(copy)")
            }
        }
    }

    @Test func `a version tells its device, and how it goes on as a document`() throws {
        for device in ["laptop", "a b (c)", "host.local", "2026-01-01 00-00-00", "1"] {
            for number in [1, 2, 17] {
                let copy = try ItemName(name("a.txt", device: device, number: number))
                #expect(ConflictNaming.device(of: copy) == device, "\(copy)")
                let own = try #require(ConflictNaming.independent(of: copy))
                #expect(ConflictNaming.original(of: own) == nil, "\(own)")
                #expect(own.description.hasPrefix("a (\(device) 2026-"), "\(own)")
                let second = try #require(ConflictNaming.independent(of: copy, number: 2))
                #expect(second != own && ConflictNaming.original(of: second) == nil)
            }
        }
        #expect(ConflictNaming.device(of: try ItemName("a.txt")) == nil)
        #expect(ConflictNaming.independent(of: try ItemName("a.txt")) == nil)
    }

    @Test(arguments: ["a.txt", "Makefile", ".profile", "a.tar.gz", "a.", "é (x"])
    func `all versions of a name begin alike`(original: String) throws {
        let copy = try ItemName(name(original))
        let beginnings = ConflictNaming.beginnings(of: try ItemName(original))
        #expect(beginnings.contains { copy.bytes.starts(with: $0) && $0.last == 0x20 })
    }

    @Test(arguments: [
        "a.txt", "a (conflicted copy).txt", "a (conflicted copy laptop 2026-11-20).txt",
        "a (conflicted copy laptop 2026-11-20 14-30-5).txt",
        "a (conflicted copy laptop 2026-11-20 14-30-05", " (conflicted copy ",
        "a (conflicted copy laptop 2026-11-20 14-30-05).tar.gz",
        " (conflicted copy laptop 2026-11-20 14-30-05).txt",
        "a (conflicted copy 2026-11-20 14-30-05).txt", ")", "a (conflicted copy )",
    ])
    func `other names are not taken for conflict versions`(text: String) throws {
        #expect(ConflictNaming.original(of: try ItemName(text)) == nil)
    }

    @Test func `a conflict version of a conflict version is named after the original`() throws {
        let first = try name("a.txt", device: "desk")
        #expect(try name(first) == name("a.txt"))
    }

    @Test func `bytes that are no text are kept`() throws {
        let original = try ItemName([0xff, 0x80, 0x80, 0x80, 0x80, 0x2e, 0xfe])
        let copy = try ConflictNaming.name(for: original, device: "x", at: moment)
        #expect(ConflictNaming.original(of: copy) == original)
    }

    @Test func `times are the calendar's, from 1678 to 2262`() {
        let calendar = Date.ISO8601FormatStyle(timeZone: .gmt).year().month().day()
            .time(includingFractionalSeconds: false)
        var random = SeededRandom(seed: 11)
        var seconds: [Int64] = [0, -1, 951_782_400, 951_868_800, 4_107_542_399, 4_107_542_400]
        seconds += (0..<3000).map { _ in
            Int64.random(in: -9_214_560_000...9_214_560_000, using: &random)
        }
        for second in seconds {
            let date = Date(timeIntervalSince1970: Double(second))
            let expected = date.formatted(calendar)
                .replacing("T", with: " ").replacing(":", with: "-").replacing("Z", with: "")
            let text = ConflictNaming.text(of: Timestamp(seconds: second, nanoseconds: 0))
            #expect(text == expected, "\(second)")
        }
    }
}

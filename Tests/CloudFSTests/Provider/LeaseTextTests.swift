import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct LeaseTextTests {
    private static let document = DocumentID(high: 0xab, low: 1)

    private func record(_ holder: LeaseHolder?, isEnded: Bool = false) -> LeaseRecord {
        LeaseRecord(
            document: Self.document,
            number: 12,
            generation: 10,
            holder: holder,
            duration: .milliseconds(12_345),
            isEnded: isEnded
        )
    }

    @Test(arguments: [false, true])
    func `what was written is read`(isEnded: Bool) {
        let written = record(LeaseHolder(device: "Döme", process: "a b\"%"), isEnded: isEnded)
        let bytes = LeaseText.bytes(of: written)
        #expect(LeaseText.record(bytes, of: Self.document, number: 12) == written)
        #expect(written.renewalCount == 2)
    }

    @Test func `names sort by number and say what they mean`() throws {
        let name = LeaseText.name(Self.document, 12)
        #expect(String(decoding: name, as: UTF8.self).hasSuffix("01.000000000000012"))
        let parsed = try #require(LeaseText.parse(name))
        #expect(parsed.document == Self.document)
        #expect(parsed.number == 12)
        #expect(name.lexicographicallyPrecedes(LeaseText.name(Self.document, 100)))
        #expect(LeaseText.name(Self.document, LeaseRecord.highestNumber).count == name.count)
    }

    @Test(arguments: [
        "", ".", "x", "00000000000000ab0000000000000001.12",
        "00000000000000ab0000000000000001.000000000000000",
        "00000000000000ab0000000000000001.+00000000000012",
        "00000000000000AB0000000000000001.000000000000012",
        "00000000000000ab0000000000000001-000000000000012",
        "00000000000000ab0000000000000001.000000000000012/",
        "../../../../../../../../../../.././000000000012",
    ])
    func `other names are none`(name: String) {
        #expect(LeaseText.parse(Array(name.utf8)) == nil)
    }

    @Test func `damaged text is a record that nobody can read`() {
        let good = LeaseText.bytes(of: record(LeaseHolder(device: "d", process: "p")))
        let unreadable = LeaseRecord.unreadable(Self.document, number: 12)
        let lines = String(decoding: good, as: UTF8.self).split(separator: "\n").map(String.init)
        var bad: [[String]] = [[], lines + ["more"], Array(lines.dropLast())]
        for (index, line) in [
            (0, "cloudfs lease 2"), (1, "generation 13"), (1, "generation 0"),
            (1, "generation -1"), (2, "milliseconds 99999999999999999999"), (2, "milliseconds 0"),
            (3, "perhaps"), (4, "instance xyz"), (5, "device %"), (6, "no process"),
        ] {
            var changed = lines
            changed[index] = line
            bad.append(changed)
        }
        for lines in bad {
            let bytes = Array(lines.joined(separator: "\n").utf8)
            let read = LeaseText.record(bytes, of: Self.document, number: 12)
            #expect(read == unreadable, "\(lines)")
        }
        let long = good + Array(repeating: 0x0a, count: 4_096)
        #expect(LeaseText.record(long, of: Self.document, number: 12) == unreadable)
    }

    @Test func `random damage never does more than fail`() {
        let good = LeaseText.bytes(of: record(LeaseHolder(device: "device", process: "process")))
        var random = SeededRandom(seed: 11)
        for _ in 0..<2_000 {
            var bytes = good
            for _ in 0...random.below(3) {
                bytes[random.below(bytes.count)] = UInt8(random.below(256))
            }
            let read = LeaseText.record(bytes, of: Self.document, number: 12)
            #expect(read.number == 12 && LeaseRecord.durations.contains(read.duration))
        }
    }

    @Test func `what others write cannot disturb a message or last for days`() {
        let evil = LeaseHolder(
            device: "a\u{1b}[2J\u{202e}b\n" + String(repeating: "ä", count: 100),
            process: String(repeating: "🦆", count: 100)
        )
        #expect(evil.device.hasPrefix("a[2Jbä"))
        #expect(evil.device.utf8.count == 63)
        #expect(evil.process.utf8.count == 128)
        let long = LeaseRecord(
            document: Self.document,
            number: 1,
            generation: 1,
            holder: nil,
            duration: .seconds(1_000_000)
        )
        #expect(long.duration == .seconds(300))
    }
}

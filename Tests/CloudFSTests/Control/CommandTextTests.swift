import ArgumentParser
import CloudFSControlAPI
import Foundation
import Glibc
import Testing

@testable import cloudfs

@Suite struct UnitsTests {
    @Test(
        arguments: [
            (0, "0 B"), (1, "1 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_536, "1.5 KiB"),
            (10_239, "9.9 KiB"), (10_240, "10 KiB"), (1_048_575, "1023 KiB"), (1 << 20, "1.0 MiB"),
            (5 << 30, "5.0 GiB"), (1 << 40, "1.0 TiB"), (.max, "7.9 EiB"),
        ] as [(Int64, String)]
    )
    func `bytes are cut, not rounded up`(_ count: Int64, _ text: String) {
        #expect(Units.bytes(count) == text)
    }

    @Test func `nearly all is not all`() {
        #expect(Units.percent(999_999, of: 1_000_000) == 99)
        #expect(Units.percent(1_000_000, of: 1_000_000) == 100)
        #expect(Units.percent(0, of: 0) == 100)
        #expect(Units.percent(7, of: 5) == 100)
        #expect(Units.percent(-1, of: 5) == 0)
    }

    @Test(
        arguments: [
            (-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (200, "3 min 20 s"),
            (3_600, "1 h"), (7_500, "2 h 5 min"), (90_000, "1 d 1 h"), (86_460, "1 d"),
        ] as [(Int64, String)]
    )
    func `spans have two units at most`(_ seconds: Int64, _ text: String) {
        #expect(Units.span(seconds: seconds) == text)
    }

    @Test func `the outbox in words`() {
        #expect(Units.outbox(.none) == "nothing to send")
        let counts = OutboxCounts(waiting: 1, uploading: 0, failed: 2, bytes: 2_048)
        #expect(Units.outbox(counts) == "1 waiting, 2 failed (2.0 KiB)")
    }

    @Test(arguments: [
        ("30", 30), ("30s", 30), ("1.5s", 1.5), ("500ms", 0.5), ("5m", 300), ("2h", 7_200),
    ])
    func `spans on the command line`(_ text: String, _ seconds: Double) {
        #expect(Span(argument: text)?.duration == .seconds(seconds))
    }

    @Test(arguments: ["", "s", "-1", "5x", "1e9", "١"])
    func `what is no span is refused`(_ text: String) {
        #expect(Span(argument: text) == nil)
    }
}

@Suite struct TableTests {
    private func table(_ rows: [[String]]) -> [String] {
        var table = Table([
            .init(title: "NAME"), .init(title: "SIZE", isRightAligned: true), .init(title: "NOTE"),
        ])
        for row in rows { table.add(row.map { Table.Cell($0, .red) }) }
        return table.lines(hasColour: false)
    }

    @Test func `columns are as wide as their widest cell`() {
        #expect(
            table([["a", "10 KiB", "x"], ["longer", "1 B", ""]]) == [
                "NAME      SIZE  NOTE", "a       10 KiB  x", "longer     1 B",
            ]
        )
    }

    @Test func `a column without text is left out`() {
        #expect(table([["a", "1 B", ""]]) == ["NAME  SIZE", "a      1 B"])
    }

    @Test func `wide and combined letters keep the columns straight`() {
        #expect("日本".columnCount == 4)
        #expect("e\u{301}".columnCount == 1)
        let lines = table([["日本", "1 B", ""], ["e\u{301}", "2 B", ""]])
        #expect(Set(lines.map(\.columnCount)).count == 1)
    }

    @Test func `a name cannot steer the terminal`() {
        let lines = table([["\u{1B}[2J\n\u{202E}x", "", ""]])
        #expect(lines[1] == #"\u{1b}[2J\u{a}\u{202e}x"#)
    }

    @Test func `a path is bytes for programs, and cannot steer a terminal`() throws {
        let path = Array("/drive/\u{1B}[2J".utf8) + [0xFF]
        #expect(try Self.written(isWatched: false) { $0.path(path) } == path + [0x0A])
        let shown = try Self.written(isWatched: true) { $0.path(path) }
        #expect(String(decoding: shown, as: UTF8.self) == "/drive/\\u{1b}[2J\u{FFFD}\n")
    }

    private static func written(
        isWatched: Bool,
        _ write: (Terminal) throws -> Void
    ) throws -> [UInt8] {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        try write(Terminal(descriptor: ends[1], isWatched: isWatched))
        var bytes = [UInt8](repeating: 0, count: 1_000)
        let count = read(ends[0], &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count)))
    }

    /// What commands write with `--json`.
    private struct Shown: Codable, Equatable {
        var path: DrivePath
        var note: String
    }

    @Test(arguments: [true, false])
    func `JSON cannot steer a terminal, and is the same value`(isPretty: Bool) throws {
        let name = "a\u{9b}2J\u{202e}"
        let path = try #require(DrivePath(names: [Array(name.utf8)]))
        let note = name + "\n\u{7f}\u{2028}\u{e0041}\\u{200f}\\\u{85}\"é"
        let shown = Shown(path: path, note: note)
        let bytes = try Self.written(isWatched: false) { terminal in
            if isPretty { try terminal.json(shown) } else { try terminal.jsonLine(shown) }
        }
        let text = String(decoding: bytes, as: UTF8.self)
        let isPlain = text.unicodeScalars.allSatisfy {
            $0 == "\n" || $0 == "é" || (0x20..<0x7F).contains($0.value)
        }
        #expect(isPlain, "\(text.printable)")
        #expect(text.contains(#"a%C2%9B2J\u202e"#))
        #expect(text.contains(#"\udb40\udc41"#))
        #expect(try JSONDecoder().decode(Shown.self, from: Data(bytes)) == shown)
    }

    @Test func `an error cannot steer the terminal`() {
        let error = ValidationError("no such item: \u{1B}[2J\u{202E}x")
        let message = CloudFSCommand.message(of: error)
        #expect(message?.hasPrefix(#"cloudfs: no such item: \u{1b}[2J\u{202e}x"# + "\n") == true)
        #expect(CloudFSCommand.message(of: CleanExit.message("done")) == nil)
        #expect(CloudFSCommand.message(of: ExitCode.failure) == nil)
    }

    @Test func `colour takes no room`() {
        var table = Table([.init(title: "A"), .init(title: "B")])
        table.add([.init("x", .red), .init("y")])
        #expect(table.lines(hasColour: true)[1] == "\u{1B}[31mx\u{1B}[0m  y")
    }
}

@Suite struct ProgressBarTests {
    @Test(arguments: [(0, 0), (50, 20), (99, 39), (100, 40)])
    func `the bar fills up with what is done`(_ percent: Int64, _ filled: Int) {
        let line = ProgressBar.line(done: percent, of: 100, note: "x", width: 80)
        #expect(line.prefix { $0 == "#" }.count == filled)
        #expect(line.contains("\(percent) %  x"))
    }

    @Test(arguments: [0, 1, 5, 20, 30, 80, 500])
    func `the line fits every window`(_ width: Int) {
        let line = ProgressBar.line(done: 1, of: 2, note: "10 MiB of 20 MiB", width: width)
        #expect(line.columnCount < max(1, width) || line.isEmpty)
    }
}

@Suite struct CommandLineTests {
    @Test(arguments: [
        ["status", "--all", "x"], ["drain", "--timeout", "5"], ["pin"], ["evict"], ["unmount"],
        ["drain", "--wait", "--timeout", "soon"], ["nonsense"],
    ])
    func `wrong usage ends with status 64`(_ arguments: [String]) {
        let error = #expect(throws: (any Error).self) {
            try CloudFSCommand.parseAsRoot(arguments)
        }
        #expect(error.map { CloudFSCommand.exitCode(for: $0).rawValue } == 64)
    }

    @Test(arguments: [
        ["status"], ["status", "--json", "-r", "a"], ["pin", "a", "b"], ["evict", "-r", "a"],
        ["drain", "--wait", "--timeout", "5m"], ["queue", "--json"], ["unmount", "--force", "/m"],
        ["mounts", "--prune"], ["download", "--no-wait", "a"], ["pause"], ["resume", "/m"],
    ])
    func `right usage is understood`(_ arguments: [String]) throws {
        _ = try CloudFSCommand.parseAsRoot(arguments)
    }

    @Test func `every subcommand says what it does`() {
        for command in CloudFSCommand.configuration.subcommands {
            #expect(!command.configuration.abstract.isEmpty)
        }
    }
}

/// One line of a terminal that is written again and again: `####----  42 %  1.2 of 3.4 GiB`.
struct ProgressBar: Sendable {
    private let terminal: Terminal
    private var shownWidth = 0

    init(terminal: Terminal = .errors) {
        self.terminal = terminal
    }

    /// The line for a terminal of `width` columns.
    static func line(done: Int64, of total: Int64, note: String, width: Int) -> String {
        let percent = Units.percent(done, of: total)
        let number = String(repeating: " ", count: percent < 10 ? 2 : percent < 100 ? 1 : 0)
        let text = "\(number)\(percent) %  \(note)"
        let room = min(40, width - text.columnCount - 4)
        guard room >= 10 else { return String(text.prefix(max(0, width - 1))) }
        let filled = room * percent / 100
        let bar =
            String(repeating: "#", count: filled) + String(repeating: "-", count: room - filled)
        return "\(bar)  \(text)"
    }

    /// Writes over the line before.
    mutating func show(done: Int64, of total: Int64, note: String) {
        show(Self.line(done: done, of: total, note: note, width: terminal.width))
    }

    mutating func show(_ line: String) {
        let line = String(line.prefix(max(0, terminal.width - 1)))
        let width = line.columnCount
        let rest = String(repeating: " ", count: max(0, shownWidth - width))
        terminal.write("\r\(line)\(rest)")
        shownWidth = width
    }

    /// Removes the line, so that what follows begins at its place.
    mutating func clear() {
        guard shownWidth > 0 else { return }
        terminal.write("\r\(String(repeating: " ", count: shownWidth))\r")
        shownWidth = 0
    }
}

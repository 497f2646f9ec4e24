/// Text in columns, as wide as their widest cell.
struct Table: Sendable {
    /// One field of a row.
    struct Cell: Sendable, ExpressibleByStringLiteral {
        var text: String
        var style: Style

        init(_ text: String, _ style: Style = .plain) {
            self.text = text.printable
            self.style = style
        }

        init(stringLiteral text: String) {
            self.init(text)
        }
    }

    /// A column's title and on which side its cells are filled.
    struct Column: Sendable {
        var title: String
        var isRightAligned = false
    }

    let columns: [Column]
    private(set) var rows: [[Cell]] = []

    init(_ columns: [Column]) {
        self.columns = columns
    }

    mutating func add(_ cells: [Cell]) {
        precondition(cells.count == columns.count, "a row has a cell for each column")
        rows.append(cells)
    }

    /// The title line and the rows; without colour not even the titles are marked.
    ///
    /// A column without any text is left out.
    func lines(hasColour: Bool) -> [String] {
        let used = columns.indices.filter { index in rows.contains { !$0[index].text.isEmpty } }
        let titles = columns.map { Cell($0.title, .faint) }
        let widths = columns.indices.map { index in
            ([titles] + rows).map { $0[index].text.columnCount }.max() ?? 0
        }
        return ([titles] + rows).map { row in
            let fields = used.map { index in
                let isLast = index == used.last
                let room = widths[index] - row[index].text.columnCount
                let fill = String(repeating: " ", count: room)
                let shown =
                    hasColour ? row[index].style.applied(to: row[index].text) : row[index].text
                if columns[index].isRightAligned { return fill + shown }
                return isLast ? shown : shown + fill
            }
            let line = fields.joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed())
        }
    }

    func write(to terminal: Terminal = .output) {
        for line in lines(hasColour: terminal.hasColour) { terminal.line(line) }
    }
}

import GRDB

/// The index of names by what stands anywhere in them.
///
/// Making it costs more than listing the names, so nothing is added when a name is: queries ask for
/// it to be brought up to date, beside everything else. Rows of names are numbered in the order
/// they are made, a changed name is a new row, and no number is used twice: so one number says how
/// far the index goes, what comes after it is looked at row by row, and entries of names that are
/// gone find nothing.
enum NameText {
    /// How many names one transaction adds: about as long as a program may have to wait.
    static let batch = 400
    /// So few names behind the end of the index are looked at faster than they are added.
    static let patience = 2_000
    fileprivate static let setting = "name_text"
    fileprivate static let goneSetting = "name_text_rows"
}

extension CatalogReader {
    /// The last row of a name that the index has, or passed over.
    func indexedNames() throws -> Int64 {
        try setting(NameText.setting).flatMap { Int64($0) } ?? 0
    }

    /// Whether enough names are behind the end of the index to be worth adding them.
    func hasUnindexedNames() throws -> Bool {
        try Int64.fetchOne(
            compiled(
                "SELECT id FROM name WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
            ),
            arguments: [try indexedNames(), NameText.patience]
        ) != nil
    }

    fileprivate func indexRowCount() throws -> Int64 {
        try setting(NameText.goneSetting).flatMap { Int64($0) } ?? 0
    }

    /// Whether most of what the index has is of names that are gone.
    func hasStaleIndex() throws -> Bool {
        let rows = try indexRowCount()
        guard rows > 10_000 else { return false }
        let left = try Int64.fetchOne(
            compiled("SELECT count(*) FROM name WHERE id <= ?"),
            arguments: [try indexedNames()]
        )
        return left.map { $0 < rows / 2 } ?? false
    }
}

extension CatalogWriter {
    /// Adds the next names to the index.
    ///
    /// - Returns: Whether there may be more.
    func indexNames(atMost limit: Int = NameText.batch) throws -> Bool {
        let end = try reader.indexedNames()
        let names = try reader.names(after: end, limit: limit)
        guard let last = names.last else { return false }
        for (position, name) in names {
            try execute(
                "INSERT INTO name_text (rowid, name) VALUES (?, ?)",
                [position, FoldedName(name.name).indexed]
            )
        }
        let rows = try reader.indexRowCount() + Int64(names.count)
        try setSetting(NameText.setting, to: String(last.position))
        try setSetting(NameText.goneSetting, to: String(rows))
        return names.count == limit
    }

    /// Empties the index, which is then filled anew.
    func dropIndex() throws {
        try execute("INSERT INTO name_text (name_text) VALUES ('delete-all')")
        try removeSetting(NameText.setting)
        try removeSetting(NameText.goneSetting)
    }
}

import Glibc

/// What the desktop's shared databases of types say, most important first.
///
/// Each line is checked by itself: what is no line of the format is left out.
struct MIMEDatabase: Sendable {
    /// One line of `globs2`.
    struct Glob: Sendable {
        var weight: Int
        var type: String
        var glob: String
        var isCaseSensitive: Bool

        /// The globs that it stands for: one for each character of a set in an extension.
        var expanded: [String] {
            guard glob.hasPrefix("*."), let open = glob.firstIndex(of: "["),
                let close = glob[open...].firstIndex(of: "]"), !glob.dropFirst().contains("*"),
                glob[glob.index(after: close)...].firstIndex(of: "[") == nil
            else { return [glob] }
            let members = Self.members(of: glob[glob.index(after: open)..<close])
            let tail = glob[glob.index(after: close)...]
            return members.isEmpty ? [glob] : members.map { glob[..<open] + String($0) + tail }
        }

        /// The characters of `1-9j`; none where it is another kind of set, or a large one.
        private static func members(of set: Substring) -> [Character] {
            var bytes: [UInt8] = []
            var rest = Array(set.utf8)[...]
            while let first = rest.popFirst() {
                var last = first
                if rest.first == UInt8(ascii: "-"), rest.count > 1 {
                    rest = rest.dropFirst()
                    last = rest.popFirst() ?? first
                }
                guard first <= last, first > 0x20, last < 0x7f, first != UInt8(ascii: "!") else {
                    return []
                }
                bytes += first...last
            }
            return bytes.count <= 36 ? bytes.map { Character(UnicodeScalar($0)) } : []
        }
    }

    var globs: [Glob] = []
    var subclasses: [(type: String, parent: String)] = []
    var aliases: [(alias: String, type: String)] = []
    var magic = MIMEMagic()

    /// Longest file that is read, in bytes; the usual ones have 40,000.
    private static let longestFile = 4 << 20
    /// Most lines of each kind.
    private static let mostLines = 100_000

    /// Adds what other databases say, as less important than what is here.
    mutating func add(globs text: String) {
        var new: [Glob] = []
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let parts = line.split(separator: ":", maxSplits: 3)
            guard parts.count >= 3, let weight = Int(parts[0]), (0...100).contains(weight),
                DeclaredType.isName(String(parts[1]), withSlash: true), parts[2].utf8.count <= 255,
                parts[2] != "__NOGLOBS__"
            else { continue }
            new.append(
                Glob(
                    weight: weight,
                    type: parts[1].lowercased(),
                    glob: String(parts[2]),
                    isCaseSensitive: parts.count > 3
                        && parts[3].split(separator: ",").contains("cs")
                )
            )
        }
        globs = Array((globs + new).prefix(Self.mostLines))
    }

    mutating func add(subclasses text: String) {
        subclasses += Self.pairs(text).map { (type: $0, parent: $1) }
        subclasses = Array(subclasses.prefix(Self.mostLines))
    }

    mutating func add(aliases text: String) {
        aliases += Self.pairs(text).map { (alias: $0, type: $1) }
        aliases = Array(aliases.prefix(Self.mostLines))
    }

    private static func pairs(_ text: String) -> [(String, String)] {
        text.split(separator: "\n").compactMap { line in
            let parts = line.split(separator: " ")
            guard parts.count == 2,
                parts.allSatisfy({ DeclaredType.isName(String($0), withSlash: true) })
            else { return nil }
            return (parts[0].lowercased(), parts[1].lowercased())
        }
    }

    /// The databases of the user and the system, and behind them the common types.
    static func installed(folders: [String] = DataFolders.all()) -> MIMEDatabase {
        var database = MIMEDatabase()
        for folder in folders {
            database.add(globs: text(of: "\(folder)/mime/globs2"))
            database.add(subclasses: text(of: "\(folder)/mime/subclasses"))
            database.add(aliases: text(of: "\(folder)/mime/aliases"))
            database.magic.add(FileBytes.read("\(folder)/mime/magic", atMost: longestFile) ?? [])
        }
        database.sort()
        database.add(globs: common)
        return database
    }

    /// Weightier ones first, then longer ones, then those of the user.
    private mutating func sort() {
        globs = globs.enumerated().sorted { one, other in
            if one.element.weight != other.element.weight {
                return one.element.weight > other.element.weight
            }
            let counts = (one.element.glob.utf8.count, other.element.glob.utf8.count)
            return counts.0 != counts.1 ? counts.0 > counts.1 : one.offset < other.offset
        }.map(\.element)
    }

    /// A file's text; empty where there is none, or none that could be meant.
    private static func text(of path: String) -> String {
        FileBytes.read(path, atMost: longestFile).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    private static let common = """
        50:text/plain:*.txt
        50:text/markdown:*.md
        50:text/html:*.html
        50:text/css:*.css
        50:text/csv:*.csv
        50:application/json:*.json
        50:application/pdf:*.pdf
        50:application/zip:*.zip
        50:application/gzip:*.gz
        50:application/x-compressed-tar:*.tar.gz
        50:application/x-tar:*.tar
        50:image/jpeg:*.jpg
        50:image/jpeg:*.jpeg
        50:image/png:*.png
        50:image/gif:*.gif
        50:image/webp:*.webp
        50:image/svg+xml:*.svg
        50:image/heif:*.heic
        50:audio/mpeg:*.mp3
        50:audio/flac:*.flac
        50:video/mp4:*.mp4
        50:video/x-matroska:*.mkv
        50:video/webm:*.webm
        50:application/vnd.oasis.opendocument.text:*.odt
        50:application/vnd.oasis.opendocument.spreadsheet:*.ods
        50:application/vnd.openxmlformats-officedocument.wordprocessingml.document:*.docx
        50:application/vnd.openxmlformats-officedocument.spreadsheetml.sheet:*.xlsx
        """
}

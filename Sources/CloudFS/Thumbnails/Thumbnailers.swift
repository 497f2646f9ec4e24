import Foundation
import Glibc

/// The programs of the desktop that make pictures of files, by type.
///
/// - Source: thumbnailer files of gnome-desktop: `thumbnailers/*.thumbnailer` in data folders.
struct Thumbnailers: Sendable {
    /// One program, as its file describes it.
    struct Program: Sendable, Equatable {
        /// Its words; `%i`, `%u`, `%o` and `%s` stand for input, its URI, output and size.
        var words: [String]
        var types: Set<String>
    }

    /// Types of pictures that `vipsthumbnail` reads and that are not called `image/…`.
    private static let vipsTypes: Set<String> = ["application/pdf"]
    private static let mostFiles = 200
    private static let mostBytes = 64 << 10

    let hasVips: Bool
    private let programs: [Program]

    init(hasVips: Bool, programs: [Program]) {
        self.hasVips = hasVips
        self.programs = programs
    }

    /// What is installed on this machine.
    static func installed() -> Thumbnailers {
        Thumbnailers(
            hasVips: access("/usr/bin/vipsthumbnail", X_OK) == 0,
            programs: DataFolders.all().flatMap { programs(in: $0 + "/thumbnailers") }
        )
    }

    /// How pictures of a type are made, the best way first.
    func ways(for type: String) -> [ThumbnailMaker.Way] {
        var ways: [ThumbnailMaker.Way] = []
        guard hasVips else { return [] }
        if CameraTypes.raw.contains(type) {
            // Vips takes the first picture that it understands, which may be any.
            ways.append(.embedded)
        } else if type.hasPrefix("image/") || Self.vipsTypes.contains(type) {
            ways.append(.vips)
        }
        // What others make is brought into form by vips too.
        if let program = programs.first(where: { $0.types.contains(type) }) {
            ways.append(.program(program.words))
        }
        return ways
    }

    // MARK: - Reading thumbnailer files

    static func programs(in folder: String) -> [Program] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: folder)
        } catch {
            // Most servers have none.
            return []
        }
        return names.filter { $0.hasSuffix(".thumbnailer") }.sorted().prefix(mostFiles)
            .compactMap { name in
                text("\(folder)/\(name)").flatMap { program($0) { access($0, X_OK) == 0 } }
            }
    }

    private static func text(_ path: String) -> String? {
        FileBytes.read(path, atMost: mostBytes).map { String(decoding: $0, as: UTF8.self) }
    }

    /// - Returns: `nil` for what is no such file, or whose program is not there.
    static func program(_ text: String, isProgram: (String) -> Bool) -> Program? {
        var values: [Substring: String] = [:]
        var isInside = false
        for line in text.split(whereSeparator: \.isNewline) {
            if line.hasPrefix("[") {
                isInside = line == "[Thumbnailer Entry]"
            } else if isInside, !line.hasPrefix("#"), let equals = line.firstIndex(of: "=") {
                values[line[..<equals]] = String(line[line.index(after: equals)...])
            }
        }
        guard let command = values["Exec"], let types = values["MimeType"] else { return nil }
        if let program = values["TryExec"], !isInstalled(program, isProgram) { return nil }
        let words = command.split(separator: " ").map(String.init)
        // The sandbox has programs below /usr only; words with blanks are nowhere in use.
        guard !command.contains(where: { "\"'\\".contains($0) }),
            let program = words.first, isInstalled(program, isProgram),
            !program.hasPrefix("/") || program.hasPrefix("/usr/") || program.hasPrefix("/bin/"),
            words.contains("%i") || words.contains("%u"), words.contains("%o")
        else { return nil }
        return Program(
            words: words,
            types: Set(types.split(separator: ";").map(String.init))
        )
    }

    private static func isInstalled(_ program: String, _ isProgram: (String) -> Bool) -> Bool {
        program.hasPrefix("/")
            ? isProgram(program)
            : ["/usr/bin/", "/bin/", "/usr/local/bin/"].contains { isProgram($0 + program) }
    }
}

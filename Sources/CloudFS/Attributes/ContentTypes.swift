import Glibc

/// MIME types by file name, from the desktop's shared database.
///
/// - Source: shared-mime-info specification, "globs2".
struct ContentTypes: Sendable {
    private let byExtension: [String: String]
    private let byName: [String: String]

    /// Types by the extensions and names of `globs2` files, the weightiest first.
    init(globs: String) {
        var byExtension: [String: String] = [:]
        var byName: [String: String] = [:]
        for line in globs.split(separator: "\n") where !line.hasPrefix("#") {
            let parts = line.split(separator: ":", maxSplits: 3)
            guard parts.count >= 3 else { continue }
            let type = String(parts[1])
            let glob = parts[2].lowercased()
            if glob.hasPrefix("*."), !glob.dropFirst(2).contains(where: { "*?[".contains($0) }) {
                let key = String(glob.dropFirst(2))
                byExtension[key] = byExtension[key] ?? type
            } else if !glob.contains(where: { "*?[".contains($0) }) {
                byName[glob] = byName[glob] ?? type
            }
        }
        self.byExtension = byExtension
        self.byName = byName
    }

    /// The types that this machine's desktop knows; a few common ones where it has none.
    static func installed(
        reading path: String = "/usr/share/mime/globs2"
    ) -> ContentTypes {
        var text = ""
        if let file = fopen(path, "re") {
            defer { fclose(file) }
            var buffer = [UInt8](repeating: 0, count: 1 << 20)
            let count = fread(&buffer, 1, buffer.count, file)
            text = String(decoding: buffer[..<count], as: UTF8.self)
        }
        return ContentTypes(globs: text + "\n" + common)
    }

    func type(of kind: ItemKind, name: String) -> String {
        switch kind {
        case .folder: return "inode/directory"
        case .symlink: return "inode/symlink"
        case .fifo: return "inode/fifo"
        case .socket: return "inode/socket"
        case .file: break
        }
        let name = name.lowercased()
        if let type = byName[name] { return type }
        // The longest extension wins: `x.tar.gz` is a compressed archive, not just compressed.
        var rest = name[...]
        while let dot = rest.firstIndex(of: ".") {
            rest = rest[rest.index(after: dot)...]
            if let type = byExtension[String(rest)] { return type }
        }
        return "application/octet-stream"
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

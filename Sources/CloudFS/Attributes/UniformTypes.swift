/// Uniform type identifiers: what Apple's documents call types, and which conforms to which.
///
/// - Source: Apple, "Uniform Type Identifiers", "System-declared uniform type identifiers".
struct UniformTypes: Sendable {
    private var parents: [String: [String]] = [:]
    private var byMIME: [String: String] = [:]
    private var mimes: [String: String] = [:]
    /// As they are written, by their lowercase forms.
    private var spelling: [String: String] = [:]

    init() {
        for line in Self.hierarchy.split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            parents[words[0]] = Array(words.dropFirst())
            spelling[words[0].lowercased()] = words[0]
        }
        for line in Self.mimeTypes.split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            for mime in words.dropFirst() { byMIME[mime] = words[0] }
            mimes[words[0]] = words[1]
        }
    }

    mutating func add(_ identifier: String, mime: String, conforms: [String]) {
        let known = spelling[identifier.lowercased()] ?? identifier
        spelling[known.lowercased()] = known
        parents[known, default: []] += conforms.map { spelling[$0.lowercased()] ?? $0 }
        byMIME[mime] = known
        mimes[known] = mimes[known] ?? mime
    }

    func mime(of identifier: String) -> String? {
        known(identifier).flatMap { mimes[$0] }
    }

    /// The identifier that a word means, as it is written.
    func known(_ word: String) -> String? {
        let word = word.lowercased()
        return spelling[Self.words[word] ?? word]
    }

    /// The identifiers of a MIME type and of all that it is a kind of, the nearest first.
    func tree(of lineage: [String]) -> [String] {
        var found: [String] = []
        func add(_ identifier: String) {
            if !found.contains(identifier) { found.append(identifier) }
        }
        // Further up a document is what it is packed as: a text of an office program no archive.
        lineage.first { byMIME[$0] != nil }.flatMap { byMIME[$0] }.map(add)
        if let family = lineage.first?.prefix(while: { $0 != "/" }) {
            Self.families[String(family)].map(add)
        }
        if lineage.first?.hasPrefix("inode/") == false { add("public.data") }
        var next = 0
        // Circles end, as each comes once.
        while next < found.count, found.count < 256 {
            for parent in parents[found[next]] ?? [] { add(parent) }
            next += 1
        }
        return inOrder(found)
    }

    /// Each before what it conforms to; else as they were found.
    private func inOrder(_ found: [String]) -> [String] {
        var left = found
        var ordered: [String] = []
        while !left.isEmpty {
            let next = left.firstIndex { candidate in
                !left.contains { $0 != candidate && (parents[$0] ?? []).contains(candidate) }
            }
            ordered.append(left.remove(at: next ?? 0))
        }
        return ordered
    }

    /// What people say.
    private static let words = [
        "image": "public.image", "audio": "public.audio", "music": "public.audio",
        "video": "public.movie", "movie": "public.movie", "text": "public.text",
        "folder": "public.folder", "archive": "public.archive", "pdf": "com.adobe.pdf",
        "document": "public.composite-content", "spreadsheet": "public.spreadsheet",
        "presentation": "public.presentation", "font": "public.font", "code": "public.source-code",
        "email": "public.email-message", "contact": "public.contact",
        "link": "public.symlink", "package": "com.apple.package",
    ]

    private static let families = [
        "image": "public.image", "audio": "public.audio", "video": "public.movie",
        "text": "public.text", "font": "public.font", "model": "public.3d-content",
        "message": "public.message",
    ]

    private static let hierarchy = """
        public.item
        public.content
        public.data public.item
        public.directory public.item
        public.folder public.directory
        public.symlink public.item
        com.apple.package public.directory
        public.composite-content public.content
        public.message public.data public.content
        public.contact public.data public.content
        public.archive public.data
        public.text public.data public.content
        public.plain-text public.text
        public.utf8-plain-text public.plain-text
        public.rtf public.text public.composite-content
        public.html public.text
        public.xhtml public.html public.xml
        public.xml public.text
        public.json public.text
        public.yaml public.text
        public.css public.text
        public.script public.source-code
        public.shell-script public.script
        public.python-script public.script
        public.ruby-script public.script
        public.perl-script public.script
        public.php-script public.script
        public.source-code public.plain-text
        public.c-source public.source-code
        public.c-header public.source-code
        public.c-plus-plus-source public.source-code
        public.swift-source public.source-code
        com.netscape.javascript-source public.source-code public.executable
        com.sun.java-source public.source-code
        public.delimited-values-text public.text
        public.comma-separated-values-text public.delimited-values-text
        public.tab-separated-values-text public.delimited-values-text
        net.daringfireball.markdown public.plain-text
        public.log public.plain-text
        public.vcard public.text public.contact
        com.apple.ical.ics public.text public.calendar-event
        public.calendar-event public.data public.content
        public.email-message public.message
        public.executable public.data
        public.font public.data
        public.truetype-font public.font
        public.opentype-font public.font
        public.3d-content public.content
        public.database public.data
        public.disk-image public.archive
        public.iso-image public.disk-image
        public.image public.data public.content
        public.jpeg public.image
        public.png public.image
        public.tiff public.image
        com.compuserve.gif public.image
        com.microsoft.bmp public.image
        com.microsoft.ico public.image
        public.heif-standard public.image
        public.heic public.heif-standard
        public.avif public.heif-standard
        public.svg-image public.image public.xml
        org.webmproject.webp public.image
        public.jpeg-2000 public.image
        public.camera-raw-image public.image
        com.adobe.raw-image public.camera-raw-image
        com.canon.cr2-raw-image public.camera-raw-image
        com.nikon.raw-image public.camera-raw-image
        com.sony.arw-raw-image public.camera-raw-image
        com.adobe.photoshop-image public.image
        public.xcf-image public.image
        public.audiovisual-content public.data public.content
        public.audio public.audiovisual-content
        public.movie public.audiovisual-content
        public.video public.movie
        public.mp3 public.audio
        public.mpeg-4-audio public.audio
        com.microsoft.waveform-audio public.audio
        public.aiff-audio public.audio
        org.xiph.flac public.audio
        org.xiph.ogg-audio public.audio
        public.midi-audio public.audio
        public.m3u-playlist public.text
        public.mpeg-4 public.movie
        com.apple.quicktime-movie public.movie
        public.avi public.movie
        public.mpeg public.movie
        org.matroska.mkv public.movie
        org.webmproject.webm public.movie
        com.adobe.pdf public.data public.composite-content
        com.adobe.postscript public.data
        org.idpf.epub-container public.data public.composite-content
        public.presentation public.composite-content
        public.spreadsheet public.content
        com.microsoft.word.doc public.data public.composite-content
        org.openxmlformats.wordprocessingml.document public.data public.composite-content
        com.microsoft.excel.xls public.data public.spreadsheet
        org.openxmlformats.spreadsheetml.sheet public.data public.spreadsheet
        com.microsoft.powerpoint.ppt public.data public.presentation
        org.openxmlformats.presentationml.presentation public.data public.presentation
        org.oasis-open.opendocument.text public.data public.composite-content
        org.oasis-open.opendocument.spreadsheet public.data public.spreadsheet
        org.oasis-open.opendocument.presentation public.data public.presentation
        org.oasis-open.opendocument.graphics public.data public.composite-content
        public.zip-archive public.archive
        org.gnu.gnu-zip-archive public.archive
        public.tar-archive public.archive
        org.gnu.gnu-zip-tar-archive org.gnu.gnu-zip-archive public.tar-archive
        public.bzip2-archive public.archive
        org.tukaani.xz-archive public.archive
        public.zstd-archive public.archive
        org.7-zip.7-zip-archive public.archive
        com.rarlab.rar-archive public.archive
        com.sun.java-archive public.zip-archive
        """

    private static let mimeTypes = """
        public.folder inode/directory
        public.symlink inode/symlink
        public.plain-text text/plain
        public.rtf application/rtf text/rtf
        public.html text/html
        public.xhtml application/xhtml+xml
        public.xml application/xml text/xml
        public.json application/json
        public.yaml application/yaml application/x-yaml
        public.css text/css
        public.shell-script application/x-shellscript
        public.python-script text/x-python text/x-python3
        public.ruby-script application/x-ruby
        public.perl-script application/x-perl
        public.php-script application/x-php
        public.c-source text/x-csrc
        public.c-header text/x-chdr text/x-c++hdr
        public.c-plus-plus-source text/x-c++src
        public.swift-source text/x-swift
        com.netscape.javascript-source text/javascript application/javascript
        com.sun.java-source text/x-java
        public.comma-separated-values-text text/csv
        public.tab-separated-values-text text/tab-separated-values
        net.daringfireball.markdown text/markdown
        public.log text/x-log
        public.vcard text/vcard
        com.apple.ical.ics text/calendar
        public.email-message message/rfc822
        public.executable application/x-executable application/x-ms-dos-executable
        public.truetype-font font/ttf
        public.opentype-font font/otf
        public.database application/vnd.sqlite3
        public.disk-image application/x-raw-disk-image
        public.iso-image application/x-cd-image
        public.jpeg image/jpeg
        public.png image/png
        public.tiff image/tiff
        com.compuserve.gif image/gif
        com.microsoft.bmp image/bmp
        com.microsoft.ico image/vnd.microsoft.icon
        public.heif-standard image/heif
        public.heic image/heic
        public.avif image/avif
        public.svg-image image/svg+xml
        org.webmproject.webp image/webp
        public.jpeg-2000 image/jp2
        public.camera-raw-image image/x-dcraw
        com.adobe.raw-image image/x-adobe-dng
        com.canon.cr2-raw-image image/x-canon-cr2
        com.nikon.raw-image image/x-nikon-nef
        com.sony.arw-raw-image image/x-sony-arw
        com.adobe.photoshop-image image/vnd.adobe.photoshop
        public.xcf-image image/x-xcf
        public.mp3 audio/mpeg
        public.mpeg-4-audio audio/mp4
        com.microsoft.waveform-audio audio/x-wav
        public.aiff-audio audio/x-aiff
        org.xiph.flac audio/flac
        org.xiph.ogg-audio audio/ogg audio/x-vorbis+ogg
        public.midi-audio audio/midi
        public.m3u-playlist audio/x-mpegurl
        public.mpeg-4 video/mp4
        com.apple.quicktime-movie video/quicktime
        public.avi video/x-msvideo
        public.mpeg video/mpeg
        org.matroska.mkv video/x-matroska
        org.webmproject.webm video/webm
        com.adobe.pdf application/pdf
        com.adobe.postscript application/postscript
        org.idpf.epub-container application/epub+zip
        com.microsoft.word.doc application/msword
        org.openxmlformats.wordprocessingml.document \
        application/vnd.openxmlformats-officedocument.wordprocessingml.document
        com.microsoft.excel.xls application/vnd.ms-excel
        org.openxmlformats.spreadsheetml.sheet \
        application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
        com.microsoft.powerpoint.ppt application/vnd.ms-powerpoint
        org.openxmlformats.presentationml.presentation \
        application/vnd.openxmlformats-officedocument.presentationml.presentation
        org.oasis-open.opendocument.text application/vnd.oasis.opendocument.text
        org.oasis-open.opendocument.spreadsheet application/vnd.oasis.opendocument.spreadsheet
        org.oasis-open.opendocument.presentation application/vnd.oasis.opendocument.presentation
        org.oasis-open.opendocument.graphics application/vnd.oasis.opendocument.graphics
        public.zip-archive application/zip
        org.gnu.gnu-zip-archive application/gzip
        public.tar-archive application/x-tar
        org.gnu.gnu-zip-tar-archive application/x-compressed-tar
        public.bzip2-archive application/x-bzip
        org.tukaani.xz-archive application/x-xz
        public.zstd-archive application/zstd
        org.7-zip.7-zip-archive application/x-7z-compressed
        com.rarlab.rar-archive application/vnd.rar
        com.sun.java-archive application/x-java-archive
        """
}

import CloudFSClient
import Foundation
import Glibc

/// A notebook for the terminal: what a program needs to work with others on one document.
///
///     cloudfs-notes FILE            follows the notebook, and adds each line of standard input
///     cloudfs-notes --new FILE      makes it first
///     cloudfs-notes --show FILE     prints it
///     cloudfs-notes --merge FILE    ends a conflict: every note of every version is kept
///     cloudfs-notes --list FOLDER   tells which notebooks come (+), change (~) and go (-)
///
/// Lines are saved by themselves after two seconds, when somebody else is about to read the file,
/// and at the end of input. What others write, here or on another device, is printed.
///
/// A name that ends in `.notebook` is that of a package: a folder with the notes and a picture of
/// them, of which other devices get all or nothing.
@main
struct Notes {
    static func main() async {
        var words = Array(CommandLine.arguments.dropFirst())
        let isNew = words.first == "--new"
        let isShown = words.first == "--show"
        let isMerged = words.first == "--merge"
        let isListed = words.first == "--list"
        if isNew || isShown || isMerged || isListed { words.removeFirst() }
        guard words.count == 1, !words[0].hasPrefix("-") else {
            return fail("usage: cloudfs-notes [--new | --show | --merge | --list] FILE", status: 64)
        }
        let url = URL(filePath: words[0])
        do {
            if isShown { return try await show(url) }
            if isMerged { return try await merge(url) }
            if isListed { return try await list(url) }
            try await keep(Notebook(url), isNew: isNew)
        } catch {
            fail("\(error)", status: 1)
        }
    }

    /// Reads by coordinated access: whoever has the notebook open saves it first.
    private static func show(_ url: URL) async throws {
        let text = try await FileCoordinator().coordinate(readingItemAt: url) { url in
            let notes = url.pathExtension == "notebook" ? url.appending(path: "notes.txt") : url
            return try String(contentsOf: notes, encoding: .utf8)
        }
        print(text, terminator: "")
    }

    /// Adds what only other versions hold, and removes those.
    private static func merge(_ url: URL) async throws {
        let current = try await FileVersion.currentVersionOfItem(at: url)
        let document = NoteList.document(at: current.url)
        try await document.open()
        for version in try await FileVersion.unresolvedConflictVersionsOfItem(at: url) {
            let other = NoteList.document(at: version.url)
            try await other.open()
            let notes = await other.content.notes
            try await other.close()
            try await document.edit { content in
                content.notes += notes.filter { !content.notes.contains($0) }
            }
            say("merged what \(version.localizedNameOfSavingComputer ?? "another device") wrote")
        }
        try await document.close()
        try await FileVersion.removeOtherVersionsOfItem(at: current.url)
    }

    /// Follows what is in a folder, until the program is ended.
    private static func list(_ folder: URL) async throws {
        let query = MetadataQuery(searchScope: folder) { $0.kind == .file }
        for try await update in query.updates() {
            for item in update.removed { say("- \(item.url.path)") }
            for item in update.added { say("+ \(item.url.path)") }
            for item in update.changed { say("~ \(item.url.path)") }
            say("\(query.results.count) in all")
        }
    }

    private static func keep(_ notebook: Notebook, isNew: Bool) async throws {
        let document = notebook.document
        if isNew { try await document.create() } else { try await document.open() }
        let listening = Task {
            for await state in document.news { await notebook.tell(state) }
        }
        defer { listening.cancel() }
        await notebook.tellNews()
        for await line in lines() {
            do {
                try await notebook.add(line)
            } catch {
                say("not added: \(error)")
            }
        }
        try await document.close()
    }

    /// The lines of standard input, read on a thread of their own.
    private static func lines() -> AsyncStream<String> {
        AsyncStream { continuation in
            Thread.detachNewThread {
                while let line = readLine() { continuation.yield(line) }
                continuation.finish()
            }
        }
    }

    static func say(_ text: String) {
        // At once, unlike `print`: whoever reads it may be another program.
        FileHandle.standardOutput.write(Data("\(text)\n".utf8))
    }

    private static func fail(_ text: String, status: Int32) {
        FileHandle.standardError.write(Data("cloudfs-notes: \(text)\n".utf8))
        exit(status)
    }
}

/// Lines, one note each.
struct NoteList: PackageContent {
    var notes: [String] = []

    init() {}

    init(contents: Data) throws {
        notes = String(decoding: contents, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    init(files: [String: Data]) throws {
        try self.init(contents: files["notes.txt"] ?? Data())
    }

    func files() -> [String: Data] {
        var files = ["notes.txt": contents()]
        files["pictures/page.png"] = thumbnail()
        return files
    }

    static func document(at url: URL) -> Document<NoteList> {
        url.pathExtension == "notebook" ? Document(packageURL: url) : Document(fileURL: url)
    }

    func contents() -> Data { Data(notes.map { $0 + "\n" }.joined().utf8) }

    /// A page with a line for each of the last notes, as long as the note.
    func thumbnail() -> Data? {
        var page = GrayPicture(width: 128, height: 128, shade: 0xff)
        for (row, note) in notes.suffix(20).enumerated() {
            page.fill(x: 8, y: 6 + 6 * row, width: min(112, 2 * note.count), height: 3, shade: 0x40)
        }
        return page.png
    }

    func attributes() -> [String: Data] {
        ["user.xdg.comment": Data("\(notes.count) notes".utf8)]
    }
}

/// One open notebook, and what of it was printed.
actor Notebook {
    nonisolated let document: Document<NoteList>
    private var printed: [String] = []
    private var isInConflict = false

    init(_ url: URL) {
        document = NoteList.document(at: url)
    }

    func add(_ line: String) async throws {
        try await document.edit { $0.notes.append(line) }
        printed.append(line)
    }

    /// Prints the notes that were not printed yet.
    func tellNews() async {
        let notes = await document.content.notes
        for note in notes where !printed.contains(note) { Notes.say(note) }
        printed = notes
    }

    func tell(_ state: DocumentState) async {
        if state.contains(.savingError) { Notes.say("(not saved)") }
        if state.contains(.inConflict) != isInConflict {
            isInConflict.toggle()
            Notes.say(isInConflict ? "(others changed it, too)" : "(that is settled)")
        }
        await tellNews()
    }
}

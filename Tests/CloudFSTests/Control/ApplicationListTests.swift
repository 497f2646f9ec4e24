import CloudFSTestSupport
import Testing

@testable import CloudFSClient

/// Which applications open a file, and with what words.
@Suite struct ApplicationListTests {
    private static func entry(_ text: String) -> DesktopEntry? {
        let whole = "[Desktop Entry]\nType=Application\nName=Editor\n" + text
        guard case .entry(let entry) = DesktopEntry.read(whole, id: "editor", path: "/e.desktop")
        else { return nil }
        return entry
    }

    @Test(arguments: [
        ("editor %f", ["editor", "/d/a b.txt"]),
        ("editor", ["editor", "/d/a b.txt"]),
        ("editor --url=%u", ["editor", "--url=file:///d/a%20b.txt"]),
        ("editor %F --new", ["editor", "/d/a b.txt", "--new"]),
        ("\"my editor\" %U", ["my editor", "file:///d/a%20b.txt"]),
        ("sh -c \"echo \\\\$1; \\\\`id\\\\`\" %f", ["sh", "-c", "echo $1; `id`", "/d/a b.txt"]),
        ("editor %i %c %k %f", ["editor", "--icon", "pen", "Editor", "/e.desktop", "/d/a b.txt"]),
        ("editor 100%% %f", ["editor", "100%", "/d/a b.txt"]),
        ("editor %d %n %m %f", ["editor", "/d/a b.txt"]),
        ("editor \"\" %f", ["editor", "", "/d/a b.txt"]),
        ("editor \"%f\"", ["editor", "%f", "/d/a b.txt"]),
        ("editor ; rm -rf $HOME", ["editor", ";", "rm", "-rf", "$HOME", "/d/a b.txt"]),
        ("editor\\sone %f", ["editor", "one", "/d/a b.txt"]),
    ])
    func `a command is words, and no shell's`(exec: String, words: [String]) throws {
        let entry = try #require(Self.entry("Icon=pen\nExec=\(exec)\n"))
        #expect(entry.command(opening: "/d/a b.txt") == words)
    }

    @Test(arguments: [
        ("", DesktopEntry.Role.editor), ("Graphics;2DGraphics;RasterGraphics;GTK;", .editor),
        ("Graphics;2DGraphics;RasterGraphics;Viewer;", .viewer), ("AudioVideo;Player;", .viewer),
        ("Network;WebBrowser;", .viewer), ("Utility;TextEditor;Viewer;", .editor),
    ])
    func `a role is told by categories`(categories: String, role: DesktopEntry.Role) throws {
        #expect(try #require(Self.entry("Exec=e\nCategories=\(categories)\n")).role == role)
    }

    @Test(arguments: ["", "%f", "editor %", "editor %z", "editor \"open", "editor \"\\\\x\""])
    func `a command that breaks the rules is none`(exec: String) {
        #expect(Self.entry("Exec=\(exec)\n") == nil)
    }

    @Test func `no text of random pieces does harm`() {
        var random = SeededRandom(seed: 5)
        let pieces = [
            "[", "]", "Desktop Entry", "\n", "=", "Exec", "Name", ";", "\\", "\"", "%", "f", "é",
            "\0",
        ]
        for _ in 0..<3_000 {
            let text = (0..<20).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            _ = DesktopEntry.read(text, id: "x", path: "/x")
            guard let entry = Self.entry("Exec=e \(text)\n") else { continue }
            #expect(entry.command(opening: "/f").first?.hasPrefix("e") == true)
        }
    }

    private static func write(_ folder: TemporaryDirectory, _ path: String, _ text: String) throws {
        try folder.write(Array(text.utf8), to: path)
    }

    private static func application(_ name: String, _ types: String, _ more: String = "") -> String
    {
        """
        [Desktop Entry]
        Type=Application
        Name=\(name)
        Exec=\(name) %f
        MimeType=\(types)
        \(more)
        """
    }

    private func list(_ folder: TemporaryDirectory) -> ApplicationList {
        ApplicationList(
            data: [folder.path("user"), folder.path("system"), folder.path("none")],
            settings: [folder.path("config"), folder.path("etc")],
            programs: ["/usr/bin", "/bin"]
        )
    }

    @Test func `kinds of types count, the nearest first, and the user decides`() throws {
        let folder = try TemporaryDirectory()
        let system = "system/applications"
        try Self.write(folder, "\(system)/texts.desktop", Self.application("Texts", "text/plain;"))
        try Self.write(
            folder,
            "\(system)/marks.desktop",
            Self.application("Marks", "text/x-markdown;")
        )
        try Self.write(folder, "\(system)/kde/pics.desktop", Self.application("Pics", "image/png"))
        try Self.write(folder, "\(system)/old.desktop", Self.application("Old", "text/markdown"))
        try Self.write(folder, "\(system)/gone.desktop", Self.application("Gone", "text/plain"))
        try Self.write(
            folder,
            "\(system)/lost.desktop",
            Self.application("Lost", "text/plain", "TryExec=/no/such\n")
        )
        try Self.write(folder, "\(system)/broken.desktop", "no entry at all")
        try Self.write(folder, "user/applications/gone.desktop", "[Desktop Entry]\nHidden=true\n")
        try Self.write(
            folder,
            "user/applications/texts.desktop",
            Self.application("My texts", "text/plain")
        )
        try Self.write(
            folder,
            "system/mime/subclasses",
            "text/markdown text/plain\na/a a/b\na/b a/a\n"
        )
        try Self.write(folder, "system/mime/aliases", "text/x-markdown text/markdown\n")
        try Self.write(
            folder,
            "config/mimeapps.list",
            """
            [Added Associations]
            text/markdown=kde-pics.desktop;none.desktop;
            [Removed Associations]
            text/markdown=old.desktop;
            """
        )
        let ids = list(folder).applications(for: "text/markdown").map(\.id)
        #expect(ids == ["kde-pics", "marks", "texts"])
        #expect(list(folder).application(named: "texts.desktop")?.name == "My texts")
        #expect(list(folder).application(named: "PICS")?.id == "kde-pics")
        #expect(list(folder).application(named: "gone") == nil)
        #expect(list(folder).applications(for: "a/a").isEmpty)
        try Self.write(
            folder,
            "config/mimeapps.list",
            "[Default Applications]\ntext/markdown=none.desktop;texts.desktop\n"
        )
        #expect(list(folder).applications(for: "text/markdown").first?.id == "texts")
    }
}

import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Types of files by their names, and what they are kinds of.
@Suite struct ContentTypesTests {
    private static let globs = """
        # a comment
        50:text/plain:*.txt
        50:text/markdown:*.md
        50:image/jpeg:*.jpg
        50:image/png:*.png
        50:image/x-canon-cr2:*.cr2
        50:application/gzip:*.gz
        50:application/x-compressed-tar:*.tar.gz
        50:application/zip:*.zip
        50:application/vnd.oasis.opendocument.text:*.odt
        50:text/x-c++src:*.C:cs
        50:text/x-csrc:*.c:cs
        50:text/x-makefile:makefile
        50:text/troff:*.[1-9]
        50:application/x-sharedlib:*.so.[0-9]*
        10:text/x-readme:readme*
        50:broken
        x:image/png:*.broken
        """
    private static let subclasses = """
        text/markdown text/plain
        text/x-csrc text/plain
        image/x-canon-cr2 image/x-dcraw
        image/x-canon-cr2 image/tiff
        application/x-compressed-tar application/gzip
        application/vnd.oasis.opendocument.text application/zip
        circle/a circle/b
        circle/b circle/a
        """

    private static func types(_ declared: [DeclaredType] = []) -> ContentTypes {
        var database = MIMEDatabase()
        database.add(globs: globs)
        database.add(subclasses: subclasses)
        database.add(aliases: "image/pjpeg image/jpeg\ncircle/x circle/x\n")
        return ContentTypes(database, declaring: declared)
    }

    @Test(arguments: [
        ("a.jpg", "image/jpeg"), ("A.JPG", "image/jpeg"),
        ("a.tar.gz", "application/x-compressed-tar"),
        ("a.gz", "application/gzip"), ("a.c", "text/x-csrc"), ("a.C", "text/x-c++src"),
        ("Makefile", "text/x-makefile"), ("tool.7", "text/troff"),
        ("lib.so.6", "application/x-sharedlib"), ("README.first", "text/x-readme"),
        ("a", "application/octet-stream"), ("a.broken", "application/octet-stream"),
        (".jpg", "image/jpeg"), ("", "application/octet-stream"),
    ])
    func `a name tells a type`(name: String, type: String) {
        #expect(Self.types().type(of: .file, name: name) == type)
    }

    @Test func `a tree begins with the nearest identifier`() {
        let types = Self.types()
        #expect(
            types.tree(of: "image/jpeg")
                == ["public.jpeg", "public.image", "public.data", "public.content", "public.item"]
        )
        #expect(types.tree(of: "image/pjpeg").first == "public.jpeg")
        #expect(types.tree(of: "image/x-canon-cr2").first == "com.canon.cr2-raw-image")
        #expect(types.tree(of: "image/x-never-heard").first == "public.image")
        #expect(types.tree(of: "text/x-csrc").contains("public.source-code"))
        #expect(
            types.tree(of: "inode/directory") == [
                "public.folder", "public.directory", "public.item",
            ]
        )
        #expect(types.tree(of: "application/octet-stream") == ["public.data", "public.item"])
        let odt = types.tree(of: "application/vnd.oasis.opendocument.text")
        #expect(odt.first == "org.oasis-open.opendocument.text")
        #expect(!odt.contains("public.archive"))
        #expect(types.mime(of: "public.JPEG") == "image/jpeg")
    }

    @Test(arguments: [
        ("public.image", "a.cr2", true), ("image", "a.png", true), ("image", "a.txt", false),
        ("image/*", "a.jpg", true), ("image/tiff", "a.cr2", true), ("image/pjpeg", "a.jpg", true),
        ("text/plain", "a.md", true), ("public.text", "tool.3", true),
        ("application/zip", "a.odt", true), ("archive", "a.odt", false),
        ("archive", "a.tar.gz", true),
        ("public.data", "anything", true), ("folder", "a.jpg", false),
    ])
    func `a file is of a type or of a kind of it`(type: String, name: String, expected: Bool) throws
    {
        let match = try #require(Self.types().match(type))
        #expect(match.matches(.file, name) == expected)
        // Whatever is looked for first must hold for all that is found.
        if expected, let needles = match.needles {
            let indexed = FoldedName(name).indexed
            #expect(needles.contains { indexed.contains($0.text) })
        }
    }

    @Test func `folders are found by their type`() throws {
        let match = try #require(Self.types().match("folder"))
        #expect(match.kinds == [.folder] && match.needles == [])
        #expect(match.matches(.folder, "a.jpg"))
        #expect(Self.types().match("inode/directory")?.kinds == [.folder])
    }

    @Test func `names that no type has are refused`() {
        for name in ["nonsense", "", "a/b/c", "image/", "public", "im age/png"] {
            #expect(Self.types().match(name) == nil, "\(name)")
        }
    }

    @Test func `declared types go before the desktop's`() throws {
        let types = Self.types([
            DeclaredType(
                identifier: "org.example.note",
                extensions: ["note", "TXT"],
                conforms: ["public.plain-text"]
            ),
            DeclaredType(
                identifier: "org.example.picture",
                extensions: ["pic"],
                mime: "image/x-pic",
                conforms: ["image/png"]
            ),
        ])
        #expect(types.type(of: .file, name: "a.note") == "application/x-org.example.note")
        #expect(types.type(of: .file, name: "a.txt") == "application/x-org.example.note")
        #expect(
            types.tree(of: "application/x-org.example.note").prefix(3)
                == ["org.example.note", "public.plain-text", "public.text"]
        )
        #expect(types.tree(of: "image/x-pic").prefix(2) == ["org.example.picture", "public.png"])
        #expect(try #require(types.match("org.example.NOTE")).matches(.file, "b.note"))
        #expect(try #require(types.match("text")).matches(.file, "b.note"))
        #expect(try #require(types.match("image/png")).matches(.file, "b.pic"))
    }

    @Test func `circles of kinship end`() {
        let types = Self.types([
            DeclaredType(identifier: "a.one", conforms: ["a.two"]),
            DeclaredType(identifier: "a.two", conforms: ["a.one"]),
        ])
        #expect(types.lineage(of: "circle/a").prefix(2) == ["circle/a", "circle/b"])
        #expect(types.tree(of: "application/x-a.one").contains("a.two"))
    }

    @Test func `a user's database goes before the system's`() throws {
        let folder = try TemporaryDirectory()
        try folder.write(
            Array("50:image/x-own:*.own\n50:image/x-user:*.jpg\n".utf8),
            to: "user/mime/globs2"
        )
        try folder.write(Array("50:image/jpeg:*.jpg\n".utf8), to: "system/mime/globs2")
        try folder.write(Array("image/x-own image/png\n".utf8), to: "user/mime/subclasses")
        let database = MIMEDatabase.installed(folders: [
            folder.path("user"), folder.path("system"), folder.path("none"),
        ])
        let types = ContentTypes(database)
        #expect(types.type(of: .file, name: "a.own") == "image/x-own")
        #expect(types.type(of: .file, name: "a.jpg") == "image/x-user")
        #expect(types.lineage(of: "image/x-own").contains("image/png"))
        // What is known without any database.
        #expect(types.type(of: .file, name: "a.pdf") == "application/pdf")
    }
}

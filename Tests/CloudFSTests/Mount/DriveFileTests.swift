import Testing

@testable import CloudFS

@Suite struct DriveFileTests {
    private static func parse(_ text: String) throws -> DriveFile {
        try DriveFile(parsing: text, path: "drive.toml")
    }

    @Test func `containers, mountpoint, options and settings are read`() throws {
        let file = try Self.parse(
            """
            mountpoint = "/mnt/x"
            options = ["allow_other", "noexec"]
            cache-size = "20GiB"  # a comment
            ignore = ["a", "b"]
            [[container]]
            name = "Photos"
            url = "local:/srv/photos"
            """
        )
        #expect(file.mountpoint == "/mnt/x")
        #expect(file.optionLists == ["allow_other", "noexec"])
        #expect(file.containers == [.init(name: "Photos", url: "local:/srv/photos")])
        #expect(Set(file.settings.map(\.text)) == ["20GiB", "a", "b"])
        let ignored = file.settings.filter { $0.option == .ignore }
        #expect(ignored.map(\.text) == ["a", "b"])
    }

    @Test(arguments: [
        ("cach-size = 1", "key \"cach-size\" is unknown; did you mean cache-size?"),
        ("moutpoint = \"/x\"", "did you mean mountpoint?"),
        ("whatever-this-is = 1", "docs/configuration.md"),
        ("[[container]]\nurl = \"local:/x\"\nnmae = \"x\"", "did you mean name?"),
        ("[[container]]\nname = \"x\"", "has no url"),
        (
            "[[container]]\nurl = \"local:/x\"\nname = \"a/b\"",
            "a container's name is not a file name"
        ),
        ("container = 5", "[[container]]"),
        ("read-only = \"yes\"", "must be true or false"),
        ("cache-size = true", "must be text in quotes, or a number"),
        ("ignore = \"x\"", "must be an array"),
        ("options = [1]", "must be an array"),
        ("type = 1", "[[type]]"),
        ("[[type]]\nmime = \"a/b\"", "has no identifier"),
        ("[[type]]\nidentifier = \"a b\"", "is no name of a type"),
        ("[[type]]\nidentifier = \"a.b\"\nmime = \"a\"", "is no name of a type"),
        ("[[type]]\nidentifier = \"a.b\"\nextensions = [\"*\"]", "is no extension"),
        ("[[type]]\nidentifer = \"a.b\"", "did you mean identifier?"),
        ("a = ", "is not TOML at line 1"),
        ("quiet-time = \"1s\"\nquiet-time = \"2s\"", "is not TOML at line 2"),
    ])
    func `a wrong file gets a sentence with its path and the key`(text: String, part: String) {
        let message = sentence { _ = try Self.parse(text) }
        #expect(message.contains("drive.toml"), "\(message)")
        #expect(message.contains(part), "\(message)")
    }

    @Test func `types are declared, and written down again`() throws {
        let scratch = try MountScratch()
        let path = try scratch.file(
            "drive.toml",
            """
            mountpoint = "drive"
            [[container]]
            url = "local:cloud"
            [[type]]
            identifier = "org.example.note"
            extensions = [".note", "memo"]
            mime = "text/x-note"
            conforms = ["public.text", "text/markdown"]
            [[type]]
            identifier = "org.example.plain"
            """
        )
        var arguments = MountConfiguration.Arguments()
        arguments.config = path
        let configuration = try MountConfiguration(arguments, host: .test())
        #expect(
            configuration.types == [
                DeclaredType(
                    identifier: "org.example.note",
                    extensions: ["note", "memo"],
                    mime: "text/x-note",
                    conforms: ["public.text", "text/markdown"]
                ),
                DeclaredType(identifier: "org.example.plain"),
            ]
        )
        let again = try MountConfiguration(driveFile: configuration.driveFile, host: .test())
        #expect(again.types == configuration.types)
    }

    @Test func `relative paths start at the file's folder`() throws {
        let scratch = try MountScratch()
        let path = try scratch.file(
            "drive.toml",
            """
            mountpoint = "drive"
            state-dir = "state"
            [[container]]
            url = "local:cloud"
            """
        )
        var arguments = MountConfiguration.Arguments()
        arguments.config = path
        let configuration = try MountConfiguration(arguments, host: .test())
        #expect(configuration.mountpoint == "\(scratch.path)/drive")
        #expect(configuration.stateDirectory == "\(scratch.path)/state")
        #expect(configuration.containers[0].url == .local(path: "\(scratch.path)/cloud"))

        arguments.source = "elsewhere"
        let moved = try MountConfiguration(arguments, host: .test())
        #expect(moved.mountpoint == "/there/elsewhere")
        #expect(moved.containers == configuration.containers)

        arguments.source = "local:/other"
        let other = try MountConfiguration(arguments, host: .test())
        #expect(other.containers[0].url == .local(path: "/other"))
        #expect(other.mountpoint == configuration.mountpoint)
    }

    @Test func `two containers are refused in this version`() throws {
        let scratch = try MountScratch()
        let path = try scratch.file(
            "drive.toml",
            "mountpoint = \"m\"\n" + "[[container]]\nurl = \"local:a\"\n"
                + "[[container]]\nurl = \"local:b\"\n"
        )
        var arguments = MountConfiguration.Arguments()
        arguments.config = path
        let message = sentence { _ = try MountConfiguration(arguments, host: .test()) }
        #expect(message.contains("2 containers"))
    }

    @Test func `a file that cannot be read gets one sentence`() throws {
        let scratch = try MountScratch()
        for path in ["\(scratch.path)/none.toml", scratch.path] {
            var arguments = MountConfiguration.Arguments()
            arguments.config = path
            let message = sentence { _ = try MountConfiguration(arguments, host: .test()) }
            #expect(message.hasPrefix("the drive file \(path) cannot be read"))
        }
    }
}

import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct S3KeysTests {
    private static let mark = S3Keys.mark

    /// Parts of keys, the odd ones far more often than by chance.
    static func part(_ random: inout SeededRandom) -> [UInt8] {
        let odd: [[UInt8]] = [
            [], Array(".".utf8), Array("..".utf8), [0], mark, mark + mark,
            Array(".cloudfs".utf8), mark + Array(".cloudfs".utf8), Array("%2F".utf8),
            mark + Array("%2F".utf8), Array("a".utf8), mark + Array("a".utf8),
            mark + Array("a%2F".utf8), Array("a~0123456789ABCDEF".utf8),
            mark + Array("a~0123456789ABCDEF".utf8), Array("~".utf8), Array("%".utf8),
            Array(repeating: 0x61, count: 255), Array(repeating: 0x61, count: 256),
            Array(repeating: 0x61, count: 300), Array(repeating: 0, count: 100),
            Array(repeating: 0x7e, count: 120), mark + Array(repeating: 0x25, count: 84),
            mark + Array(repeating: 0x61, count: 249), mark + Array(repeating: 0x61, count: 250),
            Array("a\u{301}".utf8), Array("\u{e1}".utf8), Array("a b+c".utf8), [0x0a], [0x7f],
        ]
        if Int.random(in: 0..<3, using: &random) > 0 {
            return odd[Int.random(in: 0..<odd.count, using: &random)]
        }
        let alphabet: [[UInt8]] =
            [mark, [0], [0x25], [0x7e], [0x2e], [0x41], [0x20], [0x01], [0xc3, 0xa4]]
        let count = Int.random(in: 0..<12, using: &random)
        return (0..<count).flatMap { _ in
            alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
        }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `every part has a name of its own that leads back to it`(seed: UInt64) throws {
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        var names: [ItemName: [UInt8]] = [:]
        for _ in 0..<3_000 {
            let part = Self.part(&random)
            let name = try S3Keys.name(of: part, isInRoot: false)
            #expect(names[name] == nil || names[name] == part)
            names[name] = part
            switch try S3Keys.part(of: name, isInRoot: false) {
            case .part(let back): #expect(back == part)
            case .long(let stem):
                #expect(part.starts(with: stem))
                #expect(try S3Keys.long(name, as: part) == .part(part))
            case .folderBesideFile: Issue.record("\(name) is no folder beside a file")
            }
            let folder = try S3Keys.nameOfFolderBesideFile(part)
            #expect(folder != name)
            switch try S3Keys.part(of: folder, isInRoot: false) {
            case .folderBesideFile(let back): #expect(back == part)
            case .long: #expect(try S3Keys.long(folder, as: part) == .folderBesideFile(part))
            case .part: Issue.record("\(folder) is a folder beside a file")
            }
        }
    }

    @Test func `an ordinary part is its own name`() throws {
        for text in ["a", "~", "100%", "a b", ".hidden", "..."] {
            #expect(try S3Keys.name(of: Array(text.utf8), isInRoot: true) == ItemName(text))
        }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `what is called after anything is called as something new can be`(seed: UInt64) throws {
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        for _ in 0..<1_000 {
            let part = Self.part(&random)
            for name in [
                try S3Keys.name(of: part, isInRoot: false),
                try S3Keys.nameOfFolderBesideFile(part),
            ] {
                let plain = S3Keys.plain(name)
                #expect(!plain.bytes.starts(with: Self.mark), "\(name)")
                try S3Keys.requireNew(plain, isInRoot: false)
            }
        }
        #expect(try S3Keys.plain(ItemName("‛b.txt%2F")) == ItemName("b.txt"))
        #expect(try S3Keys.plain(ItemName("b%2F")) == ItemName("b%2F"))
    }

    @Test func `nothing new is called like what only a bucket can have`() throws {
        for text in ["‛a%2F", "‛a~0123456789ABCDEF", "‛a"] {
            let name = try ItemName(text)
            let error = #expect(throws: CloudFSError.self) {
                try S3Keys.requireNew(name, isInRoot: false)
            }
            #expect(error?.code == .invalidName, "\(text)")
        }
        for text in ["‛‛a", "‛.", "‛%00", "‛", "a"] {
            try S3Keys.requireNew(ItemName(text), isInRoot: false)
        }
    }

    @Test func `a second name for an ordinary part is refused`() throws {
        for text in ["‛a", "‛100%25", "‛%41", "‛a%2f", "‛%00x%", "‛a%2Fb", "‛%2F%2F"] {
            let name = try ItemName(text)
            let error = #expect(throws: CloudFSError.self) {
                try S3Keys.part(of: name, isInRoot: false)
            }
            #expect(error?.code == .invalidName, "\(text)")
        }
    }
}

/// Keys and names through a provider on a bucket.
@Suite struct S3ProviderKeysTests {
    private typealias Bench = S3ProviderBench

    /// Looks at everything in a folder and below; returns the bytes of all files.
    private func visit(
        _ folder: RemotePath,
        _ provider: S3Provider,
        _ found: inout [[UInt8]]
    ) async throws {
        let items = try await Bench.list(folder, of: provider)
        #expect(Set(items.map(\.name)).count == items.count, "two of a name in \(folder)")
        for item in items {
            let path = folder.appending(item.name)
            let looked = try await provider.item(at: path)
            #expect(looked.kind == item.kind, "\(path)")
            #expect(looked.id == item.id, "\(path)")
            if item.kind == .folder {
                try await visit(path, provider, &found)
            } else {
                found.append(
                    try await Bench.read(path, item.version, size: item.size, of: provider)
                )
            }
        }
    }

    @Test(arguments: zip([1, 2, 3, 4, 5, 6] as [UInt64], [1, 2, 3, 7, 1_000, 1]))
    func `every object is found by its name and read`(seed: UInt64, page: Int) async throws {
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        var settings = FakeS3Settings()
        settings.maximumPage = page
        let bench = try await Bench.make(settings)
        var contents: [[UInt8]] = []
        for number in 0..<60 {
            let depth = Int.random(in: 1...4, using: &random)
            let parts = (0..<depth).map { _ in S3KeysTests.part(&random) }
            let key = Array(parts.joined(separator: [0x2f]))
            guard !key.isEmpty, key.count <= 1_024, key.last != 0x2f,
                parts.first != Array(".cloudfs".utf8) || depth == 1,
                bench.fake.object(FakeS3Key(key)) == nil
            else { continue }
            let bytes = Array("\(number) ".utf8) + key
            bench.fake.put(FakeS3Key(key), bytes)
            contents.append(bytes)
        }
        // A provider that knows nothing yet lists; another one has never listed.
        var found: [[UInt8]] = []
        try await visit(.root, try await bench.provider(), &found)
        #expect(Set(found) == Set(contents))
        #expect(found.count == contents.count)
    }

    @Test(arguments: [1, 2, 1_000])
    func `a file and a folder of one name are both there`(page: Int) async throws {
        var settings = FakeS3Settings()
        settings.maximumPage = page
        let bench = try await Bench.make(settings)
        for name in ["a", String(repeating: "b", count: 300)] {
            bench.fake.put(FakeS3Key(name), "file")
            bench.fake.put(FakeS3Key(name + "!"), "between")
            bench.fake.put(FakeS3Key(name + "/in"), "inside")
        }
        var found: [[UInt8]] = []
        try await visit(.root, try await bench.provider(), &found)
        let texts = found.map { String(decoding: $0, as: UTF8.self) }.sorted()
        #expect(texts == ["between", "between", "file", "file", "inside", "inside"])
    }

    @Test func `a key of 1,024 bytes can be read and deleted`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let key = Array(repeating: [UInt8](repeating: 0x61, count: 204) + [0x2f], count: 5)
            .flatMap { $0 }.dropLast()
        #expect(key.count == 1_024)
        bench.fake.put(FakeS3Key(Array(key)), "x")
        var found: [[UInt8]] = []
        try await visit(.root, provider, &found)
        #expect(found == [Array("x".utf8)])
        let path = try Bench.path(String(decoding: key, as: UTF8.self))
        try await provider.delete(path, base: try await provider.item(at: path).version)
        #expect(bench.fake.object(FakeS3Key(Array(key))) == nil)
    }

    @Test(arguments: ["‛.cloudfs", "‛.cloudfs%2F", ".cloudfs"])
    func `no name leads into the provider's own room`(name: String) async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("x", [1])
        let inside = try Bench.path("\(name)/container")
        #expect(await s3Failure { _ = try await provider.item(at: inside) } != nil)
        #expect(await s3Failure { _ = try await provider.item(at: Bench.path(name)) } != nil)
        #expect(
            await s3Failure {
                _ = try await provider.children(of: Bench.path(name), after: nil)
            } != nil
        )
        #expect(
            await s3Failure { _ = try await Bench.upload([1], to: "\(name)/x", of: provider) }
                != nil
        )
        #expect(bench.fake.object(".cloudfs/x") == nil)
    }

    @Test func `an object named as the room is a file like others`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put(".cloudfs", "file")
        bench.fake.put("d/.cloudfs", "other")
        var found: [[UInt8]] = []
        try await visit(.root, provider, &found)
        #expect(Set(found) == [Array("file".utf8), Array("other".utf8)])
    }

    @Test func `a file cannot be written to a name that means a folder`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let code = await s3Failure {
            _ = try await Bench.upload([1], to: "‛a%2F", of: provider)
        }
        #expect(code == .invalidName)
        #expect(bench.fake.object("a") == nil)
    }
}

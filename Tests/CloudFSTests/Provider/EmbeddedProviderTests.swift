import CloudFSTestSupport
import Foundation
import Glibc
import Testing

@testable import CloudFS

/// What is special about a directory as a cloud: other programs, hostile names, lost roots.
@Suite(.timeLimit(.minutes(10)))
struct EmbeddedProviderTests {
    // MARK: - Foreign files

    @Test func `a foreign file has an identity that all devices derive alike`() async throws {
        let one = try await EmbeddedFixture.make()
        try one.write([1, 2], to: "foreign")
        let two = try await EmbeddedFixture.make(device: "other", in: one.directory)
        let item = try await one.cloud.item("foreign")
        #expect(try await two.cloud.item("foreign") == item)
        #expect(item.attributes.isEmpty)
        try #require(rename("\(one.root)/foreign", "\(one.root)/renamed") == 0)
        let renamed = try await two.cloud.item("renamed")
        #expect(renamed.id == item.id)
        #expect(renamed.documentID == item.documentID)
        #expect(renamed.version.content == item.version.content)
        #expect(one.identity == two.identity)
    }

    @Test func `a new file in the place of a deleted one is another item`() async throws {
        let fixture = try await EmbeddedFixture.make()
        var seen: Set<RemoteID> = []
        for round in 0..<20 {
            try fixture.write([UInt8(round)], to: "a")
            seen.insert(try await fixture.cloud.item("a").id)
            try fixture.directory.remove("cloud/a")
            try fixture.write([0], to: "keep")
        }
        #expect(seen.count == 20)
    }

    @Test func `writing, truncating and chmod each make another version`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([1, 2, 3], to: "a")
        var versions = [try await fixture.cloud.item("a").version]
        try FileUpdate("\(fixture.root)/a").write([9])
        versions.append(try await fixture.cloud.item("a").version)
        try #require(truncate("\(fixture.root)/a", 1) == 0)
        versions.append(try await fixture.cloud.item("a").version)
        #expect(Set(versions.map(\.content)).count == 3)
        try #require(chmod("\(fixture.root)/a", 0o600) == 0)
        let last = try await fixture.cloud.item("a").version
        #expect(last.content == versions[2].content)
        #expect(last.metadata != versions[2].metadata)
    }

    @Test func `only permission bits and user attributes come from the directory`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([1], to: "a")
        try #require(chmod("\(fixture.root)/a", 0o7777) == 0)
        let id = DocumentID.random()
        for (name, value) in [
            ("user.cloudfs-id", id.description), ("user.cloudfs.status", "cloud"),
            ("user.color", "red"),
        ] {
            try setAttribute(name, value, of: "\(fixture.root)/a")
        }
        let item = try await fixture.cloud.item("a")
        #expect(item.metadata.permissions == 0o777)
        #expect(item.attributes == ["user.color": Array("red".utf8)])
        #expect(item.documentID == id)
    }

    @Test func `devices, fifos and sockets are not in the cloud`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([1], to: "file")
        try #require(mkfifo("\(fixture.root)/fifo", 0o600) == 0)
        #expect(try await fixture.cloud.names() == ["file"])
        await expectError(.notFound) { try await fixture.cloud.item("fifo") }
        await expectError(.exists) { try await fixture.cloud.upload([1], to: "fifo") }
    }

    @Test func `two names of one file are two items`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([1, 2], to: "a")
        try fixture.directory.makeFolder("cloud/f")
        try #require(link("\(fixture.root)/a", "\(fixture.root)/b") == 0)
        try #require(link("\(fixture.root)/a", "\(fixture.root)/f/a") == 0)
        let items = [
            try await fixture.cloud.item("a"), try await fixture.cloud.item("b"),
            try await fixture.cloud.item("f/a"),
        ]
        #expect(Set(items.map(\.id)).count == 3)
        #expect(Set(items.map(\.documentID)).count == 3)
        #expect(Set(items.map(\.version)).count == 1)
        let listed = try await fixture.cloud.list().filter { $0.kind == .file }
        #expect(Set(listed.map(\.id)) == [items[0].id, items[1].id])
        try await fixture.embedded.delete(
            try ProviderFixture.path("b"),
            base: items[1].version
        )
        #expect(try fixture.read("a") == [1, 2])
    }

    // MARK: - Ways out

    @Test func `links never lead out of the cloud directory`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.directory.write([1], to: "outside/secret")
        let outside = fixture.directory.path("outside")
        for (name, target) in [
            ("absolute", outside), ("relative", "../outside"), ("file", "../outside/secret"),
            ("self", "self"), ("root", "."),
        ] {
            try #require(symlink(target, "\(fixture.root)/\(name)") == 0)
            let item = try await fixture.cloud.item(name)
            #expect(item.kind == .symlink)
            #expect(item.linkTarget == Array(target.utf8))
            await expectError(.notFound) { try await fixture.cloud.item("\(name)/secret") }
            await expectError(.notDirectory) { try await fixture.cloud.list(name) }
            await expectError(.notFound) { try await fixture.cloud.upload([2], to: "\(name)/new") }
            await expectError(.notFound) { try await fixture.cloud.makeFolder("\(name)/new") }
            await expectError(.unsupported) {
                try await fixture.cloud.fetch(name, item.version, range: 0..<1)
            }
            await expectError(.remoteChanged) {
                try await fixture.cloud.upload([2], to: name, replacing: item.version)
            }
            var metadata = ProviderFixture.metadata
            metadata.permissions = 0
            _ = try await fixture.embedded.setMetadata(
                MetadataUpdate(metadata: metadata, attributes: ["user.x": [1]]),
                at: try ProviderFixture.path(name),
                base: item.version
            )
        }
        #expect(try fixture.directory.read("outside/secret") == [1])
        #expect(try FileManager.default.contentsOfDirectory(atPath: outside) == ["secret"])
        var status = stat()
        try #require(stat("\(outside)/secret", &status) == 0)
        #expect(status.st_mode & 0o777 != 0)
    }

    @Test func `a link in the place of the provider's own room is refused`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.directory.makeFolder("outside")
        try #require(symlink("../outside", "\(fixture.root)/.cloudfs") == 0)
        do {
            try await fixture.cloud.upload([1], to: "a")
            Issue.record("an upload went through a link")
        } catch is CloudFSError {
            let outside = fixture.directory.path("outside")
            #expect(try FileManager.default.contentsOfDirectory(atPath: outside).isEmpty)
        }
    }

    @Test func `very deep folders can be reached`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let name = String(repeating: "d", count: 250)
        var path = ""
        for _ in 0..<24 {
            path += path.isEmpty ? name : "/\(name)"
            try await fixture.cloud.makeFolder(path)
        }
        let item = try await fixture.cloud.upload([5], to: "\(path)/end")
        #expect(try await fixture.cloud.fetch("\(path)/end", item.version) == [5])
        // Foundation cannot remove what is longer than a path; take it down from the inside.
        var names = path.split(separator: "/").map(String.init)
        let end = try ProviderFixture.path("\(path)/end")
        try await fixture.embedded.delete(end, base: item.version)
        while !names.isEmpty {
            let folder = try ProviderFixture.path(names.joined(separator: "/"))
            let found = try await fixture.embedded.item(at: folder)
            try await fixture.embedded.delete(folder, base: found.version)
            names.removeLast()
        }
    }

    // MARK: - Sending

    @Test func `a file to send that cannot be read is no failure of the directory`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.directory.write([1, 2, 3], to: "source")
        let descriptor = open(fixture.directory.path("source"), O_WRONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        let source = UploadSource(
            descriptor: descriptor,
            byteCount: 3,
            documentID: .random(),
            metadata: ProviderFixture.metadata,
            attributes: [:],
            isUnchanged: { true },
            didSend: { _ in }
        )
        let path = try ProviderFixture.path("a")
        await expectError(.internalFailure) {
            try await fixture.embedded.upload(source, to: path, replacing: nil)
        }
        #expect(try await fixture.cloud.list().isEmpty)
        #expect(try fixture.leftovers().isEmpty)
    }

    // MARK: - Lost roots

    @Test func `a missing directory is unreachable, not empty`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let item = try await fixture.cloud.upload([1], to: "a")
        try #require(rename(fixture.root, "\(fixture.root).away") == 0)
        await expectEverythingOffline(fixture, item)
        try #require(rename("\(fixture.root).away", fixture.root) == 0)
        #expect(try await fixture.cloud.item("a").id == item.id)
    }

    @Test func `another directory in its place is unreachable, not changed`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let item = try await fixture.cloud.upload([1], to: "a")
        try #require(rename(fixture.root, "\(fixture.root).away") == 0)
        try fixture.directory.write([2], to: "cloud/other")
        await expectEverythingOffline(fixture, item)
    }

    @Test func `a directory that is suddenly empty is unreachable`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([1], to: "a")
        let item = try await fixture.cloud.item("a")
        try fixture.directory.remove("cloud/a")
        await expectEverythingOffline(fixture, item)
        try fixture.write([1], to: "b")
        #expect(try await fixture.cloud.names() == ["b"])
    }

    @Test func `a directory emptied through the provider is just empty`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let item = try await fixture.cloud.upload([1], to: "a")
        try await fixture.embedded.delete(try ProviderFixture.path("a"), base: item.version)
        #expect(try await fixture.cloud.list().isEmpty)
        #expect(
            try await fixture.embedded.connect(expecting: fixture.expectation()) == fixture.identity
        )
    }

    @Test func `a new device refuses a directory that is not the recorded one`() async throws {
        let one = try await EmbeddedFixture.make()
        let other = try await EmbeddedFixture.make("other", in: one.directory)
        await expectError(.offline) {
            try await other.embedded.connect(expecting: one.expectation(hasItems: false))
        }
        await expectError(.offline) {
            try await other.embedded.connect(expecting: other.expectation(hasItems: true))
        }
        let unconnected = EmbeddedProvider(
            root: one.root,
            deviceName: "device",
            pool: BlockingPool(name: "unconnected", width: 1)
        )
        await expectError(.offline) { try await unconnected.item(at: .root) }
    }

    @Test(.enabled(if: geteuid() == 0, "mounting a file system needs root"))
    func `a file system that is unmounted under it is unreachable`() async throws {
        let directory = try TemporaryDirectory()
        try directory.makeFolder("cloud")
        let mount = try TemporaryMount(at: directory.path("cloud"))
        let fixture = try await EmbeddedFixture.make(in: directory)
        let item = try await fixture.cloud.upload([1], to: "a")
        let start = try await fixture.embedded.changes(after: nil)
        let waiting = Task { try await fixture.embedded.changes(after: start.anchor) }
        try mount.unmount()
        await expectError(.offline) { try await waiting.value }
        await expectEverythingOffline(fixture, item)
        await expectError(.offline) {
            try await fixture.embedded.connect(expecting: fixture.expectation())
        }
    }

    @Test func `many folders of several pages are listed at once`() async throws {
        let fixture = try await EmbeddedFixture.make()
        let folders = (0..<20).map { "folder\($0)" }
        for folder in folders {
            try fixture.directory.makeFolder("cloud/\(folder)")
            for number in 0..<1_100 {
                let file = creat("\(fixture.root)/\(folder)/\(number)", 0o600)
                try #require(file >= 0)
                close(file)
            }
        }
        var pages: [(path: RemotePath, page: ListingPage)] = []
        for folder in folders {
            let path = try RemotePath.root.appending(ItemName(folder))
            pages.append((path, try await fixture.embedded.children(of: path, after: nil)))
        }
        for (path, page) in pages {
            let next = try #require(page.next)
            let rest = try await fixture.embedded.children(of: path, after: next)
            #expect(rest.next == nil && page.items.count + rest.items.count == 1_100)
        }
    }

    @Test(.enabled(if: geteuid() == 0, "mounting a file system needs root"))
    func `a file system mounted over a folder inside hides nothing silently`() async throws {
        let fixture = try await EmbeddedFixture.make()
        try fixture.write([1], to: "folder/a")
        let mount = try TemporaryMount(at: "\(fixture.root)/folder")
        try fixture.write([2], to: "beside")
        let page = try await fixture.embedded.children(of: .root, after: nil)
        #expect(page.items.map(\.name) == [try ItemName("beside")])
        #expect(page.hidden == [try ItemName("folder")])
        await expectError(.unsupported) { try await fixture.cloud.list("folder") }
        await expectError(.unsupported) { try await fixture.cloud.item("folder/a") }
        try mount.unmount()
        #expect(try await fixture.cloud.names("folder") == ["a"])
    }

    @Test(.enabled(if: geteuid() == 0, "mounting a file system needs root"))
    func `a file system without file handles or attributes is refused`() async throws {
        let pool = BlockingPool(name: "refused", width: 1)
        let provider = EmbeddedProvider(root: "/proc/self/task", deviceName: "x", pool: pool)
        let none = ContainerExpectation(identity: nil, hasItems: false)
        await expectError(.unsupported) { try await provider.connect(expecting: none) }
    }

    private func expectEverythingOffline(_ fixture: EmbeddedFixture, _ item: RemoteItem) async {
        let cloud = fixture.cloud
        await expectError(.offline) { try await cloud.item("a") }
        await expectError(.offline) { try await cloud.list() }
        await expectError(.offline) { try await cloud.fetch("a", item.version, range: 0..<1) }
        await expectError(.offline) { try await cloud.upload([1], to: "new") }
        await expectError(.offline) { try await cloud.makeFolder("new") }
        await expectError(.offline) { try await fixture.embedded.changes(after: nil) }
        await expectError(.offline) { try await fixture.embedded.quota() }
        await expectError(.offline) {
            try await fixture.embedded.delete(
                try ProviderFixture.path("a"),
                base: item.version
            )
        }
    }
}

/// Sets an extended attribute with the system's tool, as a foreign program would.
func setAttribute(_ name: String, _ value: String, of path: String) throws {
    try run("/usr/bin/setfattr", "-n", name, "-v", value, path)
}

/// Runs a tool and requires that it succeeds.
func run(_ tool: String, _ arguments: String...) throws {
    let process = Process()
    process.executableURL = URL(filePath: tool)
    process.arguments = arguments
    try process.run()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "\(tool) \(arguments)")
}

/// A small file system in memory, mounted until the test ends.
final class TemporaryMount {
    private let path: String

    init(at path: String) throws {
        self.path = path
        try run("/usr/bin/mount", "-t", "tmpfs", "-o", "size=16m", "cloudfs-test", path)
    }

    func unmount() throws {
        try run("/usr/bin/umount", "-l", path)
    }

    deinit {
        umount2(path, Int32(MNT_DETACH))
    }
}

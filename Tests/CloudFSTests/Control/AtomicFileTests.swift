import CloudFSTestSupport
import Foundation
import Glibc
import Testing

@testable import CloudFSClient

/// Files that documents save in one step.
@Suite struct AtomicFileTests {
    private let folder: TemporaryDirectory

    init() throws {
        folder = try TemporaryDirectory()
    }

    private func replace(_ name: String, with text: String) throws {
        try AtomicFile.replace(URL(filePath: folder.path(name)), with: Data(text.utf8))
    }

    private func text(_ name: String) throws -> String {
        String(decoding: try folder.read(name), as: UTF8.self)
    }

    @Test(arguments: [UInt32(0o664), 0o600, 0o777])
    func `a document keeps its mode, whatever the umask`(mode: UInt32) throws {
        try folder.write("old".utf8, to: "doc")
        try SystemCall.setMode(folder.path("doc"), mode)
        try replace("doc", with: "new")
        #expect(try text("doc") == "new")
        #expect(try SystemCall.status(folder.path("doc")).mode == mode)
        #expect(try SystemCall.names(in: folder.path) == ["doc"])
    }

    @Test func `a new document has what the umask leaves`() throws {
        try replace("doc", with: "new")
        #expect(try text("doc") == "new")
        #expect(try SystemCall.status(folder.path("doc")).mode & ~0o644 == 0)
    }

    @Test func `a document is saved through links, which stay`() throws {
        try folder.write("old".utf8, to: "shelf/doc")
        try SystemCall.makeSymlink(folder.path("shelf/near"), target: "doc")
        try SystemCall.makeSymlink(folder.path("far"), target: "shelf/near")
        try SystemCall.makeSymlink(folder.path("absolute"), target: folder.path("far"))
        try SystemCall.makeSymlink(folder.path("dangling"), target: "shelf/made")
        for name in ["shelf/near", "far", "absolute"] {
            try replace(name, with: name)
            #expect(try text("shelf/doc") == name)
            #expect(try SystemCall.status(folder.path(name)).kind == .symlink)
        }
        try replace("dangling", with: "made")
        #expect(try text("shelf/made") == "made")
        #expect(try SystemCall.names(in: folder.path("shelf")) == ["doc", "made", "near"])
        try SystemCall.makeSymlink(folder.path("circle"), target: "circle")
        let error = #expect(throws: SystemFailure.self) { try replace("circle", with: "x") }
        #expect(error?.code == ELOOP)
    }

    @Test(arguments: [
        "doc", "", String(repeating: "n", count: 255), String(repeating: "é", count: 127),
    ])
    func `the name of what is not complete is short, and stays on this machine`(name: String) {
        let temporary = AtomicFile.temporaryName(for: name)
        #expect(temporary.hasPrefix(".#\(name.prefix(10))"))
        #expect(temporary.utf8.count <= 255)
        #expect(AtomicFile.temporaryName(for: name) != temporary)
    }

    @Test func `a document with the longest name is saved`() throws {
        let name = String(repeating: "é", count: 127)
        try folder.write("old".utf8, to: name)
        try replace(name, with: "new")
        #expect(try text(name) == "new")
    }

    @Test func `what a crash left is in nobody's way`() throws {
        try folder.write("left".utf8, to: "taken")
        var names = ["taken", "free", "taken", "free"]
        let (path, descriptor) = try AtomicFile.create(
            beside: folder.path("doc"),
            mode: 0o644
        ) { _ in names.removeFirst() }
        close(descriptor)
        #expect(path == folder.path("free") && folder.exists("free"))
        // Of random names two in a row are not taken by chance.
        let error = #expect(throws: SystemFailure.self) {
            try AtomicFile.create(beside: folder.path("doc"), mode: 0o644) { _ in
                names.removeFirst()
            }
        }
        #expect(error?.code == EEXIST && names.isEmpty)
        #expect(try text("taken") == "left")
    }
}

import CloudFSTestSupport
import Foundation
import Glibc
import Testing

@testable import CloudFSClient

/// What becomes of versions that are not wanted.
@Suite struct FileVersionTests {
    private let folder: TemporaryDirectory

    init() throws {
        folder = try TemporaryDirectory()
    }

    private func remove(_ name: String) throws {
        try FileVersion.removeItem(at: URL(filePath: folder.path(name)))
    }

    @Test func `regression: the version of a package is removed with all that is in it`() throws {
        try folder.write("text".utf8, to: "doc.bundle/text")
        try folder.write("picture".utf8, to: "doc.bundle/pictures/one")
        try folder.write("other".utf8, to: "doc")
        try remove("doc.bundle")
        #expect(try SystemCall.names(in: folder.path) == ["doc"])
        try remove("doc")
        #expect(try SystemCall.names(in: folder.path).isEmpty)
        let error = #expect(throws: SystemFailure.self) { try remove("doc") }
        #expect(error?.code == ENOENT)
    }

    @Test func `a link goes, and not the folder that it leads to`() throws {
        try folder.write("text".utf8, to: "doc.bundle/text")
        try SystemCall.makeSymlink(folder.path("link"), target: "doc.bundle")
        try remove("link")
        #expect(try SystemCall.names(in: folder.path("doc.bundle")) == ["text"])
        #expect(try SystemCall.names(in: folder.path) == ["doc.bundle"])
    }
}

import CloudFSTestSupport
import Foundation
import Glibc
import Testing

@testable import CloudFS

/// Pictures made by real programs, in the sandbox of bubblewrap and in the one without it.
@Suite(.enabled(if: PicturePrograms.areInstalled, "needs vipsthumbnail and bubblewrap"))
struct ThumbnailMakerTests {
    private static func draw(_ folder: TemporaryDirectory) async throws -> String {
        let result = try await Shell.run([
            "bash", "-c",
            """
            set -e; cd "$0"
            vips black black.v 400 300 --bands 3
            vips linear black.v picture.png 1 '200 90 30' --uchar
            """, folder.path,
        ])
        try #require(result.status == 0, "\(result)")
        return folder.path("picture.png")
    }

    private func sizes(_ outcome: ThumbnailMaker.Outcome) throws -> Set<ThumbnailSize> {
        guard case .images(let images) = outcome else {
            Issue.record("there are no pictures: \(outcome)")
            return []
        }
        return Set(images.keys)
    }

    @Test(arguments: [true, false])
    func `a picture, a program's and many at once are made`(hasBubblewrap: Bool) async throws {
        let folder = try TemporaryDirectory()
        let picture = try await Self.draw(folder)
        let maker = ThumbnailMaker(hasBubblewrap: hasBubblewrap)
        #expect(try sizes(maker.make(of: picture, ending: "png")) == Set(ThumbnailSize.allCases))
        for input in ["%i", "%u"] {
            let words = ["sh", "-c", "cp \"${0#file://}\" \"$1\"", input, "%o"]
            let made = maker.make(of: picture, ending: "webm", by: words)
            #expect(try !sizes(made).isEmpty)
        }
        let pictures = folder.path("pictures")
        try FileManager.default.createDirectory(
            atPath: pictures,
            withIntermediateDirectories: false
        )
        for number in 0..<3 {
            try FileManager.default.copyItem(atPath: picture, toPath: "\(pictures)/\(number)")
        }
        let converted = try maker.convert(pictures, to: [.normal, .extraLarge])
        #expect(Set(converted.keys) == [0, 1, 2])
        #expect(converted.values.allSatisfy { $0.count == 2 })
    }

    @Test(arguments: [true, false])
    func `a child has no network, no other process and nothing of this one`(
        hasBubblewrap: Bool
    ) async throws {
        let folder = try TemporaryDirectory()
        let picture = try await Self.draw(folder)
        let maker = ThumbnailMaker(hasBubblewrap: hasBubblewrap)
        setenv("CLOUDFS_TEST_SECRET", "secret", 1)
        defer { unsetenv("CLOUDFS_TEST_SECRET") }
        // Whatever is not as it should be keeps the picture from being made.
        let look = """
            [ "$(grep -c : /proc/net/dev)" -le 1 ] || exit 1
            [ -z "${CLOUDFS_TEST_SECRET:-}" ] || exit 1
            kill -0 \(getpid()) 2>/dev/null && exit 1
            touch /tmp/mine || exit 1
            [ "$(ls /tmp/in)" = item.png ] || exit 1
            cp "$0" "$1"
            """
        let outcome = maker.make(of: picture, ending: "png", by: ["sh", "-c", look, "%i", "%o"])
        #expect(try !sizes(outcome).isEmpty)
        #expect(access("/tmp/mine", F_OK) != 0)
        guard hasBubblewrap else { return }
        let files = "ls \(folder.path) && exit 1; ls /root /home /var && exit 1; cp \"$0\" \"$1\""
        let hidden = maker.make(of: picture, ending: "png", by: ["sh", "-c", files, "%i", "%o"])
        #expect(try !sizes(hidden).isEmpty)
    }

    @Test func `a program that takes too much room, memory or time makes nothing`() async throws {
        let folder = try TemporaryDirectory()
        let picture = try await Self.draw(folder)
        let maker = ThumbnailMaker()
        // Where nothing is bounded, they go on and make a picture.
        let copy = "cp \"$0\" \"$1\""
        for work in [
            "head -c 400M /dev/zero >/tmp/much && \(copy)",
            "[ \"$(ulimit -v)\" = unlimited ] && \(copy)",
        ] {
            let outcome = maker.make(
                of: picture,
                ending: "png",
                by: ["sh", "-c", work, "%i", "%o"]
            )
            guard case .unreadable = outcome else {
                Issue.record("it made something: \(outcome)")
                continue
            }
        }
        let begin = ContinuousClock.now
        let endless = maker.make(
            of: picture,
            ending: "png",
            by: ["sh", "-c", "while :; do :; done"]
        )
        guard case .unreadable = endless else {
            Issue.record("it made something: \(endless)")
            return
        }
        #expect(ContinuousClock.now - begin < .seconds(40))
    }
}

private enum PicturePrograms {
    static var areInstalled: Bool {
        access("/usr/bin/vipsthumbnail", X_OK) == 0 && access("/usr/bin/bwrap", X_OK) == 0
    }
}

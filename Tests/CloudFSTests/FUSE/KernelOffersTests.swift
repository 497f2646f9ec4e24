import Glibc
import Logging
import Testing

@testable import CloudFS

/// What becomes of passthrough, by what the kernel says first.
///
/// Nothing is mounted: a session is given the kernel's first words as if an earlier worker had
/// heard them.
@Suite struct KernelOffersTests {
    private static let unoffered = Passthrough.Mode.off(
        "the kernel does not offer it; Linux 6.9 and later do"
    )
    /// `FUSE_INIT_EXT`: the second word of flags is there.
    private static let hasFlags2: UInt32 = 1 << 30
    /// `FUSE_PASSTHROUGH`, in the second word.
    private static let passthrough: UInt32 = 1 << 5

    /// `FUSE_INIT`, as `<linux/fuse.h>` has it.
    private static func hello(_ flags: UInt32, _ flags2: UInt32) -> [UInt8] {
        var words: [UInt32] = [104, 26]
        // The request's number, the item's, who asks, and what follows.
        words += [1, 0, 0, 0, 0, 0, 0, 0]
        // The version, what is read ahead, and the flags.
        words += [7, 40, 128 << 10, flags, flags2]
        words += [UInt32](repeating: 0, count: 104 / 4 - words.count)
        return words.withUnsafeBytes { Array($0) }
    }

    /// How the kernel gets bytes after it has said so.
    private static func mode(_ flags: UInt32, _ flags2: UInt32) async throws -> Passthrough.Mode {
        let drive = try await QuietDrive()
        let greetings = try RecordRegion<Greeting>(capacity: 1)
        let greeting = try #require(
            Greeting(
                nonce: 1,
                since: Clocks.system.now(),
                mount: 0,
                request: hello(flags, flags2),
                reply: []
            )
        )
        _ = try greetings.allocate(greeting)
        // The session closes it.
        let device = open("/dev/null", O_RDWR | O_CLOEXEC)
        try #require(device >= 0)
        let session = try FuseSession(
            filesystem: drive.filesystem,
            changes: ChangeHub(),
            options: try FuseMountOptions(mountpoint: "/nowhere", source: "test"),
            connection: KeptConnection(
                device: device,
                greetings: greetings,
                whenAgreed: { _, _ in },
                whenOver: {}
            ),
            logger: Logger(label: "tests")
        )
        // No earlier worker has given this answer.
        #expect(throws: CloudFSError.self) { try session.mount() }
        return drive.filesystem.files.passthrough.mode
    }

    @Test func `a kernel that offers no passthrough is the reason why there is none`() async throws
    {
        #expect(try await Self.mode(Self.hasFlags2, 0) == Self.unoffered)
        #expect(try await Self.mode(Self.hasFlags2, ~Self.passthrough) == Self.unoffered)
    }

    @Test func `an old kernel's second word of flags says nothing`() async throws {
        #expect(try await Self.mode(0, Self.passthrough) == Self.unoffered)
    }

    @Test func `an offer is accepted, and what is wrong with it then is told`() async throws {
        guard case .off(let reason) = try await Self.mode(Self.hasFlags2, Self.passthrough) else {
            Issue.record("passthrough is on without a kernel")
            return
        }
        // It was tried: content is in memory, or what should be the kernel is none.
        let notTried = ["the kernel does not offer it", "not asked yet", "turned off"]
        #expect(!notTried.contains { reason.contains($0) }, "\(reason)")
    }
}

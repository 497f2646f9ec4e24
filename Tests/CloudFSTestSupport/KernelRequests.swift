import Foundation
import Glibc

/// What the kernel asks of one mount, counted by the tracepoints of its FUSE client.
///
/// - Source: `fs/fuse/fuse_trace.h` of Linux.
public enum KernelRequests {
    /// Whether this kernel lets them be counted, by us.
    public static let areCounted: Bool = {
        guard TestMount.isRoot, let tracing = try? Tracing.make() else { return false }
        return tracing.hasEvent
    }()

    /// Runs `body` and counts the requests of the drive at `path` meanwhile, by their names:
    /// `GETATTR`, for example.
    public static func count(
        of path: String,
        during body: () async throws -> Void
    ) async throws -> [String: Int] {
        let tracing = try Tracing.make()
        try tracing.begin(connection: device(of: path))
        try await body()
        return try tracing.end()
    }

    /// The kernel's number of a mount's connection.
    private static func device(of path: String) throws -> UInt32 {
        var status = stat()
        guard stat(path, &status) == 0 else { throw SystemCallFailure("stat", errno) }
        // As glibc spreads it; a mount without a block device has no major number.
        let device = UInt64(status.st_dev)
        return UInt32(device & 0xff | device >> 12 & 0xffff_ff00)
    }

    struct SystemCallFailure: Error {
        var call: String
        var number: Int32

        init(_ call: String, _ number: Int32) {
            (self.call, self.number) = (call, number)
        }
    }

    /// An instance of ftrace of its own, seen through a mount of its own.
    private final class Tracing {
        private let root: TemporaryDirectory
        private let instance: String

        private var event: String { "\(instance)/events/fuse/fuse_request_send" }
        var hasEvent: Bool { access("\(event)/enable", W_OK) == 0 }

        private init(at root: TemporaryDirectory) {
            self.root = root
            instance = "\(root.path)/instances/\(UUID().uuidString)"
        }

        static func make() throws -> Tracing {
            let tracing = Tracing(at: try TemporaryDirectory())
            guard mount("tracefs", tracing.root.path, "tracefs", 0, nil) == 0 else {
                throw SystemCallFailure("mount", errno)
            }
            guard mkdir(tracing.instance, 0o700) == 0 else {
                throw SystemCallFailure("mkdir", errno)
            }
            return tracing
        }

        deinit {
            rmdir(instance)
            umount2(root.path, Int32(MNT_DETACH))
        }

        func begin(connection: UInt32) throws {
            try write("connection == \(connection)", to: "\(event)/filter")
            try write("1", to: "\(event)/enable")
        }

        func end() throws -> [String: Int] {
            try write("0", to: "\(event)/enable")
            // Foundation ends after the first read of a file that says to be empty.
            let trace = Shell.text(of: "\(instance)/trace")
            return trace.matches(of: /\(FUSE_([A-Z0-9_]+)\)/).reduce(into: [:]) {
                $0[String($1.1), default: 0] += 1
            }
        }

        private func write(_ text: String, to path: String) throws {
            let descriptor = open(path, O_WRONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw SystemCallFailure("open \(path)", errno) }
            defer { close(descriptor) }
            guard Glibc.write(descriptor, text, text.utf8.count) == text.utf8.count else {
                throw SystemCallFailure("write \(path)", errno)
            }
        }
    }
}

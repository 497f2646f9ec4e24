import Foundation
import Glibc

/// Other programs that use buckets, for tests of what they leave and what they can read.
public enum S3Programs {
    public static var hasRclone: Bool { Shell.has("rclone") }
    public static var hasS3fs: Bool { Shell.has("s3fs") && access("/dev/fuse", R_OK | W_OK) == 0 }

    /// Runs rclone; in its arguments `cloud:bucket/path` is a place on the server.
    ///
    /// - Throws: `Shell.Failure` if it does not end well.
    @discardableResult
    public static func rclone(
        _ arguments: [String],
        on server: S3TestServer,
        within limit: Duration = .seconds(60)
    ) async throws -> Shell.Result {
        let settings = [
            "RCLONE_CONFIG": "/dev/null",
            "RCLONE_CONFIG_CLOUD_TYPE": "s3",
            "RCLONE_CONFIG_CLOUD_PROVIDER": "Other",
            "RCLONE_CONFIG_CLOUD_ENDPOINT": server.endpoint,
            "RCLONE_CONFIG_CLOUD_REGION": server.region,
            "RCLONE_CONFIG_CLOUD_ACCESS_KEY_ID": server.accessKeyID,
            "RCLONE_CONFIG_CLOUD_SECRET_ACCESS_KEY": server.secretAccessKey,
            "RCLONE_CONFIG_CLOUD_FORCE_PATH_STYLE": "true",
            "NO_PROXY": "127.0.0.1",
            // Rclone does not start if there is one.
            "AWS_CA_BUNDLE": "",
        ]
        let result = try await Shell.run(
            ["rclone", "--retries", "1"] + arguments,
            environment: settings,
            within: limit
        )
        guard result.status == 0 else { throw Shell.Failure(result: result) }
        return result
    }

    /// Lends `body` a folder where s3fs shows a bucket; unmounted afterwards whatever happens.
    ///
    /// - Parameters:
    ///   - options: More options of s3fs, for its `-o`.
    ///   - body: Gets the folder. What it writes is in the bucket when `withS3fs` returns.
    public static func withS3fs<Value>(
        _ bucket: String,
        on server: S3TestServer,
        options: [String] = [],
        _ body: (String) async throws -> Value
    ) async throws -> Value {
        let folder = try TemporaryDirectory()
        try folder.makeFolder("drive")
        try folder.write("\(server.accessKeyID):\(server.secretAccessKey)\n".utf8, to: "password")
        chmod(folder.path("password"), 0o600)
        let drive = folder.path("drive")
        let all = [
            "passwd_file=\(folder.path("password"))", "use_path_request_style",
            "url=\(server.endpoint)", "endpoint=\(server.region)", "sigv4",
        ]
        // In the foreground, so that it can be waited for: it uploads until its end.
        let program = try ChildProcess(
            ["s3fs", bucket, drive, "-f", "-o", (all + options).joined(separator: ",")],
            environment: ["NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"],
            output: folder.path("log"),
            errors: folder.path("log")
        )
        let result: Result<Value, any Error>
        do {
            try await waitForMount(at: drive, by: program)
            result = .success(try await body(drive))
        } catch {
            result = .failure(error)
        }
        // Busy, or never mounted: then at least nothing stays.
        let isUnmounted = try await unmount(drive, lazily: false)
        if !isUnmounted { _ = try await unmount(drive, lazily: true) }
        do {
            _ = try await program.wait(within: .seconds(20))
        } catch {
            program.send(SIGKILL, toGroup: true)
            throw error
        }
        if case .failure = result { print(Shell.text(of: folder.path("log"))) }
        return try result.get()
    }

    private static func unmount(_ drive: String, lazily: Bool) async throws -> Bool {
        let isRoot = getuid() == 0
        let program = isRoot ? ["umount"] : ["fusermount3", "-u"]
        let option = lazily ? [isRoot ? "-l" : "-z"] : []
        return try await Shell.run(program + option + [drive]).status == 0
    }

    private static func waitForMount(at drive: String, by program: ChildProcess) async throws {
        try await eventually("s3fs mounts", within: .seconds(20)) {
            if let status = program.status {
                throw S3TestServers.Failure(description: "s3fs ended with \(status)")
            }
            // The mount table: the folder itself might not answer.
            return Shell.text(of: "/proc/self/mounts").contains(" \(drive) fuse.s3fs ")
        }
    }
}

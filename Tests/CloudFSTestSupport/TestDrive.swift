import Foundation
import Glibc
import Synchronization

/// A cloud of plain files with a drive on it, in a temporary folder.
///
/// With `CLOUDFS_TEST_NATIVE=1` there is no daemon: cloud and drive are one plain folder. What
/// the tests then say is said by the local file system, which shows that POSIX tests are right.
public final class TestDrive: Sendable {
    public let folder: String
    public let cloud: TestFolder
    public let mount: TestMount
    private let children = Mutex<[ChildProcess]>([])

    /// The mountpoint.
    public var path: String { mount.path }

    public static let isNative = ProcessInfo.processInfo.environment["CLOUDFS_TEST_NATIVE"] == "1"

    /// How a drive ends when its test is over.
    public enum Ending: Sendable {
        /// Asked to, and it must: a daemon that does not end in time fails the test.
        case orderly
        /// Killed; for tests that leave it unable to reach its cloud, or already dead.
        case killed
    }

    init(folder: String, cloud: TestFolder, name: String, options: TestMount.Options) {
        self.folder = folder
        self.cloud = cloud
        mount = TestMount(
            container: options.container ?? "local:\(cloud.path)",
            path: TestDrive.isNative ? cloud.path : "\(folder)/\(name)",
            folder: folder,
            name: name,
            options: options
        )
    }

    /// Makes a cloud, mounts it, lends the drive to `body`, and takes all of it away again.
    ///
    /// - Parameters:
    ///   - arguments: More arguments for `cloudfs-mount`.
    ///   - ending: How the daemon ends.
    ///   - slots: How many of the drives that may run at once this one counts for; tests that
    ///     measure time take all.
    ///   - prepare: Fills the cloud before the mount.
    ///   - body: The test.
    /// - Throws: What `body` throws, and what goes wrong with the mount.
    public static func with(
        _ arguments: [String] = [],
        ending: Ending = .orderly,
        slots: Int = 1,
        prepare: Filling = Filling { _ in },
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await with(
            options: TestMount.Options(arguments),
            ending: ending,
            slots: slots,
            prepare: prepare,
            body: body
        )
    }

    public static func with(
        options: TestMount.Options,
        ending: Ending = .orderly,
        slots: Int = 1,
        prepare: Filling = Filling { _ in },
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await DriveSlots.shared.take(slots) {
            let folder = try Shell.makeTemporaryFolder()
            defer { Shell.removeTree(folder) }
            try await make(in: folder, options, ending, prepare, body)
        }
    }

    private static func make(
        in folder: String,
        _ options: TestMount.Options,
        _ ending: Ending,
        _ prepare: Filling,
        _ body: (TestDrive) async throws -> Void
    ) async throws {
        let cloud = try TestFolder.make("\(folder)/cloud")
        _ = try TestFolder.make("\(folder)/run")
        try prepare.fill(cloud)
        if let user = options.userID {
            let result = try await Shell.run(["chown", "-R", "\(user):\(user)", folder])
            guard result.status == 0 else { throw Shell.Failure(result: result) }
        }
        let drive = TestDrive(folder: folder, cloud: cloud, name: "drive", options: options)
        try await drive.use(ending, body)
    }

    /// A second drive on the same cloud: another device.
    public func withSecondDrive(
        _ arguments: [String] = [],
        body: (TestDrive) async throws -> Void
    ) async throws {
        let options = TestMount.Options(["--device-name", "second"] + arguments)
        try await withSecondDrive(options: options, body: body)
    }

    /// A second drive beside this one, in its slot: one that waited for a slot of its own could
    /// wait for ever.
    public func withSecondDrive(
        options: TestMount.Options,
        body: (TestDrive) async throws -> Void
    ) async throws {
        let second = TestDrive(folder: folder, cloud: cloud, name: "second", options: options)
        try await second.use(.orderly, body)
    }

    private func use(_ ending: Ending, _ body: (TestDrive) async throws -> Void) async throws {
        guard !TestDrive.isNative else { return try await body(self) }
        let issues = IssueMark.current
        do {
            _ = try TestFolder.make(path)
            try setOwner()
            try await mount.start()
            try await body(self)
            if ending == .orderly { try await mount.stop() }
        } catch {
            issues?.note()
            await end(issues)
            throw error
        }
        await end(issues)
    }

    private func end(_ issues: IssueMark?) async {
        if issues?.isNoted ?? true {
            print("--- log of \(mount.command.joined(separator: " "))\n\(mount.logText)---")
        }
        for child in children.withLock({ $0 }) { child.send(SIGKILL, toGroup: true) }
        await mount.dispose()
    }

    private func setOwner() throws {
        guard let user = mount.options.userID else { return }
        guard chown(path, user, user) == 0 else { throw SystemError("chown", errno) }
    }

    /// Ends the daemon orderly and mounts again, with the same arguments or with others.
    public func restart(_ arguments: [String]? = nil) async throws -> TestDrive {
        guard !TestDrive.isNative else { return self }
        try await mount.stop()
        return try await again(arguments)
    }

    /// Kills the daemon at once and mounts again over the dead mount.
    public func crash(_ arguments: [String]? = nil) async throws -> TestDrive {
        guard !TestDrive.isNative else { return self }
        try await mount.kill9()
        return try await again(arguments)
    }

    /// Mounts again; the first drive's end also ends this one.
    public func again(_ arguments: [String]? = nil) async throws -> TestDrive {
        if let arguments { mount.change(arguments) }
        try await mount.start()
        return self
    }

    // MARK: - Commands

    /// Runs a script of bash in the drive, and fails if it does not end with `status`.
    ///
    /// - Returns: What it wrote to standard output, without the last line end.
    @discardableResult
    public func run(
        _ script: String,
        status: Int32 = 0,
        within limit: Duration = .seconds(30)
    ) async throws -> String {
        let result = try await Shell.script(
            "cd \"$DRIVE\"\n" + script,
            environment: environment,
            within: limit
        )
        guard result.status == status else { throw Shell.Failure(result: result) }
        return result.output.hasSuffix("\n") ? String(result.output.dropLast()) : result.output
    }

    /// Runs a program of Python in the drive, with the modules that tests need imported.
    ///
    /// `fails(errno.ENOENT, function, …)` demands that the call fails so.
    @discardableResult
    public func python(
        _ program: String,
        within limit: Duration = .seconds(30)
    ) async throws -> String {
        // A file, so that a traceback shows the line that failed.
        let name = "run/program-\(UInt32.random(in: 0 ... .max)).py"
        try TestFolder(folder).write(name, TestDrive.pythonPrelude + program + "\n")
        let result = try await Shell.run(
            ["/usr/bin/python3", "\(folder)/\(name)"],
            environment: environment,
            within: limit
        )
        guard result.status == 0 else { throw Shell.Failure(result: result) }
        return result.output.hasSuffix("\n") ? String(result.output.dropLast()) : result.output
    }

    /// Starts a script in the drive and does not wait for it; it ends with the drive.
    public func start(_ script: String, output: String = "/dev/null") throws -> ChildProcess {
        let child = try ChildProcess(
            ["bash", "-c", "cd \"$DRIVE\"\n" + script],
            environment: environment,
            output: output,
            errors: output
        )
        children.withLock { $0.append(child) }
        return child
    }

    /// Runs `cloudfs` in the drive.
    public func cloudfs(
        _ arguments: [String],
        within limit: Duration = .seconds(30)
    ) async throws -> Shell.Result {
        try await Shell.run(
            ["env", "-C", path, TestMount.binary("cloudfs")] + arguments,
            environment: environment,
            within: limit
        )
    }

    /// Runs `cloudfs`, which must succeed.
    ///
    /// - Returns: What it wrote to standard output.
    @discardableResult
    public func mustDo(
        _ arguments: [String],
        within limit: Duration = .seconds(30)
    ) async throws -> String {
        let result = try await cloudfs(arguments, within: limit)
        guard result.status == 0 else { throw Shell.Failure(result: result) }
        return result.output
    }

    /// `DRIVE`, `CLOUD` and `SCRATCH` (a plain folder), `cloudfs` in the path, examples too, and
    /// plain messages.
    public var environment: [String: String] {
        mount.environment.merging([
            "DRIVE": path, "CLOUD": cloud.path, "SCRATCH": "\(folder)/run", "LC_ALL": "C.UTF-8",
            "PATH": [
                URL(filePath: TestMount.binary("cloudfs")).deletingLastPathComponent().path,
                TestMount.products, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin",
                "/sbin", "/bin",
            ].joined(separator: ":"),
            "GIT_CONFIG_NOSYSTEM": "1", "PYTHONDONTWRITEBYTECODE": "1",
        ]) { $1 }
    }

    private static let pythonPrelude = """
        import ctypes, errno, fcntl, mmap, os, signal, sqlite3, stat, struct, sys, tempfile, time
        os.chdir(os.environ["DRIVE"])
        cloud = os.environ["CLOUD"]
        def fails(code, function, *arguments, **named):
            try:
                result = function(*arguments, **named)
            except OSError as error:
                assert error.errno == code, f"{error} instead of {errno.errorcode[code]}"
            else:
                raise AssertionError(f"{result} instead of {errno.errorcode[code]}")
        def renameat2(source, target, flags):
            result = ctypes.CDLL(None, use_errno=True).renameat2(
                -100, source.encode(), -100, target.encode(), flags)
            if result != 0:
                raise OSError(ctypes.get_errno(), "renameat2")

        """
}

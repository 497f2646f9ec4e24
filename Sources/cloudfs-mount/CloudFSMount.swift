import ArgumentParser
import CloudFS
import Dispatch
import Glibc

/// `cloudfs-mount`, also called as `mount.cloudfs`: arguments to a running drive.
@main enum CloudFSMount {
    static func main() {
        let given = CommandLine.arguments.dropFirst()
        if given.first == Announcer.flag { return Announcer.run(Array(given.dropFirst())) }
        ProcessSetup.openStandardDescriptors()
        TaskThreads.takeOver()
        Task { await runAndExit() }
        dispatchMain()
    }

    private static func runAndExit() async -> Never {
        let program = CommandLine.arguments.first ?? "cloudfs-mount"
        let isHelper = MountConfiguration.HelperArguments.isHelper(program)
        do throws(CloudFSError) {
            exit(try await run(Array(CommandLine.arguments.dropFirst()), isHelper: isHelper))
        } catch {
            Output.line(error.message)
            exit(ExitStatus.of(error, isHelper: isHelper))
        }
    }

    private static func run(
        _ given: [String],
        isHelper: Bool
    ) async throws(CloudFSError) -> Int32 {
        var words = given
        if isHelper {
            let request = try MountConfiguration.HelperArguments.translate(given)
            words = request.words
            if let namespace = request.namespace {
                try Launcher.move(to: namespace, CommandLine.arguments)
            }
        }
        let command: MountCommand
        do {
            command = try MountCommand.parse(words)
        } catch {
            guard MountCommand.exitCode(for: error) != .success else {
                MountCommand.exit(withError: error)
            }
            let reason = MountCommand.message(for: error)
            throw CloudFSError(.invalidArgument, "\(reason); --help lists what is known")
        }
        if let descriptor = command.workerDescriptor {
            return try await Worker(MessageSocket(descriptor)).run()
        }
        let readiness = command.readinessDescriptor.map(ReadinessChannel.init)
        do throws(CloudFSError) {
            let host = try MountConfiguration.Host.current()
            let configuration = try MountConfiguration(command.arguments, host: host)
            if command.dryRun {
                _ = try MountConfiguration.Checks(configuration).run()
                // "mount -f" and "mount -fa" say nothing when all is well.
                if !isHelper { print(configuration.driveFile, terminator: "") }
                return 0
            }
            guard readiness != nil || configuration.foreground else {
                return try Launcher(configuration, arguments: words).launch()
            }
            let supervisor = Supervisor(configuration, words: words, readiness: readiness)
            return try await supervisor.run()
        } catch {
            // The launcher says it to the user; the log keeps it too.
            readiness?.report(.failed(error))
            throw error
        }
    }
}

/// Exit statuses, which differ for `mount`'s helper.
enum ExitStatus {
    static func of(_ error: CloudFSError, isHelper: Bool) -> Int32 {
        switch (error.code == .invalidArgument, isHelper) {
        case (true, false): EX_USAGE
        case (false, false): 1
        // mount(8): 1 is an incorrect invocation, 32 a mount failure.
        case (true, true): 1
        case (false, true): 32
        }
    }
}

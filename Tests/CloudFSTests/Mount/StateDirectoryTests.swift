import Foundation
import Testing

@testable import CloudFS

@Suite struct StateDirectoryTests {
    private static func path(
        _ container: String = "/srv/My Cloud",
        _ mountpoint: String = "/mnt/x",
        _ host: MountConfiguration.Host = .test()
    ) throws -> String {
        try StateDirectory.defaultPath(
            container: .local(path: container),
            mountpoint: mountpoint,
            host: host
        )
    }

    @Test func `the derived place never changes between versions`() throws {
        // A change here would make users' queued changes disappear from their drives.
        #expect(
            try Self.path() == "/home/ann/.local/share/cloudfs/My_Cloud-4b9098a636e80ed7"
        )
    }

    @Test func `container and mountpoint each decide`() throws {
        let places = try [
            Self.path(), Self.path("/srv/My Cloud2"), Self.path("/srv/My Cloud", "/mnt/y"),
            Self.path("/srv/My_Cloud"),
        ]
        #expect(Set(places).count == places.count)
        #expect(try Self.path() == places[0])
    }

    @Test func `environment and user decide where it is`() throws {
        let xdg = ["XDG_DATA_HOME": "/data", "HOME": "/home/ann"]
        #expect(try Self.path("/c", "/m", .test(xdg)).hasPrefix("/data/cloudfs/c-"))
        let relative = ["XDG_DATA_HOME": "data", "HOME": "/home/ann"]
        #expect(
            try Self.path("/c", "/m", .test(relative)).hasPrefix("/home/ann/.local/share/cloudfs/")
        )
        for environment in [[:], ["HOME": "/root"]] {
            let place = try Self.path("/c", "/m", .test(environment, userID: 0))
            #expect(place.hasPrefix("/var/lib/cloudfs/c-"))
        }
        let message = sentence { _ = try Self.path("/c", "/m", .test([:])) }
        #expect(message.contains("--state-dir"))
    }

    @Test func `it is made private with everything that leads to it`() throws {
        let scratch = try MountScratch()
        let path = "\(scratch.path)/a/b/state"
        let state = try StateDirectory(at: path)
        var status = stat()
        #expect(stat(path, &status) == 0)
        #expect(status.st_mode & 0o7777 == 0o700)
        #expect(chmod(path, 0o755) == 0)
        _ = try StateLock(state, mountpoint: "/m")
        _ = try StateDirectory(at: path)
        #expect(stat(path, &status) == 0)
        #expect(status.st_mode & 0o7777 == 0o700)
    }

    @Test func `a folder with other files is never taken over`() throws {
        let scratch = try MountScratch()
        _ = try scratch.file("letter.txt")
        #expect(chmod(scratch.path, 0o755) == 0)
        let message = sentence { _ = try StateDirectory(at: scratch.path) }
        #expect(message.contains("holds other files"))
        var status = stat()
        #expect(stat(scratch.path, &status) == 0)
        #expect(status.st_mode & 0o777 == 0o755)
        let file = sentence { _ = try StateDirectory(at: "\(scratch.path)/letter.txt") }
        #expect(file.contains("is not a folder"))
    }
}

@Suite struct StateLockTests {
    /// Runs `flock` of util-linux, another process.
    private static func flock(_ arguments: [String]) throws -> (Process, Pipe, Pipe) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/flock")
        process.arguments = arguments
        let input = Pipe()
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        return (process, input, output)
    }

    @Test func `while it is held no other process gets it, and afterwards it does`() throws {
        let scratch = try MountScratch()
        let state = try StateDirectory(at: "\(scratch.path)/state")
        var lock: StateLock? = try StateLock(state, mountpoint: "/m")
        #expect(StateLock.owner(of: state.path) == .init(process: getpid(), mountpoint: "/m"))
        let (held, _, _) = try Self.flock(["-n", state.lockPath, "true"])
        held.waitUntilExit()
        #expect(held.terminationStatus == 1)
        withExtendedLifetime(lock) {}
        lock = nil
        let (free, _, _) = try Self.flock(["-n", state.lockPath, "true"])
        free.waitUntilExit()
        #expect(free.terminationStatus == 0)
    }

    @Test(.timeLimit(.minutes(10)))
    func `another process's lock is reported with its number, and waited for`() throws {
        let scratch = try MountScratch()
        let state = try StateDirectory(at: "\(scratch.path)/state")
        _ = try scratch.file("state/lock", "4711\n/nowhere/drive\n")
        let (process, input, output) = try Self.flock([state.lockPath, "head", "-c", "1"])
        // `head` echoes the byte once the lock is held; then it is run again to hold it longer.
        try input.fileHandleForWriting.write(contentsOf: Data("x".utf8))
        _ = output.fileHandleForReading.readData(ofLength: 1)
        process.waitUntilExit()

        let (holder, hold, ready) = try Self.flock(
            [state.lockPath, "sh", "-c", "echo held; cat"]
        )
        #expect(ready.fileHandleForReading.readData(ofLength: 5).count == 5)
        let message = sentence { _ = try StateLock(state, mountpoint: "/m") }
        #expect(message.contains("process 4711 for the drive at /nowhere/drive"))
        let brief = sentence {
            _ = try StateLock(state, mountpoint: "/m", patience: .milliseconds(50))
        }
        #expect(brief == message)

        // The owner's drive is not mounted any more, so it is about to end: wait for that.
        let closing = Thread {
            do {
                try hold.fileHandleForWriting.close()
            } catch {
                Issue.record(error)
            }
        }
        closing.start()
        let lock = try StateLock(state, mountpoint: "/m", patience: .seconds(30))
        #expect(StateLock.owner(of: state.path)?.process == getpid())
        withExtendedLifetime(lock) {}
        holder.waitUntilExit()
    }
}

import ArgumentParser
import CloudFSClient
import CloudFSControlAPI
import Glibc

/// The paths of a command line, sorted by the drives they lie in.
struct Targets: Sendable {
    /// A path as it was typed and as the drive knows it.
    struct Target: Sendable {
        var typed: String
        var path: DrivePath
    }

    let client: DriveClient
    private(set) var targets: [Target]

    var paths: [DrivePath] { targets.map(\.path) }
    var drive: DriveAddress { client.drive }

    /// Finds the drive of every path; drives are in the order they are first named.
    static func find(_ paths: [String], patience: Duration = .seconds(35)) throws -> [Targets] {
        let locator = try DriveLocator.current()
        var found: [Targets] = []
        for typed in paths {
            let location = try locator.location(of: typed)
            let target = Target(typed: typed, path: location.path)
            let index = found.firstIndex { $0.drive.mountpoint == location.drive.mountpoint }
            if let index {
                found[index].targets.append(target)
            } else {
                try location.drive.requireDaemon()
                let client = DriveClient(location.drive, patience: patience)
                found.append(Targets(client: client, targets: [target]))
            }
        }
        return found
    }

    /// How to write a path of the drive: beginning with what was typed, where it is below that.
    func shown(_ path: DrivePath) -> String {
        let above = targets.filter { path.names.starts(with: $0.path.names) }
        guard let target = above.max(by: { $0.path.names.count < $1.path.names.count }) else {
            return path.isRoot
                ? drive.mountpoint : Self.joined(drive.mountpoint, path.description)
        }
        let rest = path.names.dropFirst(target.path.names.count)
            .map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
        if rest.isEmpty { return target.typed }
        return target.typed == "." ? rest : Self.joined(target.typed, rest)
    }

    mutating func keep(_ keeps: (DrivePath) -> Bool) {
        targets = targets.filter { keeps($0.path) }
    }

    private static func joined(_ folder: String, _ rest: String) -> String {
        folder.hasSuffix("/") ? folder + rest : folder + "/" + rest
    }
}

/// Which drive a command is about, where it is about a whole one.
struct DriveArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "Any path in the drive.",
            discussion: "By default the working folder's drive, or the only drive there is."
        ),
        completion: .directory
    )
    var drive: String?

    func client() throws -> DriveClient {
        let locator = try DriveLocator.current()
        let found = try Self.drive(named: drive, locator)
        try found.requireDaemon()
        return DriveClient(found)
    }

    private static func drive(
        named path: String?,
        _ locator: DriveLocator
    ) throws -> DriveAddress {
        do throws(DriveClientError) {
            return try locator.location(of: path ?? ".").drive
        } catch {
            guard case .notInDrive = error, path == nil else { throw error }
            let mounted = try locator.drives().filter(\.isMounted)
            guard let only = mounted.first else { throw NoDrive() }
            guard mounted.count == 1 else {
                throw ValidationError(
                    "there are \(mounted.count) drives; name a path in one of them"
                )
            }
            return only
        }
    }
}

/// Nothing is mounted that a command could be about.
struct NoDrive: Error, CustomStringConvertible {
    let description = "there is no drive; mount one with cloudfs-mount"
}

extension DriveAddress {
    /// Waits for a worker that is about to take over.
    ///
    /// - Throws: `noDaemon` when there is none, and nobody who would start one.
    func requireDaemon() throws(DriveClientError) {
        let end = ContinuousClock.now + .seconds(10)
        while SocketProbe.ask(socketPath) != .listening {
            guard isMounted, let pid = record?.pid, kill(pid, 0) == 0 || errno == EPERM,
                ContinuousClock.now < end
            else { throw DriveClientError.noDaemon(mountpoint: mountpoint, pid: record?.pid) }
            usleep(20_000)
        }
    }
}

extension Targets {
    /// Writes what was refused, and whether that is nothing.
    func report(_ results: [ItemResult]) -> Bool {
        var isDone = true
        for result in results where !result.done {
            isDone = false
            var reason = result.reason ?? result.code ?? "no reason was given"
            // Which item it is about is said before the colon.
            let name = "\(result.path) "
            if reason.hasPrefix(name) { reason.removeFirst(name.count) }
            Terminal.errors.line("\(shown(result.path).printable): \(reason.printable)")
        }
        return isDone
    }
}

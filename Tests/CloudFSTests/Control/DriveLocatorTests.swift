import CloudFSClient
import CloudFSControlAPI
import Foundation
import Glibc
import Synchronization
import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct DriveLocatorTests {
    let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
    }

    private func locator(_ lines: String..., user: UInt32 = geteuid()) -> DriveLocator {
        DriveLocator(
            mounts: MountTable(text: lines.joined(separator: "\n")),
            workingFolder: "/",
            user: user,
            folders: [RuntimeDirectory(path: folder.path + "/none", owner: geteuid())]
                + [folder.directory]
        )
    }

    private var mine: String {
        "40 1 0:50 / /mnt/drive rw - fuse.cloudfs x rw,user_id=\(geteuid())"
    }

    @Test func `a drive is found by a path in it and can be asked`() async throws {
        try await withServer(in: folder) { _, _ in
            let location = try locator(mine).location(of: "/mnt/drive/a/b")
            #expect(location.path.text == "a/b")
            #expect(location.drive.isListening)
            #expect(location.drive.record?.pid == getpid())
            let status = try await DriveClient(location.drive).status()
            #expect(status.mountpoint == "/mnt/drive")
        }
    }

    @Test func `a folder bound elsewhere leads to its place in the drive`() async throws {
        let bound = "41 1 0:50 /Docs /docs rw - fuse.cloudfs x rw,user_id=\(geteuid())"
        try await withServer(in: folder) { _, _ in
            let location = try locator(bound, mine).location(of: "/docs/a")
            #expect(location.drive.mountpoint == "/mnt/drive")
            #expect(location.path.text == "Docs/a")
        }
    }

    @Test func `a drive without a daemon is found and says who it was`() async throws {
        let record = DriveRecord(
            mountpoint: "/mnt/drive",
            containerURL: "local:/c",
            stateDirectory: "/s",
            pid: 4_242
        )
        try folder.directory.create()
        let path = folder.directory.recordPath(mountpoint: "/mnt/drive")
        try JSONEncoder().encode(record).write(to: URL(filePath: path))
        let drive = try locator(mine).location(of: "/mnt/drive/x").drive
        #expect(!drive.isListening)
        #expect(drive.isMounted)
        let error = await #expect(throws: DriveClientError.self) {
            try await DriveClient(drive).status()
        }
        #expect(error == .noDaemon(mountpoint: "/mnt/drive", pid: 4_242))
        #expect(error?.description.contains("pid 4242") == true)
    }

    @Test func `a daemon that listens and does not answer is told from one that is gone`()
        async throws
    {
        let drive = FakeDrive()
        drive.state.withLock { $0.holds = true }
        try await withServer(drive, in: folder) { client, _ in
            let hasty = DriveClient(client.drive, patience: .milliseconds(50))
            await #expect(
                throws: DriveClientError.notAnswering(mountpoint: "/mnt/drive", pid: getpid())
            ) { try await hasty.status() }
        }
    }

    @Test func `a path in no drive is named`() {
        #expect(throws: DriveClientError.notInDrive(path: "/mnt/drive2")) {
            try locator(mine).location(of: "/mnt/drive2")
        }
    }

    @Test func `another user's drive is said to be that`() {
        let other = "40 1 0:50 / /mnt/drive rw - fuse.cloudfs x rw,user_id=77"
        #expect(throws: DriveClientError.otherUser(mountpoint: "/mnt/drive", user: 77)) {
            try locator(other, user: 78).location(of: "/mnt/drive/a")
        }
    }

    @Test func `a folder that others can write to is not trusted`() throws {
        try folder.directory.create()
        #expect(chmod(folder.directory.path, 0o777) == 0)
        #expect(
            throws: DriveClientError.insecure(
                .open(path: folder.directory.path, mode: 0o777)
            )
        ) { try locator(mine).location(of: "/mnt/drive") }
        #expect(try locator().drives().isEmpty)
    }

    @Test func `all drives are listed, mounted or only recorded, until forgotten`() async throws {
        let record = DriveRecord(
            mountpoint: "/mnt/gone",
            containerURL: "local:/g",
            stateDirectory: "/s",
            pid: 4_242
        )
        try folder.directory.create()
        let path = folder.directory.recordPath(mountpoint: "/mnt/gone")
        try JSONEncoder().encode(record).write(to: URL(filePath: path))
        try await withServer(in: folder) { _, _ in
            let drives = try locator(mine).drives()
            #expect(drives.map(\.mountpoint) == ["/mnt/drive", "/mnt/gone"])
            #expect(drives.map(\.isMounted) == [true, false])
            #expect(drives.map(\.isListening) == [true, false])
            for drive in drives { try locator(mine).forget(drive) }
            #expect(try locator(mine).drives().map(\.mountpoint) == ["/mnt/drive"])
            _ = try await DriveClient(drives[0]).status()
        }
    }
}

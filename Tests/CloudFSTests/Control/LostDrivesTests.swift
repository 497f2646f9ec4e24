import CloudFSClient
import CloudFSControlAPI
import Foundation
import Glibc
import Testing

@testable import cloudfs

/// What `cloudfs mounts` no longer lists.
@Suite struct LostDrivesTests {
    let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
        try folder.directory.create()
    }

    private func locator(_ mounts: String = "") -> DriveLocator {
        DriveLocator(
            mounts: MountTable(text: mounts),
            workingFolder: "/",
            user: geteuid(),
            folders: [folder.directory]
        )
    }

    /// Leaves a record as a daemon does that is killed.
    private func leaveRecord(_ name: String, state: String) throws -> String {
        let record = DriveRecord(
            mountpoint: "\(folder.path)/\(name)",
            containerURL: "local:/c",
            stateDirectory: "\(folder.path)/\(state)",
            pid: 4_242
        )
        let path = folder.directory.recordPath(mountpoint: record.mountpoint)
        try JSONEncoder().encode(record).write(to: URL(filePath: path))
        return path
    }

    private func make(_ names: String...) throws {
        for name in names {
            try FileManager.default.createDirectory(
                atPath: "\(folder.path)/\(name)",
                withIntermediateDirectories: true
            )
        }
    }

    @Test func `a drive that is gone is listed as long as its folders are there`() throws {
        try make("kept", "state")
        let records = [
            try leaveRecord("kept", state: "state"),
            try leaveRecord("kept/unmade", state: "state"),
            try leaveRecord("state", state: "unmade"),
        ]
        let drives = try MountsCommand.drives(locator())
        #expect(drives.map(\.mountpoint) == ["\(folder.path)/kept"])
        #expect(records.map { FileManager.default.fileExists(atPath: $0) } == [true, false, false])
    }

    @Test func `a drive that is mounted is listed without its folders`() throws {
        _ = try leaveRecord("dead", state: "unmade")
        let mount =
            "40 1 0:50 / \(folder.path)/dead rw - fuse.cloudfs x rw,user_id=\(geteuid())"
        #expect(try MountsCommand.drives(locator(mount)).count == 1)
    }

    @Test func `no folder in another drive is looked at`() throws {
        try make("state")
        _ = try leaveRecord("drive/inner", state: "state")
        let mount =
            "40 1 0:50 / \(folder.path)/drive rw - fuse.cloudfs x rw,user_id=\(geteuid())"
        #expect(try MountsCommand.drives(locator(mount)).count == 2)
    }
}

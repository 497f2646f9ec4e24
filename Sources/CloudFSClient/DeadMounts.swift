import Dispatch
import Foundation
import Glibc
import Synchronization

/// Mounts that nobody serves any more: whatever is asked of them fails with ENOTCONN.
public enum DeadMounts {
    /// Takes the dead ones among this user's mounts out of the tree.
    ///
    /// - Returns: Where they were.
    public static func detachAll(_ locator: DriveLocator) throws(DriveClientError) -> [String] {
        var detached: [String] = []
        for mountpoint in locator.unservedMountpoints where isDead(mountpoint) {
            try detach(mountpoint)
            detached.append(mountpoint)
        }
        return detached
    }

    /// Takes a mount out of the tree, whatever state it is in; who is not root needs a helper.
    public static func detach(_ mountpoint: String) throws(DriveClientError) {
        if geteuid() == 0 {
            let flags = Int32(MNT_DETACH | UMOUNT_NOFOLLOW)
            guard umount2(mountpoint, flags) == 0 else {
                throw .system(path: mountpoint, errno: errno)
            }
            return
        }
        let helper = Process()
        helper.executableURL = URL(filePath: "/usr/bin/env")
        helper.arguments = ["fusermount3", "-u", "-z", "--", mountpoint]
        do {
            try helper.run()
        } catch {
            throw .system(path: "fusermount3", errno: ENOENT)
        }
        helper.waitUntilExit()
        guard helper.terminationStatus == 0 else { throw .system(path: mountpoint, errno: EBUSY) }
    }

    /// Whether the connection of a mount is cut.
    ///
    /// One that hangs is not: a thread of its own bears the wait for it. `statvfs`, because the
    /// kernel answers `stat` of a root it knows by itself.
    public static func isDead(_ mountpoint: String) -> Bool {
        let answer = Answer()
        DispatchQueue.global().async {
            var status = statvfs()
            let reason = statvfs(mountpoint, &status) == 0 ? 0 : errno
            answer.reason.withLock { $0 = reason }
            answer.isThere.signal()
        }
        guard answer.isThere.wait(timeout: .now() + 1) == .success else { return false }
        // The other one is said to who waits for an answer in that moment.
        return [ENOTCONN, ECONNABORTED].contains(answer.reason.withLock { $0 })
    }

    private final class Answer: Sendable {
        let reason = Mutex<Int32>(0)
        let isThere = DispatchSemaphore(value: 0)
    }
}

public import CloudFSControlAPI
import Glibc

/// Why a drive could not be asked, or did not do what it was asked.
public enum DriveClientError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The path lies in no drive.
    case notInDrive(path: String)
    /// There is a mount, and nobody serves it.
    case noDaemon(mountpoint: String, pid: Int32?)
    /// Somebody listens and does not answer in time.
    case notAnswering(mountpoint: String, pid: Int32?)
    /// The drive is another user's.
    case otherUser(mountpoint: String, user: UInt32)
    /// The folder of the sockets cannot be trusted.
    case insecure(RuntimeDirectory.Fault)
    /// The drive refused.
    case failure(ControlFailure)
    /// The answer makes no sense; command and daemon may be of different versions.
    case badAnswer(String)
    case system(path: String, errno: Int32)

    public var description: String {
        switch self {
        case .notInDrive(""):
            return "an empty path names nothing"
        case .notInDrive(let path):
            return "\(path) is in no drive; `cloudfs mounts` lists the drives"
        case .noDaemon(let mountpoint, let pid?):
            return "the drive at \(mountpoint) has no running daemon (it was pid \(pid)); "
                + "mount it again with cloudfs-mount, or detach it: "
                + "cloudfs unmount --force \(mountpoint)"
        case .noDaemon(let mountpoint, nil):
            return "no daemon was found for the drive at \(mountpoint); one that runs was started "
                + "with another XDG_RUNTIME_DIR; if none runs, mount it again with cloudfs-mount, "
                + "or detach it: cloudfs unmount --force \(mountpoint)"
        case .notAnswering(let mountpoint, let pid):
            let who = pid.map { " (pid \($0))" } ?? ""
            return "the daemon of the drive at \(mountpoint)\(who) does not answer; try again, "
                + "or detach it: cloudfs unmount --force \(mountpoint)"
        case .otherUser(let mountpoint, let user):
            return "the drive at \(mountpoint) belongs to user \(user)"
        case .insecure(let fault):
            return "the folder of the sockets is not safe: \(fault)"
        case .failure(let failure):
            return failure.message
        case .badAnswer(let what):
            return "the drive's answer was not understood: \(what)"
        case .system(let path, let errno):
            return "\(path): \(String(cString: strerror(errno)))"
        }
    }

    /// Whether there is a daemon, and it does not answer.
    public var isSilence: Bool {
        guard case .notAnswering = self else { return false }
        return true
    }
}

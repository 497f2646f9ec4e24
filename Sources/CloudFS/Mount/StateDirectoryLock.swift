import Dispatch
import Glibc
import Synchronization

/// The right to be the one daemon of a state directory, held for as long as this object lives.
///
/// An `flock`, so that a daemon that was killed leaves nothing to clean up. The file's first line
/// is the number of the process, the second its mountpoint; both only inform.
package final class StateLock: Sendable {
    /// Who holds a lock, as far as the file says.
    package struct Owner: Equatable, Sendable {
        package var process: Int32
        package var mountpoint: String?
    }

    /// Whoever has it too keeps the lock with it.
    package let descriptor: Int32

    /// Takes the lock of `directory`.
    ///
    /// - Parameters:
    ///   - directory: Which drive's.
    ///   - mountpoint: Where the drive will be.
    ///   - patience: How long to wait for a daemon that was unmounted and is just ending.
    /// - Throws: `lockHeld` with the owner's process number; `denied` and the like.
    package init(
        _ directory: StateDirectory,
        mountpoint: String,
        patience: Duration = .zero
    ) throws(CloudFSError) {
        let flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW
        let descriptor = open(directory.lockPath, flags, 0o600)
        guard descriptor >= 0 else {
            throw StateDirectory.failure("cannot be locked", directory.path, errno)
        }
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let owner = Self.owner(of: directory.path)
            let isServing = owner.map(Self.isServing)
            guard isServing == false, patience > .zero else {
                close(descriptor)
                throw Self.held(directory.path, owner)
            }
            // A thread that was given up closes the descriptor itself.
            guard Self.wait(descriptor, patience) else {
                throw Self.held(directory.path, owner)
            }
        }
        self.descriptor = descriptor
        let text = Array("\(getpid())\n\(mountpoint)\n".utf8)
        guard ftruncate(descriptor, 0) == 0,
            pwrite(descriptor, text, text.count, 0) == text.count
        else {
            // `deinit` closes it.
            throw StateDirectory.failure("cannot be written", directory.path, errno)
        }
    }

    deinit {
        close(descriptor)
    }

    /// Whether a daemon was here for the drive at `mountpoint` that holds the lock no more.
    ///
    /// A worker has the lock a moment longer than the supervisor that it dies with: that is
    /// waited for.
    package static func isAbandoned(_ path: String, at mountpoint: String) -> Bool {
        guard let owner = owner(of: path), owner.mountpoint == mountpoint else { return false }
        let descriptor = open("\(path)/lock", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        if flock(descriptor, LOCK_SH | LOCK_NB) != 0 {
            guard !isAlive(owner) else {
                close(descriptor)
                return false
            }
            // A thread that was given up closes the descriptor itself.
            guard wait(descriptor, orphanPatience) else { return false }
        }
        close(descriptor)
        return true
    }

    private static let orphanPatience = Duration.seconds(15)

    private static func isAlive(_ owner: Owner) -> Bool {
        kill(owner.process, 0) == 0 || errno != ESRCH
    }

    /// Who last took the lock of the state directory at `path`.
    package static func owner(of path: String) -> Owner? {
        let descriptor = open("\(path)/lock", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX) + 16)
        let count = read(descriptor, &bytes, bytes.count)
        let lines = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
            .split(separator: "\n")
        guard let first = lines.first, let process = Int32(first) else { return nil }
        return Owner(process: process, mountpoint: lines.count > 1 ? String(lines[1]) : nil)
    }

    /// Whether the owner lives and its drive can still be seen; else its last process ends soon.
    private static func isServing(_ owner: Owner) -> Bool {
        guard isAlive(owner) else { return false }
        guard let mountpoint = owner.mountpoint else { return true }
        do throws(CloudFSError) {
            let mount = try MountConfiguration.MountTable.current().mount(at: mountpoint)
            return mount?.type == MountConfiguration.MountTable.driveType
        } catch {
            // Who cannot tell does not wait.
            return true
        }
    }

    private static func held(_ path: String, _ owner: Owner?) -> CloudFSError {
        let process = owner.map { ", process \($0.process)" } ?? ""
        let place = owner?.mountpoint.map { " for the drive at \($0)" } ?? ""
        return CloudFSError(
            .lockHeld,
            "the state directory \(path) belongs to another running cloudfs-mount"
                + "\(process)\(place); end that one first, or choose another with --state-dir"
        )
    }

    /// The kernel wakes the waiter the moment the lock is free; a thread bears the wait.
    private static func wait(_ descriptor: Int32, _ patience: Duration) -> Bool {
        let waiter = LockWaiter()
        OwnThread.start("cloudfs-lock") {
            var result = flock(descriptor, LOCK_EX)
            while result != 0, errno == EINTR { result = flock(descriptor, LOCK_EX) }
            waiter.finish(isTaken: result == 0) { close(descriptor) }
        }
        return waiter.wait(patience)
    }
}

/// One thread's wait for a lock, which the asker may give up.
private final class LockWaiter: Sendable {
    private enum State {
        case waiting
        case taken
        case failed
        case abandoned
    }

    private let state = Mutex(State.waiting)
    private let isOver = DispatchSemaphore(value: 0)

    /// Ends the wait; `discard` runs when nobody wants the lock any more.
    func finish(isTaken: Bool, discard: () -> Void) {
        let isWanted = state.withLock { state in
            guard state == .waiting else { return false }
            state = isTaken ? .taken : .failed
            return true
        }
        if isWanted { isOver.signal() } else { discard() }
    }

    /// Whether the lock was taken in time.
    func wait(_ patience: Duration) -> Bool {
        _ = isOver.wait(timeout: .now() + (patience / .seconds(1)))
        return state.withLock { state in
            if state == .waiting { state = .abandoned }
            return state == .taken
        }
    }
}

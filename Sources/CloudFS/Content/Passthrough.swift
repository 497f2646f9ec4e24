import CLinux
import Glibc
import Synchronization

/// Lets the kernel read and write content files itself, where it may: at the speed of the disk.
///
/// The kernel knows a content file by an id, which belongs to one item from the first handle that
/// is opened until the last one is closed.
final class Passthrough: Sendable {
    enum Mode: Sendable, Equatable {
        case on
        /// Why not.
        case off(String)
    }

    private struct State {
        /// `/dev/fuse`, as long as the mount lives.
        var device: Int32?
        var mode: Mode
        /// The ids that an earlier worker had, if there was one.
        var kept: Set<Int32>?
    }

    /// How many ids a killed worker can have got at most that no handle tells of.
    private static let mostForgotten: Int32 = 64

    private let state: Mutex<State>

    /// - Parameter isWanted: Whether it is used where it is possible.
    init(isWanted: Bool) {
        let reason = isWanted ? "the kernel was not asked yet" : "it is turned off"
        state = Mutex(State(mode: .off(reason)))
        self.isWanted = isWanted
    }

    let isWanted: Bool

    var mode: Mode { state.withLock { $0.mode } }

    /// Begins, if a file of the store can be used.
    ///
    /// - Parameter device: The connection of a mount that agreed on passthrough with the kernel.
    func begin(device: Int32, store: ContentStore) {
        let mode: Mode
        do throws(CloudFSError) {
            let kept = state.withLock { $0.kept }
            mode = Self.mode(device, trying: try store.scratch(), keeping: kept)
        } catch {
            mode = .off(error.message)
        }
        state.withLock { $0 = State(device: mode == .on ? device : nil, mode: mode) }
    }

    /// Takes over from an earlier worker of the mount; to be called first.
    ///
    /// - Parameters:
    ///   - backings: The ids that programs use.
    ///   - left: Those that nobody uses, and which it may not have given back.
    func adopt(_ backings: Set<Int32>, left: Set<Int32>, device: Int32) {
        for id in left { clinux_fuse_backing_close(device, id) }
        state.withLock { $0.kept = backings }
    }

    /// Ends; also where it never began.
    func end(because reason: String) {
        state.withLock { state in
            state.device = nil
            state.mode = .off(reason)
        }
    }

    private static func mode(
        _ device: Int32,
        trying file: ContentFile,
        keeping kept: Set<Int32>?
    ) -> Mode {
        let backing = clinux_fuse_backing_open(device, file.descriptor)
        guard backing > 0 else {
            switch errno {
            case EPERM: return .off("it needs CAP_SYS_ADMIN")
            case ELOOP: return .off("the state directory is on a stacked file system")
            default: return .off(String(cString: strerror(errno)))
            }
        }
        clinux_fuse_backing_close(device, backing)
        // The kernel counts up: those are just before it that were made for opens without an end.
        if let kept {
            for id in max(1, backing - mostForgotten)..<backing where !kept.contains(id) {
                clinux_fuse_backing_close(device, id)
            }
        }
        return .on
    }

    /// Has the kernel use a content file.
    ///
    /// - Returns: Its id there; `nil` if it is to be read and written through the daemon.
    func register(_ file: ContentFile) -> Int32? {
        guard let device = state.withLock({ $0.device }) else { return nil }
        let backing = clinux_fuse_backing_open(device, file.descriptor)
        return backing > 0 ? backing : nil
    }

    func unregister(_ backing: Int32) {
        // Without a device the kernel has forgotten it.
        guard let device = state.withLock({ $0.device }) else { return }
        clinux_fuse_backing_close(device, backing)
    }
}

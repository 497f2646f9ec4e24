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
    }

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
            mode = Self.mode(device, trying: try store.scratch())
        } catch {
            mode = .off(error.message)
        }
        state.withLock { $0 = State(device: mode == .on ? device : nil, mode: mode) }
    }

    /// Ends; also where it never began.
    func end(because reason: String) {
        state.withLock { $0 = State(mode: .off(reason)) }
    }

    private static func mode(_ device: Int32, trying file: ContentFile) -> Mode {
        let backing = clinux_fuse_backing_open(device, file.descriptor)
        guard backing > 0 else {
            switch errno {
            case EPERM: return .off("it needs CAP_SYS_ADMIN")
            case ELOOP: return .off("the state directory is on a stacked file system")
            default: return .off(String(cString: strerror(errno)))
            }
        }
        clinux_fuse_backing_close(device, backing)
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

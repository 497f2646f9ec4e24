import CLinux
import Glibc

/// Makes calls through the mount for changes that are made already, so that the kernel tells
/// programs that watch with inotify.
///
/// A process of its own makes them. A thread of the daemon would wait for the daemon: were that
/// killed meanwhile, the kernel would keep the rest of it until somebody answers, and nobody would.
package enum Announcer {
    /// The first argument of such a process; the mountpoint and the device follow.
    package static let flag = "--announce"

    /// Where a drive is mounted, and the number of the device that it is.
    struct Drive: Sendable {
        var mountpoint: String
        /// As in `/proc/self/mountinfo`.
        var device: String
    }

    /// How long such a process lives at most.
    static let limit = Duration.seconds(10)
    /// Most events of one process.
    private static let mostEvents = 256
    /// Most bytes that one is given, which a pipe takes at once.
    private static let mostBytes = 60 << 10
    /// PATH_MAX, with the NUL: of longer paths the kernel takes none.
    private static let longestPath = 4_096
    private static let program = "/proc/self/exe"

    /// Waits until it is done, or took too long.
    ///
    /// - Parameters:
    ///   - events: With the names of each one's folder, from the drive's root down; at least one.
    ///   - begun: Called with the process before it makes any call.
    /// - Returns: How many of the first were announced, or never can be.
    static func announce(
        _ events: [(event: WatchEvent, folder: [[UInt8]])],
        on drive: Drive,
        begun: @escaping @Sendable (pid_t) -> Void
    ) throws(ChildRun.Failure) -> Int {
        var words: [UInt8] = []
        var count = 0
        for (event, folder) in events.prefix(mostEvents) {
            let word = self.words(for: event, in: folder)
            guard words.count + word.count <= mostBytes else { break }
            words += word
            count += 1
        }
        var run = ChildRun(
            words: [program, flag, drive.mountpoint, drive.device],
            environment: [:],
            limit: limit
        )
        run.input = ChildRun.Input(bytes: words, begun: begun)
        _ = try run.output()
        return count
    }

    /// Whether a process is one, of this worker or another: nothing else is called so.
    static func isOne(_ process: Int32) -> Bool {
        guard let text = ProcessTree.text(of: "/proc/\(process)/cmdline") else { return false }
        let words = text.split(separator: 0, maxSplits: 2)
        return words.count > 1 && words[0].elementsEqual(program.utf8)
            && words[1].elementsEqual(flag.utf8)
    }

    // MARK: - Words

    /// One letter, the number of the folder, its path, and the name, each with a NUL behind it.
    ///
    /// No name can have one. Nothing for a folder that no path leads to.
    private static func words(for event: WatchEvent, in folder: [[UInt8]]) -> [UInt8] {
        let path = [UInt8](folder.joined(separator: [UInt8(ascii: "/")]))
        guard path.count < longestPath else { return [] }
        let number = Array("\(event.place.folder)".utf8)
        return [letter(for: event.kind), 0] + number + [0] + path + [0] + event.place.name.bytes
            + [0]
    }

    private static func letter(for kind: WatchEvent.Kind) -> UInt8 {
        switch kind {
        case .appeared(.folder): UInt8(ascii: "d")
        case .appeared(.symlink): UInt8(ascii: "l")
        case .appeared: UInt8(ascii: "f")
        case .vanished(isFolder: true): UInt8(ascii: "r")
        case .vanished(isFolder: false): UInt8(ascii: "u")
        case .written: UInt8(ascii: "w")
        case .changed: UInt8(ascii: "a")
        }
    }

    // MARK: - The process

    /// What such a process does, on its first thread: requests bear the number of a thread, and the
    /// first one's is the process's.
    ///
    /// What fails is left: the drive may be unmounted by now, a folder not be writable, or a
    /// program have looked at what has appeared.
    package static func run(_ arguments: [String]) {
        // It must not outlive the worker that knows it.
        guard arguments.count == 2, clinux_die_with_parent() == 0 else { return }
        alarm(UInt32(limit.components.seconds))
        var words = standardInput().split(separator: 0, omittingEmptySubsequences: false)[...]
        let root = open(arguments[0], clinux_o_path | O_DIRECTORY | O_CLOEXEC)
        guard root >= 0 else { return }
        var status = stat()
        guard fstat(root, &status) == 0,
            InotifyWatches.number(of: arguments[1]) == Self.kernelNumber(of: status.st_dev),
            isKnown(in: root)
        else { return }
        while words.count > 4 {
            let (letter, number) = (words[words.startIndex].first, words[words.startIndex + 1])
            let path = words[words.startIndex + 2]
            let name = words[words.startIndex + 3]
            words = words.dropFirst(4)
            guard let letter, let inode = UInt(String(decoding: number, as: UTF8.self)) else {
                continue
            }
            let folder = self.folder(path, in: root)
            guard folder >= 0 else { continue }
            defer { close(folder) }
            guard fstat(folder, &status) == 0, status.st_ino == inode else { continue }
            (Array(name) + [0]).map { CChar(bitPattern: $0) }.withUnsafeBufferPointer { name in
                if let name = name.baseAddress { call(letter, name, in: folder) }
            }
        }
    }

    /// Whether the drive answers this process as the one that announces.
    ///
    /// If it does not, as in another PID namespace, or when another worker answers by now, the
    /// calls would be real ones.
    private static func isKnown(in root: Int32) -> Bool {
        var status = stat()
        let name = (ItemName.announcing.bytes + [0]).map { CChar(bitPattern: $0) }
        return fstatat(root, name, &status, AT_SYMLINK_NOFOLLOW) == 0
            && Int64(bitPattern: UInt64(status.st_ino)) == VirtualNode.formerFile.rawValue
    }

    private static func call(_ letter: UInt8, _ name: UnsafePointer<CChar>, in folder: Int32) {
        switch letter {
        case UInt8(ascii: "f"): _ = mknodat(folder, name, S_IFREG | 0o600, 0)
        case UInt8(ascii: "d"): _ = mkdirat(folder, name, 0o700)
        case UInt8(ascii: "l"): _ = symlinkat("-", folder, name)
        case UInt8(ascii: "u"): _ = unlinkat(folder, name, 0)
        case UInt8(ascii: "r"): _ = unlinkat(folder, name, AT_REMOVEDIR)
        case UInt8(ascii: "w"): touch(name, in: folder, isWritten: true)
        case UInt8(ascii: "a"): touch(name, in: folder, isWritten: false)
        default: return
        }
    }

    /// Sets times to what they are.
    ///
    /// - Parameter isWritten: The time of modification alone, which the kernel takes for writing.
    private static func touch(_ name: UnsafePointer<CChar>, in folder: Int32, isWritten: Bool) {
        var status = stat()
        guard fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return }
        var times = [status.st_atim, status.st_mtim]
        if isWritten { times[0].tv_nsec = clinux_utime_omit }
        _ = utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW)
    }

    private static func folder(_ path: some Sequence<UInt8>, in root: Int32) -> Int32 {
        let text = Array(path)
        let bytes = (text.isEmpty ? [UInt8(ascii: ".")] : text) + [0]
        return bytes.map { CChar(bitPattern: $0) }.withUnsafeBufferPointer { path in
            guard let path = path.baseAddress else { return -1 }
            return openat(root, path, clinux_o_path | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        }
    }

    private static func standardInput() -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 << 10)
        while case let count = read(0, &piece, piece.count), count > 0 { bytes += piece[..<count] }
        return bytes
    }

    /// What the kernel itself calls a device that `stat` tells of.
    private static func kernelNumber(of device: dev_t) -> UInt32 {
        let major = UInt32(device >> 8 & 0xfff)
        let minor = UInt32(device & 0xff | device >> 12 & 0xfff00)
        return major << 20 | minor
    }
}

import Glibc

/// Which files programs watch with inotify, as `/proc` tells of each descriptor.
///
/// Only of programs that this process may look into: a user's own, or all for root.
enum InotifyWatches {
    /// The inode numbers of what is watched on one file system.
    ///
    /// - Parameter device: Its number as `/proc/self/mountinfo` has it, like `0:42`.
    static func inodes(onDevice device: String) -> Set<UInt64> {
        guard let device = number(of: device) else { return [] }
        var found: Set<UInt64> = []
        for process in names(in: "/proc") where Int32(process) != nil {
            let folder = "/proc/\(process)/fd"
            for descriptor in names(in: folder) where isInotify("\(folder)/\(descriptor)") {
                let text = whole("/proc/\(process)/fdinfo/\(descriptor)")
                found.formUnion(inodes(in: text, onDevice: device))
            }
        }
        return found
    }

    /// - Parameters:
    ///   - text: What `fdinfo` has of an inotify descriptor; proc(5), `/proc/pid/fdinfo`.
    ///   - device: As `number(of:)` gives it.
    static func inodes(in text: String, onDevice device: UInt32) -> [UInt64] {
        text.split(separator: "\n").compactMap { line in
            guard line.hasPrefix("inotify ") else { return nil }
            var inode: UInt64?
            var isThere = false
            for field in line.split(separator: " ") {
                if field.hasPrefix("ino:") { inode = UInt64(field.dropFirst(4), radix: 16) }
                if field.hasPrefix("sdev:") {
                    isThere = UInt32(field.dropFirst(5), radix: 16) == device
                }
            }
            return isThere ? inode : nil
        }
    }

    /// The kernel's own number of a device: twelve bits of the major number before twenty.
    static func number(of device: String) -> UInt32? {
        let parts = device.split(separator: ":").compactMap { UInt32($0) }
        guard parts.count == 2, parts[0] < 1 << 12, parts[1] < 1 << 20 else { return nil }
        return parts[0] << 20 | parts[1]
    }

    private static func isInotify(_ descriptor: String) -> Bool {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 32) { buffer in
            guard let name = buffer.baseAddress else { return false }
            let count = readlink(descriptor, name, buffer.count)
            guard count > 0 else { return false }
            return buffer.prefix(count).elementsEqual(
                "anon_inode:inotify".utf8.map { CChar(bitPattern: $0) }
            )
        }
    }

    /// The names in a folder; none of one that is gone, or is not to be looked into.
    private static func names(in folder: String) -> [String] {
        guard let stream = opendir(folder) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) {
                    names.append(String(cString: $0))
                }
            }
        }
        return names.filter { !$0.hasPrefix(".") }
    }

    private static func whole(_ path: String) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var text: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 << 10)
        while case let count = read(descriptor, &piece, piece.count), count > 0 {
            text += piece[..<count]
        }
        return String(decoding: text, as: UTF8.self)
    }
}

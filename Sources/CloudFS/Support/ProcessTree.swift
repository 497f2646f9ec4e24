import Glibc

/// Which process started which, as `/proc` tells.
enum ProcessTree {
    /// How far up is looked.
    private static let mostAncestors = 64

    /// The process of a thread, who started it, and so on up to the first; empty if it is gone.
    ///
    /// - Parameter thread: The number of a process or of one of its threads.
    static func ancestors(of thread: Int32) -> [Int32] {
        var found: [Int32] = []
        var next = thread
        while next > 0, found.count < mostAncestors, let (process, parent) = family(of: next) {
            found.append(process)
            next = parent
        }
        return found
    }

    /// What a process or thread calls itself; `nil` if it is gone.
    static func name(of thread: Int32) -> String? {
        guard let text = text(of: "/proc/\(thread)/comm") else { return nil }
        return String(decoding: text.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }

    private static func family(of thread: Int32) -> (process: Int32, parent: Int32)? {
        // The lines wanted are among the first ten, whatever the kernel adds at the end.
        guard let text = text(of: "/proc/\(thread)/status") else { return nil }
        var process: Int32?
        for line in text.split(separator: UInt8(ascii: "\n")) {
            let fields = String(decoding: line, as: UTF8.self).split(separator: "\t")
            guard fields.count == 2, let number = Int32(fields[1]) else { continue }
            if fields[0] == "Tgid:" { process = number }
            if fields[0] == "PPid:", let process { return (process, number) }
        }
        return nil
    }

    /// The beginning of a file.
    static func text(of path: String) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return [UInt8](unsafeUninitializedCapacity: 1_024) { buffer, count in
            count = max(0, Glibc.read(descriptor, buffer.baseAddress, buffer.count))
        }
    }
}

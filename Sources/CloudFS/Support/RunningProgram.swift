import Glibc

/// Which program a process runs, as `/proc` tells.
///
/// What it says of itself is believed: this is for politeness between programs of one user, and no
/// protection from any of them.
struct RunningProgram: Sendable, Hashable {
    /// The file name of its executable; of a script that of the script.
    var name: String
    /// The systemd unit it belongs to, without `.service`; `nil` for none and for scopes, which
    /// hold whatever somebody started.
    var service: String?

    /// The executable of a thread's process, with its path; `nil` if it is gone or another user's.
    static func executable(of thread: Int32) -> String? {
        guard thread > 0, let bytes = link("/proc/\(thread)/exe") else { return nil }
        let path = String(decoding: bytes, as: UTF8.self)
        // An executable that was replaced by an upgrade is the same program.
        return path.hasSuffix(Self.deleted) ? String(path.dropLast(Self.deleted.count)) : path
    }

    /// - Parameter executable: What `executable(of:)` told of the same thread.
    init?(thread: Int32, executable: String?) {
        guard thread > 0 else { return nil }
        if let own = executable.flatMap(Self.fileName) {
            let script = Self.isInterpreter(own) ? Self.script(of: thread) : nil
            name = script ?? own
        } else if let own = ProcessTree.name(of: thread) {
            name = own
        } else {
            return nil
        }
        service = Self.service(of: thread)
    }

    init(name: String, service: String? = nil) {
        self.name = name
        self.service = service
    }

    private static let deleted = " (deleted)"

    private static let interpreters = [
        "python", "perl", "ruby", "bash", "dash", "sh", "zsh", "node", "gjs",
    ]

    /// `python3.13` is `python`, too.
    static func isInterpreter(_ name: String) -> Bool {
        let stem = name.prefix { $0.isLetter }
        let rest = name.dropFirst(stem.count)
        return interpreters.contains(String(stem)) && rest.allSatisfy { $0.isNumber || $0 == "." }
    }

    private static func script(of thread: Int32) -> String? {
        let text = ProcessTree.text(of: "/proc/\(thread)/cmdline") ?? []
        let words = text.split(separator: 0, omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        return script(in: words)
    }

    /// The script or module that the command line of an interpreter names.
    static func script(in words: [String]) -> String? {
        var rest = words.dropFirst()
        while let word = rest.popFirst() {
            if word == "-m" { return rest.first.flatMap(fileName) }
            // What comes next is no file.
            if word == "-c" || word == "-e" { return nil }
            if !word.hasPrefix("-") { return fileName(word) }
        }
        return nil
    }

    /// The last component of a path, if it can be the name of a program.
    private static func fileName(_ path: String) -> String? {
        guard let last = path.split(separator: "/").last, last.utf8.count <= 255,
            last.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7f })
        else { return nil }
        return String(last)
    }

    private static func service(of thread: Int32) -> String? {
        let text = ProcessTree.text(of: "/proc/\(thread)/cgroup") ?? []
        return service(inGroups: String(decoding: text, as: UTF8.self))
    }

    /// The service in the text of `/proc/PID/cgroup`.
    static func service(inGroups text: String) -> String? {
        let line = text.split(separator: "\n").first { $0.hasPrefix("0::") }
        guard let unit = line?.split(separator: "/").last, unit.hasSuffix(".service") else {
            return nil
        }
        return fileName(String(unit.dropLast(".service".count)))
    }

    private static func link(_ path: String) -> [UInt8]? {
        let bytes = [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
            let result = buffer.withMemoryRebound(to: CChar.self) { chars in
                chars.baseAddress.map { readlink(path, $0, chars.count) } ?? -1
            }
            count = max(0, result)
        }
        return bytes.isEmpty ? nil : bytes
    }
}

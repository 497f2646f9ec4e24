import Glibc

/// One process, told apart from all that get its number later, also after the machine started anew.
struct ProcessIdentity: Sendable, Hashable {
    var process: Int32
    /// When it began, in the kernel's ticks since the machine started.
    var began: Int64
    /// The kernel's name for the time since the machine started.
    var boot: String

    init(process: Int32, began: Int64, boot: String) {
        self.process = process
        self.began = began
        self.boot = boot
    }

    /// The process of a thread; `nil` if it is gone.
    init?(thread: Int32) {
        guard let process = ProcessTree.ancestors(of: thread).first, let boot = Self.currentBoot,
            let began = Self.began(process)
        else { return nil }
        self.init(process: process, began: began, boot: boot)
    }

    var isAlive: Bool { boot == Self.currentBoot && Self.began(process) == began }

    /// The time since the machine started; `nil` where the kernel does not tell.
    static let currentBoot: String? = {
        let text = ProcessTree.text(of: "/proc/sys/kernel/random/boot_id")
        return text.map { bytes in
            String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }
    }()

    private static func began(_ process: Int32) -> Int64? {
        guard let text = ProcessTree.text(of: "/proc/\(process)/stat"),
            // The name before may hold anything, brackets too.
            let end = text.lastIndex(of: UInt8(ascii: ")"))
        else { return nil }
        let fields = text[(end + 1)...].split(separator: 0x20)
        // A process that has ended and that nobody has asked about yet does nothing any more.
        guard fields.count > 19, fields[0] != Array("Z".utf8)[...] else { return nil }
        return Int64(String(decoding: fields[19], as: UTF8.self))
    }
}

import CLinux
import Glibc

/// Reads the flags of `open(2)`.
enum OpenFlags {
    static func isWritable(_ flags: Int32) -> Bool { flags & O_ACCMODE != O_RDONLY }
    static func isReadable(_ flags: Int32) -> Bool { flags & O_ACCMODE != O_WRONLY }
    static func access(_ flags: Int32) -> ContentAccess {
        guard isWritable(flags) else { return .reading }
        guard !isReadable(flags) else { return .readingAndWriting }
        let isTouched = flags & O_NONBLOCK != 0 && !truncates(flags) && !appends(flags)
        return isTouched ? .touching : .writing
    }
    /// Whether opening it changes the file, or lets it be changed: `O_TRUNC` does not need to be
    /// able to write.
    static func changes(_ flags: Int32) -> Bool { isWritable(flags) || truncates(flags) }
    static func isSynchronous(_ flags: Int32) -> Bool { flags & O_DSYNC != 0 }
    static func appends(_ flags: Int32) -> Bool { flags & O_APPEND != 0 }
    static func isDirect(_ flags: Int32) -> Bool { flags & clinux_o_direct != 0 }
    static func truncates(_ flags: Int32) -> Bool { flags & O_TRUNC != 0 }
}

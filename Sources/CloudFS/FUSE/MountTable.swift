import Glibc

/// One line of `/proc/self/mountinfo`.
struct MountRecord: Sendable, Equatable {
    /// Major and minor number of the file system, as `0:42`: its identity while it exists.
    var device: String
    /// Which folder of the file system is mounted: `/` for all of it.
    var root: String
    var mountpoint: String
    /// Like `fuse.cloudfs`.
    var type: String

    /// The device as one number; `nil` for what is none.
    var number: UInt64? {
        let parts = device.split(separator: ":").compactMap { UInt32($0) }
        return parts.count == 2 ? UInt64(parts[0]) << 32 | UInt64(parts[1]) : nil
    }
}

/// What is mounted in this mount namespace.
///
/// Read instead of `stat`, which would send requests to the drive and could wait for it.
enum MountTable {
    /// What is mounted at exactly `mountpoint`; if several are, the one on top.
    ///
    /// - Throws: `internalFailure` if the kernel does not tell.
    static func top(at mountpoint: String) throws(CloudFSError) -> MountRecord? {
        try OpenMountTable().top(at: mountpoint)
    }

    /// Everywhere that the file system at `mountpoint` can be seen, that place first.
    ///
    /// Where the kernel does not tell, that one alone.
    static func places(of mountpoint: String) -> [String] {
        guard let records = try? parse(read()),
            let device = records.last(where: { $0.mountpoint == mountpoint })?.device
        else { return [mountpoint] }
        let others = records.filter { $0.device == device && $0.root == "/" }.map(\.mountpoint)
        return [mountpoint] + Set(others).subtracting([mountpoint]).sorted().prefix(7)
    }

    /// What is mounted somewhere below `roots`; nothing where the kernel does not tell.
    static func mountpoints(below roots: [String]) -> [String] {
        let all = (try? parse(read()))?.map(\.mountpoint) ?? []
        return all.filter { mountpoint in
            !roots.contains(mountpoint) && roots.contains { mountpoint.hasPrefix($0 + "/") }
        }
    }

    /// - Source: proc_pid_mountinfo(5)
    static func parse(_ text: String) -> [MountRecord] {
        text.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ")
            guard fields.count > 6, let dash = fields.dropFirst(6).firstIndex(of: "-"),
                dash + 1 < fields.count
            else { return nil }
            return MountRecord(
                device: String(fields[2]),
                root: unescaped(fields[3]),
                mountpoint: unescaped(fields[4]),
                type: unescaped(fields[dash + 1])
            )
        }
    }

    /// Space, tab, newline and backslash are written as three octal digits.
    private static func unescaped(_ field: Substring) -> String {
        let bytes = Array(field.utf8)
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            let digits = bytes[index...].dropFirst().prefix(3)
            if bytes[index] == UInt8(ascii: "\\"), digits.count == 3,
                let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
            {
                result.append(value)
                index += 4
            } else {
                result.append(bytes[index])
                index += 1
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static func read() throws(CloudFSError) -> String { try OpenMountTable().text() }
}

/// The table of mounts held open, so that it can be read when no descriptor is left.
final class OpenMountTable: Sendable {
    private let descriptor: Int32

    /// - Throws: `internalFailure` if it cannot be opened.
    init() throws(CloudFSError) {
        let descriptor = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(Glibc.errno) }
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    /// What is mounted now at exactly `mountpoint`; if several are, the one on top.
    ///
    /// - Throws: `internalFailure` if the kernel does not tell.
    func top(at mountpoint: String) throws(CloudFSError) -> MountRecord? {
        try MountTable.parse(text()).last { $0.mountpoint == mountpoint }
    }

    /// The table as it is now.
    ///
    /// - Throws: `internalFailure` if the kernel does not tell.
    func text() throws(CloudFSError) -> String {
        defer { withExtendedLifetime(self) {} }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = pread(descriptor, &part, part.count, off_t(bytes.count))
            if count < 0, Glibc.errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure(Glibc.errno) }
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += part[..<count]
        }
    }

    private static func failure(_ number: Int32) -> CloudFSError {
        CloudFSError(
            .internalFailure,
            "cannot read /proc/self/mountinfo: \(String(cString: strerror(number)))"
        )
    }
}

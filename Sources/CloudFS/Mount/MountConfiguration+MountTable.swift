import Glibc

extension MountConfiguration {
    /// What is mounted where, as `/proc/self/mountinfo` tells it.
    package struct MountTable: Sendable {
        package struct Entry: Sendable, Equatable {
            package var mountpoint: String
            /// `fuse.cloudfs` for drives.
            package var type: String
            package var source: String
            /// Major and minor number, as in `0:42`.
            package var device = ""
        }

        /// The later of two mounts at one place lies on top.
        package let entries: [Entry]

        /// What a drive is called there.
        package static let driveType = "fuse.cloudfs"

        package init(parsing text: String) {
            entries = text.split(separator: "\n").compactMap(Self.entry)
        }

        /// What is mounted now.
        ///
        /// - Throws: `notFound` when `/proc` cannot be read.
        package static func current() throws(CloudFSError) -> MountTable {
            let descriptor = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else {
                throw CloudFSError(
                    .notFound,
                    "/proc/self/mountinfo cannot be read: \(String(cString: strerror(errno))); "
                        + "mount /proc first"
                )
            }
            defer { close(descriptor) }
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                bytes += buffer[..<count]
            }
            return MountTable(parsing: String(decoding: bytes, as: UTF8.self))
        }

        /// The topmost mount exactly at `path`.
        package func mount(at path: String) -> Entry? {
            entries.last { $0.mountpoint == path }
        }

        /// One line: `36 35 98:0 /root /mountpoint options optional… - type source options`.
        private static func entry(_ line: Substring) -> Entry? {
            let fields = line.split(separator: " ")
            guard fields.count >= 9, let separator = fields[6...].firstIndex(of: "-"),
                separator + 2 < fields.count
            else { return nil }
            return Entry(
                mountpoint: unescaped(fields[4]),
                type: unescaped(fields[separator + 1]),
                source: unescaped(fields[separator + 2]),
                device: String(fields[2])
            )
        }

        /// Space, tab, newline, backslash and `#` are written as `\` and three octal digits.
        static func unescaped(_ field: Substring) -> String {
            var result: [UInt8] = []
            var rest = Array(field.utf8)[...]
            while let byte = rest.popFirst() {
                let digits = rest.prefix(3)
                guard byte == UInt8(ascii: "\\"), digits.count == 3,
                    digits.allSatisfy({ (0x30...0x37).contains($0) }),
                    let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
                else {
                    result.append(byte)
                    continue
                }
                result.append(value)
                rest = rest.dropFirst(3)
            }
            return String(decoding: result, as: UTF8.self)
        }
    }
}

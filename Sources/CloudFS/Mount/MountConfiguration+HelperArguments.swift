import CLinux
import Glibc

extension MountConfiguration {
    /// Rewrites what `mount -t cloudfs` says to its helper into `cloudfs-mount`'s own words.
    ///
    /// `mount` runs `mount.cloudfs SOURCE DIR [-sfnv] [-N namespace] [-o options] [-t type]`. There
    /// `-f` means to pretend and `-s` to bear unknown options, so the letters cannot be shared.
    package enum HelperArguments {
        /// Whether a program called so is `mount`'s helper.
        package static func isHelper(_ programName: String) -> Bool {
            Paths.name(of: programName).hasPrefix("mount.")
        }

        /// What `mount` wants.
        package struct Request: Sendable, Hashable {
            /// The arguments for `cloudfs-mount`.
            package var words: [String] = []
            /// The file of the mount namespace in which the drive has to appear.
            package var namespace: String?
        }

        /// The same request as arguments of `cloudfs-mount`.
        ///
        /// - Throws: `invalidArgument` for letters that `mount` does not use.
        package static func translate(_ arguments: [String]) throws(CloudFSError) -> Request {
            var result = Request()
            var places: [String] = []
            var rest = arguments[...]
            while let argument = rest.popFirst() {
                guard argument.hasPrefix("-"), argument.count > 1 else {
                    places.append(argument)
                    continue
                }
                if argument.hasPrefix("--") {
                    guard ["--help", "--version"].contains(argument) else {
                        throw unknown(argument)
                    }
                    return Request(words: [argument])
                }
                var letters = argument.dropFirst()
                while let letter = letters.popFirst() {
                    switch letter {
                    case "n", "v": break
                    case "s": result.words.append("--sloppy")
                    case "f": result.words.append("--dry-run")
                    case "h": return Request(words: ["--help"])
                    case "V": return Request(words: ["--version"])
                    case "o", "t", "N":
                        let value = letters.isEmpty ? rest.popFirst() : String(letters)
                        guard let value else { throw unknown("-\(letter) without a value") }
                        if letter == "o" { result.words += ["-o", value] }
                        if letter == "N" { result.namespace = value }
                        letters = ""
                    default: throw unknown("-\(letter)")
                    }
                }
            }
            guard places.count == 2 else {
                throw CloudFSError(
                    .invalidArgument,
                    "mount.cloudfs needs a container URL and a mountpoint, not "
                        + "\(places.count) arguments; use "
                        + "mount -t cloudfs \(ContainerURL.knownForms) /mountpoint"
                )
            }
            result.words += ["--"] + places
            return result
        }

        private static func unknown(_ argument: String) -> CloudFSError {
            CloudFSError(
                .invalidArgument,
                "mount.cloudfs does not know \(argument); "
                    + "it takes what mount -t cloudfs passes: "
                    + "-o options, -N namespace, -s, -f, -n and -v"
            )
        }

        /// Moves the calling thread, and what it executes or starts, into a mount namespace.
        ///
        /// `mount -N` runs its helper in the namespace it was called in and leaves the rest to it.
        ///
        /// - Returns: `false` if this process is there already.
        package static func enter(namespace path: String) throws(CloudFSError) -> Bool {
            let file = open(path, O_RDONLY | O_CLOEXEC)
            defer { if file >= 0 { close(file) } }
            var wanted = stat()
            var own = stat()
            guard file >= 0, fstat(file, &wanted) == 0, stat("/proc/self/ns/mnt", &own) == 0 else {
                throw closed(path, errno)
            }
            guard (wanted.st_dev, wanted.st_ino) != (own.st_dev, own.st_ino) else { return false }
            guard clinux_enter_mount_namespace(file) == 0 else { throw closed(path, errno) }
            return true
        }

        private static func closed(_ path: String, _ reason: Int32) -> CloudFSError {
            CloudFSError(
                .invalidArgument,
                "the mount namespace \(path) cannot be entered: "
                    + "\(String(cString: strerror(reason))); name one as mount -N does, as root"
            )
        }
    }
}

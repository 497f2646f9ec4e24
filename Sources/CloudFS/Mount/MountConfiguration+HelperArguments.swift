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

        /// The same request as arguments of `cloudfs-mount`.
        ///
        /// - Throws: `invalidArgument` for letters that `mount` does not use.
        package static func translate(_ arguments: [String]) throws(CloudFSError) -> [String] {
            var result: [String] = []
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
                    return [argument]
                }
                var letters = argument.dropFirst()
                while let letter = letters.popFirst() {
                    switch letter {
                    case "n", "v": break
                    case "s": result.append("--sloppy")
                    case "f": result.append("--dry-run")
                    case "h": return ["--help"]
                    case "V": return ["--version"]
                    case "o", "t":
                        let value = letters.isEmpty ? rest.popFirst() : String(letters)
                        guard let value else { throw unknown("-\(letter) without a value") }
                        if letter == "o" { result += ["-o", value] }
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
            return result + ["--"] + places
        }

        private static func unknown(_ argument: String) -> CloudFSError {
            CloudFSError(
                .invalidArgument,
                "mount.cloudfs does not know \(argument); "
                    + "it takes what mount -t cloudfs passes: -o options, -s, -f, -n and -v"
            )
        }
    }
}

extension MountConfiguration {
    /// One `-o` list, as given on a command line, by `mount` or by a line of fstab.
    ///
    /// It knows every long option as `name=value`, what the kernel or the mount program must be
    /// told, and the words that `mount`, fstab and systemd keep for themselves.
    struct OptionList {
        private(set) var settings: [(option: Option, text: String)] = []
        /// For the kernel or `fusermount3`.
        private(set) var passedOn: [String] = []
        /// The drive file named by `config=`.
        private(set) var config: String?

        /// Meant for `mount`, systemd or another kind of file system; true here anyway or without
        /// a meaning.
        private static let dropped: Set<String> = [
            "_netdev", "async", "atime", "auto", "default_permissions", "defaults", "diratime",
            "exec", "group",
            "iversion", "lazytime", "loud", "mand", "noatime", "noauto", "nodev", "nodiratime",
            "nofail", "nogroup", "noiversion", "nolazytime", "nomand", "noowner", "norelatime",
            "nostrictatime", "nosuid", "nouser", "nousers", "owner", "relatime", "silent",
            "strictatime", "user", "users",
        ]

        private static let kernel = ["allow_other", "allow_root", "noexec"]

        /// Understands `text`, a list separated by commas; `\,` is a comma within a value.
        ///
        /// - Throws: `invalidArgument` with a sentence that names the unknown or wrong option.
        init(_ text: String, isSloppy: Bool) throws(CloudFSError) {
            for word in Self.words(text) {
                do throws(CloudFSError) {
                    try add(word)
                } catch {
                    guard isSloppy else { throw error }
                }
            }
        }

        private mutating func add(_ word: String) throws(CloudFSError) {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            let value = parts.count == 2 ? String(parts[1]) : nil
            switch name {
            case "ro": settings.append((.readOnly, "true"))
            case "rw": settings.append((.readOnly, "false"))
            case "config": config = value
            case _ where Self.kernel.contains(name): passedOn.append(name)
            case _ where Self.dropped.contains(name): break
            case "comment": break
            case _ where name.hasPrefix("x-") || name.hasPrefix("X-"): break
            case "user_id", "user_name": break
            case "suid", "dev":
                throw CloudFSError(
                    .invalidArgument,
                    "-o \(name) is not possible: drives are always mounted nosuid and nodev"
                )
            case "remount":
                throw CloudFSError(
                    .invalidArgument,
                    "a drive cannot be remounted; unmount it and mount it with the new options"
                )
            default: try addOption(name, value)
            }
        }

        private mutating func addOption(
            _ name: String,
            _ value: String?
        ) throws(CloudFSError) {
            guard let option = Option(rawValue: name) else {
                throw Option.unknown(name, "-o", among: Self.kernel + ["ro", "rw", "config"])
            }
            guard option.form == .flag || value != nil else {
                throw CloudFSError(
                    .invalidArgument,
                    "-o \(name) needs a value; write \(name)=…"
                )
            }
            settings.append((option, value ?? ""))
        }

        private static func words(_ text: String) -> [String] {
            var words = [""]
            var isEscaped = false
            for character in text {
                if isEscaped || (character != "\\" && character != ",") {
                    words[words.count - 1].append(character)
                    isEscaped = false
                } else if character == "\\" {
                    isEscaped = true
                } else {
                    words.append("")
                }
            }
            return words.filter { !$0.isEmpty }
        }
    }
}

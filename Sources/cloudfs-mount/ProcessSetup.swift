import CloudFS
import Glibc

/// What a process has to be before it serves a drive.
enum ProcessSetup {
    /// Makes sure that 0, 1 and 2 are open, so that no other file ever gets these numbers.
    static func openStandardDescriptors() {
        while true {
            let descriptor = open("/dev/null", O_RDWR | O_CLOEXEC)
            guard (0...2).contains(descriptor) else {
                if descriptor > 2 { close(descriptor) }
                return
            }
            _ = fcntl(descriptor, F_SETFD, 0)
        }
    }

    /// Prepares this process for a long life as a drive's daemon.
    static func prepare() {
        signal(SIGPIPE, SIG_IGN)
        raiseDescriptorLimit()
        // Catalog, content and sockets are nobody else's business; items have modes of their own.
        umask(0o077)
    }

    /// One descriptor for each open file of the drive, and one for each of its content files.
    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(resource, &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(resource, &limit)
    }
}

extension MountConfiguration.Host {
    /// This process's user, environment and folder.
    ///
    /// - Throws: `notFound` when the working folder is gone.
    static func current() throws(CloudFSError) -> Self {
        guard let folder = getcwd(nil, 0) else {
            throw CloudFSError(
                .notFound,
                "the current folder cannot be found; change to one that exists"
            )
        }
        defer { free(folder) }
        var name = [CChar](repeating: 0, count: 256)
        gethostname(&name, name.count - 1)
        let bytes = name.prefix { $0 != 0 && $0 != CChar(bitPattern: UInt8(ascii: ".")) }
        var environment: [String: String] = [:]
        for key in ["HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
            if let value = getenv(key) { environment[key] = String(cString: value) }
        }
        // mount(8), and systemd for the machine's own units, start their programs without it.
        if environment["HOME"] == nil, let user = getpwuid(geteuid()) {
            environment["HOME"] = String(cString: user.pointee.pw_dir)
        }
        return Self(
            environment: environment,
            userID: geteuid(),
            name: String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self),
            workingDirectory: String(cString: folder)
        )
    }
}

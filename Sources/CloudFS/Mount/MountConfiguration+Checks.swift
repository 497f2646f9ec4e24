import Glibc

extension MountConfiguration {
    /// Questions to the machine before anything is mounted; asking changes nothing.
    ///
    /// Each failure is one sentence that says what is wrong and what to do.
    package struct Checks: Sendable {
        package enum Outcome: Sendable, Equatable {
            case ready
            /// A drive whose daemon is gone is still mounted there, and has to be detached.
            case deadMount
        }

        private let configuration: MountConfiguration
        private let mounts: MountTable
        private let userID: UInt32
        /// Whether no daemon has this drive at this place, whatever the table of mounts says.
        private let isAbandoned: Bool

        /// - Parameter isAbandoned: What the lock of the state directory says about it; asked for
        ///   by who holds that lock already.
        package init(
            _ configuration: MountConfiguration,
            isAbandoned: Bool? = nil
        ) throws(CloudFSError) {
            self.init(
                configuration,
                mounts: try .current(),
                userID: geteuid(),
                isAbandoned: isAbandoned
                    ?? StateLock.isAbandoned(
                        configuration.stateDirectory,
                        at: configuration.mountpoint
                    )
            )
        }

        init(
            _ configuration: MountConfiguration,
            mounts: MountTable,
            userID: UInt32,
            isAbandoned: Bool = false
        ) {
            self.configuration = configuration
            self.mounts = mounts
            self.userID = userID
            self.isAbandoned = isAbandoned
        }

        /// Asks everything.
        ///
        /// - Throws: What is wrong first.
        package func run() throws(CloudFSError) -> Outcome {
            try checkNesting()
            try checkContainer()
            let outcome = try checkMountpoint()
            try checkFuse()
            try checkAllowOther()
            return outcome
        }

        // MARK: - Places

        private func checkNesting() throws(CloudFSError) {
            let mountpoint = configuration.mountpoint
            let state = Paths.resolved(configuration.stateDirectory)
            try checkApart(
                ("state directory", state),
                ("mountpoint", mountpoint),
                "choose another with --state-dir"
            )
            for container in configuration.containers {
                guard case .local(let path) = container.url else { continue }
                let cloud = Paths.resolved(path)
                try checkApart(
                    ("mountpoint", mountpoint),
                    ("cloud directory", cloud),
                    "choose a mountpoint outside of it"
                )
                try checkApart(
                    ("state directory", state),
                    ("cloud directory", cloud),
                    "choose another with --state-dir"
                )
            }
        }

        private func checkApart(
            _ first: (name: String, path: String),
            _ second: (name: String, path: String),
            _ remedy: String
        ) throws(CloudFSError) {
            let relation: String
            if first.path == second.path {
                relation = "the \(first.name) \(first.path) is the \(second.name) too"
            } else if Paths.contains(second.path, first.path) {
                relation =
                    "the \(first.name) \(first.path) lies inside the \(second.name) "
                    + second.path
            } else if Paths.contains(first.path, second.path) {
                relation =
                    "the \(second.name) \(second.path) lies inside the \(first.name) "
                    + first.path
            } else {
                return
            }
            throw CloudFSError(.invalidArgument, "\(relation); \(remedy)")
        }

        private func checkContainer() throws(CloudFSError) {
            // A drive with a catalog mounts whether its container can be reached or not.
            guard !configuration.mayStartOffline else { return }
            for container in configuration.containers {
                guard case .local(let path) = container.url else { continue }
                var status = stat()
                guard stat(path, &status) == 0 else {
                    let reason = errno
                    throw CloudFSError(
                        reason == ENOENT ? .notFound : .offline,
                        "the cloud directory \(path) cannot be reached: \(Self.text(reason)); "
                            + "make it, or check the path"
                    )
                }
                guard status.st_mode & S_IFMT == S_IFDIR else {
                    throw CloudFSError(
                        .notDirectory,
                        "the cloud directory \(path) is not a folder; name one after local:"
                    )
                }
                guard access(path, R_OK | X_OK) == 0 else {
                    throw CloudFSError(
                        .denied,
                        "you may not read the cloud directory \(path); "
                            + "ask its owner for access, or name another"
                    )
                }
            }
        }

        // MARK: - The mountpoint

        private func checkMountpoint() throws(CloudFSError) -> Outcome {
            let path = configuration.mountpoint
            let mount = mounts.mount(at: path)
            if let mount { return try checkMount(mount) }
            var status = stat()
            guard stat(path, &status) == 0 else {
                let reason = errno
                throw CloudFSError(
                    reason == ENOENT ? .notFound : .denied,
                    reason == ENOENT
                        ? "there is no folder \(path) to mount on; make it with mkdir -p '\(path)'"
                        : "the mountpoint \(path) cannot be used: \(Self.text(reason)); "
                            + "choose another folder"
                )
            }
            guard status.st_mode & S_IFMT == S_IFDIR else {
                throw CloudFSError(
                    .notDirectory,
                    "the mountpoint \(path) is not a folder; name an empty folder"
                )
            }
            guard userID == 0 || access(path, W_OK) == 0 else {
                throw CloudFSError(
                    .denied,
                    "you may not write in the mountpoint \(path), so fusermount3 would refuse it; "
                        + "choose a folder of your own"
                )
            }
            guard try Self.names(in: path).isEmpty else {
                throw CloudFSError(
                    .notEmpty,
                    "the mountpoint \(path) is not empty; empty it or choose another folder"
                )
            }
            return .ready
        }

        private func checkMount(_ mount: MountTable.Entry) throws(CloudFSError) -> Outcome {
            let path = mount.mountpoint
            guard mount.type == MountTable.driveType else {
                throw CloudFSError(
                    .exists,
                    "\(path) is already a mountpoint, of type \(mount.type); "
                        + "choose another folder or unmount that first"
                )
            }
            let sign = Self.signOfLife(path)
            let isKept =
                sign == .silence && isAbandoned
                && configuration.containers.contains { $0.url.description == mount.source }
            guard sign == .death || isKept else {
                throw CloudFSError(
                    .exists,
                    "a drive is already mounted at \(path), with \(mount.source); "
                        + "unmount it with fusermount3 -u '\(path)' or choose another folder"
                )
            }
            return .deadMount
        }

        // MARK: - The machine

        private func checkFuse() throws(CloudFSError) {
            let descriptor = open("/dev/fuse", O_RDWR | O_CLOEXEC)
            guard descriptor >= 0 else {
                let reason = errno
                let remedy =
                    switch reason {
                    case ENOENT, ENODEV, ENXIO:
                        "load the kernel's module with modprobe fuse, "
                            + "or start the container with --device /dev/fuse"
                    default: "ask the administrator for access to it"
                    }
                throw CloudFSError(
                    .unsupported,
                    "/dev/fuse cannot be opened: \(Self.text(reason)); \(remedy)"
                )
            }
            close(descriptor)
            guard userID == 0 || Self.fusermountPath() != nil else {
                throw CloudFSError(
                    .unsupported,
                    "fusermount3 is missing, which mounts drives for users other than root; "
                        + "install it with apt install fuse3"
                )
            }
        }

        private func checkAllowOther() throws(CloudFSError) {
            let wanted = configuration.mountOptions.first { $0.hasPrefix("allow_") }
            guard let wanted, userID != 0, !Self.allowsOthers(Self.fuseConfiguration()) else {
                return
            }
            throw CloudFSError(
                .notPermitted,
                "-o \(wanted) is not allowed to users here; "
                    + "have root write user_allow_other on a line of /etc/fuse.conf"
            )
        }
    }
}

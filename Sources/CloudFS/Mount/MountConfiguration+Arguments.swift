extension MountConfiguration {
    /// What decides about names and places beside the arguments themselves.
    package struct Host: Sendable {
        package var environment: [String: String]
        package var userID: UInt32
        package var name: String
        package var workingDirectory: String

        package init(
            environment: [String: String],
            userID: UInt32,
            name: String,
            workingDirectory: String
        ) {
            self.environment = environment
            self.userID = userID
            self.name = name
            self.workingDirectory = workingDirectory
        }

        /// What `~` stands for, if the environment says so.
        var home: String? { environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } }
    }

    /// A command line, taken apart but not yet understood.
    package struct Arguments: Sendable {
        package var source: String?
        package var mountpoint: String?
        /// The drive file.
        package var config: String?
        /// The values of `-o`, each a list.
        package var optionLists: [String] = []
        /// Long flags with their text, in any order.
        package var flags: [(option: Option, text: String)] = []
        /// Unknown `-o` options are dropped; `mount -s` asks for that.
        package var isSloppy = false

        package init() {}
    }

    /// Makes one configuration of a command line and its drive file.
    ///
    /// Later words win: defaults, then the drive file, then `-o`, then long flags.
    ///
    /// - Parameters:
    ///   - arguments: The command line.
    ///   - host: Who mounts, and from where.
    /// - Throws: `invalidArgument`, `notFound` and the like, with one sentence for the user.
    package init(_ arguments: Arguments, host: Host) throws(CloudFSError) {
        self.init(containers: [], mountpoint: "", stateDirectory: "", deviceName: "")
        let lists = try arguments.optionLists.map { list throws(CloudFSError) in
            try OptionList(list, isSloppy: arguments.isSloppy)
        }
        try readFile(arguments.config ?? lists.compactMap(\.config).last, host: host)
        for list in lists { try apply(list, base: host.workingDirectory, home: host.home) }
        for (option, text) in arguments.flags {
            try option.apply(text, to: &self, base: host.workingDirectory, home: host.home)
        }
        try place(arguments, host: host)
        if deviceName.isEmpty {
            let usable = host.name.isEmpty || host.name.contains("/") ? "device" : host.name
            deviceName = String(usable.prefix(64))
        }
        if stateDirectory.isEmpty {
            stateDirectory = try StateDirectory.defaultPath(
                container: containers[0].url,
                mountpoint: mountpoint,
                host: host
            )
        }
        if thumbnailCache == .ofUser { thumbnailCache = Self.thumbnailCache(of: host) }
        mayStartOffline = StateDirectory.hasCatalog(at: stateDirectory)
    }

    /// The cache of the user who mounts; what root mounts is not for root to look at.
    private static func thumbnailCache(of host: Host) -> ThumbnailCache {
        guard host.userID != 0 else { return .none }
        if let cache = host.environment["XDG_CACHE_HOME"], cache.hasPrefix("/") {
            return .folder(cache + "/thumbnails")
        }
        return host.home.map { .folder($0 + "/.cache/thumbnails") } ?? .none
    }

    /// Understands what `driveFile` wrote, in full: no other file is read.
    ///
    /// - Parameters:
    ///   - text: A drive file with absolute paths.
    ///   - host: Who mounts.
    package init(driveFile text: String, host: Host) throws(CloudFSError) {
        self.init(containers: [], mountpoint: "", stateDirectory: "", deviceName: "")
        let file = try DriveFile(parsing: text, path: "the configuration of the drive")
        try apply(file, base: "/", home: host.home)
        try place(Arguments(), host: host)
        mayStartOffline = StateDirectory.hasCatalog(at: stateDirectory)
    }

    private mutating func readFile(_ path: String?, host: Host) throws(CloudFSError) {
        guard let path else { return }
        let full = Paths.absolute(path, base: host.workingDirectory, home: host.home)
        let file = try DriveFile(contentsOf: full)
        do throws(CloudFSError) {
            try apply(file, base: Paths.parent(of: full), home: host.home)
        } catch {
            throw CloudFSError(error.code, "\(error.message) (in \(full))")
        }
    }

    private mutating func apply(
        _ file: DriveFile,
        base: String,
        home: String?
    ) throws(CloudFSError) {
        for (option, text) in file.settings {
            try option.apply(text, to: &self, base: base, home: home)
        }
        for list in file.optionLists {
            try apply(try OptionList(list, isSloppy: false), base: base, home: home)
        }
        for container in file.containers {
            let url = try ContainerURL(container.url, base: base, home: home)
            containers.append(Container(name: container.name, url: url))
        }
        types += file.types
        if let mountpoint = file.mountpoint {
            self.mountpoint = Paths.absolute(mountpoint, base: base, home: home)
        }
    }

    private mutating func apply(
        _ list: OptionList,
        base: String,
        home: String?
    ) throws(CloudFSError) {
        for (option, text) in list.settings {
            try option.apply(text, to: &self, base: base, home: home)
        }
        for option in list.passedOn where !mountOptions.contains(option) {
            mountOptions.append(option)
        }
    }

    /// Settles which container goes where.
    private mutating func place(_ arguments: Arguments, host: Host) throws(CloudFSError) {
        var source = arguments.source
        var target = arguments.mountpoint
        // With a drive file that names the container, a single argument is the mountpoint.
        if !containers.isEmpty, target == nil, let only = source, !only.hasPrefix("local:"),
            !only.hasPrefix("s3:")
        {
            (source, target) = (nil, only)
        }
        if let source, source != "none" || containers.isEmpty {
            let url = try ContainerURL(source, base: host.workingDirectory, home: host.home)
            containers = [Container(url: url)]
        }
        if let target {
            mountpoint = Paths.absolute(target, base: host.workingDirectory, home: host.home)
        }
        guard !containers.isEmpty else {
            throw CloudFSError(
                .invalidArgument,
                "no container is given; write cloudfs-mount \(ContainerURL.knownForms) /mountpoint"
            )
        }
        guard containers.count == 1 else {
            throw CloudFSError(
                .invalidArgument,
                "the drive file has \(containers.count) containers, but a drive holds one "
                    + "in this version; give each its own drive file and mountpoint"
            )
        }
        guard !mountpoint.isEmpty else {
            throw CloudFSError(
                .invalidArgument,
                "no mountpoint is given; name an empty folder after the container URL"
            )
        }
        mountpoint = Paths.resolvedMountpoint(mountpoint)
    }
}

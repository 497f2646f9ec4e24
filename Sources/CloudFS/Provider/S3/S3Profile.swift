/// Where the user's shared configuration is, and which profile of it is meant.
struct S3ProfileLocation: Sendable {
    var name: String
    /// Whether someone asked for it by name, so that its absence is an error.
    var isNamed: Bool
    var credentialsPath: String
    var configPath: String

    /// - Parameters:
    ///   - environment: Of the process that mounts.
    ///   - profile: What the drive's options name; goes before the environment.
    ///   - home: The user's home folder, without a slash at the end.
    init(environment: [String: String], profile: String?, home: String) {
        let environment = environment.filter { !$0.value.isEmpty }
        let wanted = profile ?? environment["AWS_PROFILE"] ?? environment["AWS_DEFAULT_PROFILE"]
        name = wanted ?? "default"
        isNamed = wanted != nil
        func path(_ variable: String, _ standard: String) -> String {
            let path = environment[variable] ?? standard
            return path.hasPrefix("~/") ? home + path.dropFirst() : path
        }
        credentialsPath = path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
        configPath = path("AWS_CONFIG_FILE", "~/.aws/config")
    }

    /// Reads both files; blocks, but briefly.
    ///
    /// - Throws: What is wrong with a file; `invalidArgument` for a named profile in neither.
    func load() throws(CloudFSError) -> S3Profile {
        let credentials = try document(credentialsPath)
        let config = try document(configPath)
        let stored = credentials?[name]
        let configured = config.flatMap { section("profile", name, of: $0) }
        guard stored != nil || configured != nil || !isNamed else {
            throw CloudFSError(
                .invalidArgument,
                "there is no profile \(name) in \(credentialsPath) or \(configPath)"
            )
        }
        var services: [String: String] = [:]
        if let config, let wanted = configured?["services"] {
            services = section("services", wanted, of: config) ?? [:]
        }
        return S3Profile(
            name: name,
            stored: stored ?? [:],
            configured: configured ?? [:],
            services: services
        )
    }

    private func document(_ path: String) throws(CloudFSError) -> INIDocument? {
        guard let bytes = try S3ProfileFile(path: path).read() else { return nil }
        return try INIDocument(parsing: bytes, path: path)
    }

    /// The section headed `[kind name]`, however it is spaced and quoted.
    private func section(
        _ kind: String,
        _ name: String,
        of document: INIDocument
    ) -> [String: String]? {
        for (title, values) in document.sections {
            let words = title.split(maxSplits: 1, whereSeparator: \.isWhitespace)
            guard words.count == 2, words[0] == kind else { continue }
            if Self.unquoted(words[1].drop(while: \.isWhitespace)) == name { return values }
        }
        return kind == "profile" && name == "default" ? document["default"] : nil
    }

    private static func unquoted(_ text: Substring) -> Substring {
        guard text.count >= 2, let quote = text.first, quote == "\"" || quote == "'",
            text.last == quote
        else { return text }
        return text.dropFirst().dropLast()
    }
}

/// One profile of the shared configuration: names and values, not yet understood.
struct S3Profile: Sendable, Equatable {
    var name: String
    /// From the credentials file.
    var stored: [String: String]
    /// From the config file.
    var configured: [String: String]
    /// The section of services that the profile refers to.
    var services: [String: String]

    /// A value from either file; the credentials file goes first, and an empty value is none.
    subscript(key: String) -> String? {
        for values in [stored, configured] {
            if let value = values[key], !value.isEmpty { return value }
        }
        return nil
    }
}

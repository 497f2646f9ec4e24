import Glibc

/// A drive's own credentials, in a file that only its user can open.
///
/// The format is that of AWS's credentials file, so that other tools can be pointed at it.
enum S3LoginFile {
    /// The credentials in the file at `path`; `nil` when there is no such file.
    ///
    /// - Throws: `notPermitted` when others could have read or written it; `invalidArgument`.
    static func read(_ path: String) throws(CloudFSError) -> S3Credentials? {
        guard let bytes = try S3ProfileFile(path: path).read(mustBePrivate: true)
        else { return nil }
        let document = try INIDocument(parsing: bytes, path: path)
        let profile = S3Profile(
            name: "default",
            stored: document["default"] ?? [:],
            configured: [:],
            services: [:]
        )
        guard let credentials = try S3Credentials(values: profile.stored, of: path) else {
            throw CloudFSError(
                .unauthenticated,
                "\(path) holds no credentials; log in again or remove it"
            )
        }
        return credentials
    }

    /// Writes the file whole or not at all, readable by its user only; makes its folder.
    ///
    /// - Throws: `invalidArgument` for credentials that no file could give back; `denied`.
    /// - Durability: on disk before returning.
    static func write(_ credentials: S3Credentials, to path: String) throws(CloudFSError) {
        try credentials.check(source: "what was entered")
        var lines = [
            "[default]", "aws_access_key_id = \(credentials.accessKeyID)",
            "aws_secret_access_key = \(credentials.secretAccessKey)",
        ]
        if let token = credentials.sessionToken { lines.append("aws_session_token = \(token)") }
        if let expiration = credentials.expiration {
            lines.append("aws_credential_expiration = \(S3Time.extended(expiration))")
        }
        let folder = path.lastIndex(of: "/").map { path[..<$0] } ?? "."
        try makeFolder(String(folder))
        let bytes = Array((lines.joined(separator: "\n") + "\n").utf8)
        try replace(path, in: folder.isEmpty ? "/" : String(folder), with: bytes)
    }

    private static func makeFolder(_ folder: String) throws(CloudFSError) {
        var path = folder.hasPrefix("/") ? "" : "."
        for name in folder.split(separator: "/") {
            path += "/\(name)"
            if mkdir(path, 0o700) != 0, errno != EEXIST { throw failure("make", path) }
        }
    }

    private static func replace(
        _ path: String,
        in folder: String,
        with bytes: [UInt8]
    ) throws(CloudFSError) {
        var name = Array("\(path).XXXXXX".utf8CString)
        // mkstemp makes the file with 0600 and under a name that was free.
        let descriptor = mkstemp(&name)
        let staged = String(decoding: name.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        guard descriptor >= 0 else { throw failure("write", path) }
        var isCommitted = false
        defer {
            close(descriptor)
            if !isCommitted { unlink(staged) }
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                throw failure("write", path)
            }
        }
        guard fsync(descriptor) == 0, rename(staged, path) == 0 else {
            throw failure("write", path)
        }
        isCommitted = true
        let opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard opened >= 0 else { throw failure("flush", folder) }
        defer { close(opened) }
        guard fsync(opened) == 0 else { throw failure("flush", folder) }
    }

    private static func failure(_ what: String, _ path: String) -> CloudFSError {
        let reason = String(cString: strerror(errno))
        return CloudFSError(.denied, "cannot \(what) \(path): \(reason)")
    }
}

extension S3Credentials {
    /// The credentials among a section's values; `nil` when it holds no key.
    ///
    /// - Throws: `unauthenticated` when half of them are missing; `invalidArgument`.
    init?(values: [String: String], of source: String) throws(CloudFSError) {
        let values = values.filter { !$0.value.isEmpty }
        let expiration = values["aws_credential_expiration"]
        guard
            let credentials = try S3Credentials(
                accessKeyID: values["aws_access_key_id"],
                secretAccessKey: values["aws_secret_access_key"],
                sessionToken: values["aws_session_token"] ?? values["aws_security_token"],
                expiration: expiration.flatMap(S3Time.iso8601),
                source: source
            )
        else { return nil }
        self = credentials
    }

    /// Puts together what a source gave; `nil` when it gave neither key.
    ///
    /// - Throws: `unauthenticated` when one key is missing; `invalidArgument`.
    init?(
        accessKeyID: String?,
        secretAccessKey: String?,
        sessionToken: String?,
        expiration: Timestamp?,
        source: String
    ) throws(CloudFSError) {
        guard accessKeyID != nil || secretAccessKey != nil else { return nil }
        guard let accessKeyID, let secretAccessKey else {
            let missing = accessKeyID == nil ? "access key" : "secret key"
            throw CloudFSError(.unauthenticated, "\(source) has no \(missing) beside the other one")
        }
        self.init(
            accessKeyID: accessKeyID,
            secretAccessKey: secretAccessKey,
            sessionToken: sessionToken,
            expiration: expiration
        )
        try check(source: source)
    }

    /// Refuses what could not be sent in a header, or not come back from a file.
    ///
    /// - Throws: `invalidArgument`, without the values.
    func check(source: String) throws(CloudFSError) {
        for (name, value) in [
            ("access key", accessKeyID), ("secret key", secretAccessKey),
            ("session token", sessionToken ?? "-"),
        ] where value.isEmpty || !value.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) {
            throw CloudFSError(
                .invalidArgument,
                "the \(name) in \(source) is empty or has characters that no key has"
            )
        }
    }
}

/// Where a container is: which provider speaks to it, and what that provider has to know.
///
/// One case for each provider, so that building the provider is one exhaustive `switch`.
public enum ContainerURL: Hashable, Sendable, CustomStringConvertible {
    /// A directory of this machine plays the cloud. The path is absolute.
    case local(path: String)
    /// A bucket of an object store, or what begins with `prefix` in it, without slashes around.
    case s3(bucket: String, prefix: String)

    /// What the known kinds look like, as error sentences name them.
    static let knownForms = "local:/path or s3://bucket/prefix"

    /// Reads a container URL as written on a command line or in a drive file.
    ///
    /// - Parameters:
    ///   - text: The URL.
    ///   - base: The absolute path that a relative one starts from.
    ///   - home: What `~` stands for; `nil` when nobody knows.
    /// - Throws: `invalidArgument` with a sentence that names the known kinds.
    package init(_ text: String, base: String, home: String?) throws(CloudFSError) {
        guard let colon = text.firstIndex(of: ":"), !text.hasPrefix("/"), !text.hasPrefix(".")
        else {
            let hint = text.hasPrefix("/") ? ", as in local:\(text)" : ""
            throw CloudFSError(
                .invalidArgument,
                "\"\(text)\" is not a container URL; write one like \(Self.knownForms)\(hint)"
            )
        }
        let scheme = text[..<colon]
        let rest = String(text[text.index(after: colon)...])
        switch scheme {
        case "local":
            guard !rest.isEmpty, !rest.utf8.contains(0) else {
                throw CloudFSError(
                    .invalidArgument,
                    "\"\(text)\" names no directory; write local: and the path of one"
                )
            }
            self = .local(
                path: MountConfiguration.Paths.absolute(rest, base: base, home: home)
            )
        case "s3":
            self = try Self.bucket(rest, text)
        default:
            throw CloudFSError(
                .invalidArgument,
                "\"\(scheme):\" is no kind of container this version knows; "
                    + "write one like \(Self.knownForms)"
            )
        }
    }

    private static func bucket(
        _ rest: String,
        _ text: String
    ) throws(CloudFSError) -> ContainerURL {
        let parts = rest.dropFirst(2).split(separator: "/", omittingEmptySubsequences: false)
        guard rest.hasPrefix("//"), let bucket = parts.first, !bucket.isEmpty else {
            throw CloudFSError(
                .invalidArgument,
                "\"\(text)\" names no bucket; write s3://bucket or s3://bucket/prefix"
            )
        }
        guard !bucket.contains("@"), !rest.contains("?"), !rest.utf8.contains(0) else {
            throw CloudFSError(
                .invalidArgument,
                "the container URL holds more than bucket and prefix; "
                    + "keys and secrets belong into the environment or a profile"
            )
        }
        let prefix = parts.dropFirst().filter { !$0.isEmpty }
        guard !prefix.contains("."), !prefix.contains("..") else {
            throw CloudFSError(.invalidArgument, "the prefix of \"\(text)\" has . or .. in it")
        }
        return .s3(bucket: String(bucket), prefix: prefix.joined(separator: "/"))
    }

    /// The URL in its one canonical spelling.
    public var description: String {
        switch self {
        case .local(let path): "local:\(path)"
        case .s3(let bucket, let prefix): "s3://\(bucket)" + (prefix.isEmpty ? "" : "/\(prefix)")
        }
    }

    /// A short name for people: the last part of the path.
    package var shortName: String {
        switch self {
        case .local(let path): path.split(separator: "/").last.map(String.init) ?? "root"
        case .s3(let bucket, let prefix):
            prefix.split(separator: "/").last.map(String.init) ?? bucket
        }
    }
}

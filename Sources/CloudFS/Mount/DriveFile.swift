import Glibc
import TOMLKit

/// A drive written down in TOML: the options of a mount under their long names, and its containers.
///
/// Values become the text that the same option has on a command line, so that there is one reader
/// for both.
struct DriveFile {
    struct Container: Equatable {
        var name: String?
        var url: String
    }

    private(set) var containers: [Container] = []
    private(set) var types: [DeclaredType] = []
    private(set) var mountpoint: String?
    private(set) var settings: [(option: MountConfiguration.Option, text: String)] = []
    /// What `options` lists, each as after `-o`.
    private(set) var optionLists: [String] = []

    let path: String

    /// Reads the file at `path`.
    ///
    /// - Throws: `notFound`, `denied`, `invalidArgument`: a sentence with path, key and remedy.
    init(contentsOf path: String) throws(CloudFSError) {
        try self.init(parsing: Self.text(of: path), path: path)
    }

    /// Understands `text`; `path` is for sentences only.
    ///
    /// - Throws: `invalidArgument` for anything that is no drive file.
    init(parsing text: String, path: String) throws(CloudFSError) {
        self.path = path
        let table: TOMLTable
        do {
            table = try TOMLTable(string: text)
        } catch let error as TOMLParseError {
            throw CloudFSError(
                .invalidArgument,
                "\(path) is not TOML at line \(error.source.begin.line): \(error.description)",
                cause: error
            )
        } catch {
            throw CloudFSError(.invalidArgument, "\(path) is not TOML: \(error)", cause: error)
        }
        // Values point into the table's memory.
        defer { withExtendedLifetime(table) {} }
        for key in table.keys {
            guard let value = table[key] else { continue }
            try add(key, value)
        }
    }

    private mutating func add(
        _ key: String,
        _ value: any TOMLValueConvertible
    ) throws(CloudFSError) {
        switch key {
        case "container":
            guard let array = value.array else { throw wrong(key, "tables headed [[container]]") }
            for element in array { try addContainer(element) }
        case "type":
            guard let array = value.array, array.count <= DeclaredType.most else {
                throw wrong(key, "at most \(DeclaredType.most) tables headed [[type]]")
            }
            for element in array { types.append(try type(element)) }
        case "mountpoint":
            guard let text = value.string, !text.isEmpty else { throw wrong(key, "a path") }
            mountpoint = text
        case "options":
            optionLists = try texts(key, value)
        default:
            guard let option = MountConfiguration.Option(rawValue: key) else {
                throw MountConfiguration.Option.unknown(
                    key,
                    "in \(path) the key",
                    among: ["container", "mountpoint", "options", "type"]
                )
            }
            switch option.form {
            case .flag:
                guard let flag = value.bool else { throw wrong(key, "true or false") }
                settings.append((option, flag ? "true" : "false"))
            case .value:
                settings.append((option, try text(key, value)))
            case .list:
                settings += try texts(key, value).map { (option, $0) }
            }
        }
    }

    private mutating func addContainer(
        _ value: any TOMLValueConvertible
    ) throws(CloudFSError) {
        guard let table = value.table else {
            throw wrong("container", "tables headed [[container]]")
        }
        var container = Container(url: "")
        for key in table.keys {
            guard let value = table[key] else { continue }
            switch key {
            case "url": container.url = try text(key, value)
            case "name": container.name = try name(text(key, value))
            default:
                let hint = MountConfiguration.Values.nearest(to: key, among: ["url", "name"])
                throw CloudFSError(
                    .invalidArgument,
                    "in \(path) a container has the unknown key \"\(key)\""
                        + (hint.map { "; did you mean \($0)?" } ?? "; it has url and name")
                )
            }
        }
        guard !container.url.isEmpty else {
            throw CloudFSError(
                .invalidArgument,
                "in \(path) a container has no url; "
                    + "add a line such as url = \"\(ContainerURL.knownForms)\""
            )
        }
        containers.append(container)
    }

    private func name(_ text: String) throws(CloudFSError) -> String {
        do throws(CloudFSError) {
            return try ItemName(text).description
        } catch {
            throw CloudFSError(error.code, "in \(path) a container's name is \(error.message)")
        }
    }

    // MARK: - Values

    func wrong(_ key: String, _ form: String) -> CloudFSError {
        CloudFSError(.invalidArgument, "in \(path) the value of \"\(key)\" must be \(form)")
    }

    func text(
        _ key: String,
        _ value: any TOMLValueConvertible
    ) throws(CloudFSError) -> String {
        if let text = value.string { return text }
        if let number = value.int { return String(number) }
        if let number = value.double { return String(number) }
        throw wrong(key, "text in quotes, or a number")
    }

    func texts(
        _ key: String,
        _ value: any TOMLValueConvertible
    ) throws(CloudFSError) -> [String] {
        guard let array = value.array else { throw wrong(key, "an array of texts") }
        var texts: [String] = []
        for element in array {
            guard let text = element.string else { throw wrong(key, "an array of texts") }
            texts.append(text)
        }
        return texts
    }

    /// A drive file is a page of text; anything much larger is a mistake in the path.
    private static let maximumByteCount = 1 << 20

    private static func text(of path: String) throws(CloudFSError) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            let reason = errno
            throw CloudFSError(
                reason == ENOENT ? .notFound : .denied,
                "the drive file \(path) cannot be read: \(String(cString: strerror(reason)))"
            )
        }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw CloudFSError(
                    .invalidArgument,
                    "the drive file \(path) cannot be read: \(String(cString: strerror(errno)))"
                )
            }
            guard count > 0 else { break }
            bytes += buffer[..<count]
            guard bytes.count <= maximumByteCount else {
                throw CloudFSError(.invalidArgument, "\(path) is too large for a drive file")
            }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CloudFSError(.invalidArgument, "the drive file \(path) is not UTF-8 text")
        }
        return text
    }
}

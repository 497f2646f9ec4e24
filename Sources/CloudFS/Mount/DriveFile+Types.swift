import TOMLKit

extension DriveFile {
    private static let typeKeys = ["identifier", "extensions", "mime", "conforms"]

    /// One table headed `[[type]]`.
    func type(_ value: any TOMLValueConvertible) throws(CloudFSError) -> DeclaredType {
        guard let table = value.table else { throw wrong("type", "tables headed [[type]]") }
        var type = DeclaredType(identifier: "")
        for key in table.keys {
            guard let value = table[key] else { continue }
            switch key {
            case "identifier": type.identifier = try typeName(text(key, value), withSlash: false)
            case "mime": type.mime = try typeName(text(key, value), withSlash: true)
            case "extensions": type.extensions = try texts(key, value).map(fileExtension)
            case "conforms":
                type.conforms = try texts(key, value).map { name throws(CloudFSError) in
                    try typeName(name, withSlash: name.contains("/"))
                }
            default:
                let hint = MountConfiguration.Values.nearest(to: key, among: Self.typeKeys)
                throw CloudFSError(
                    .invalidArgument,
                    "in \(path) a type has the unknown key \"\(key)\""
                        + (hint.map { "; did you mean \($0)?" }
                            ?? "; it has \(Self.typeKeys.joined(separator: ", "))")
                )
            }
        }
        guard !type.identifier.isEmpty else {
            throw CloudFSError(
                .invalidArgument,
                "in \(path) a type has no identifier; "
                    + "add a line such as identifier = \"org.example.note\""
            )
        }
        return type
    }

    private func typeName(_ text: String, withSlash: Bool) throws(CloudFSError) -> String {
        guard DeclaredType.isName(text, withSlash: withSlash) else {
            let form = withSlash ? "image/x-own" : "org.example.note"
            throw CloudFSError(
                .invalidArgument,
                "in \(path) \"\(text)\" is no name of a type, such as \(form)"
            )
        }
        return text
    }

    private func fileExtension(_ text: String) throws(CloudFSError) -> String {
        let name = text.hasPrefix(".") ? String(text.dropFirst()) : text
        guard (1...64).contains(name.utf8.count),
            !name.utf8.contains(where: { $0 < 0x21 || "/*?[".utf8.contains($0) })
        else {
            throw CloudFSError(
                .invalidArgument,
                "in \(path) \"\(text)\" is no extension of file names, such as note"
            )
        }
        return name
    }

    /// The declarations as a drive file has them.
    static func tables(_ types: [DeclaredType]) -> TOMLArray {
        let array = TOMLArray()
        for type in types {
            let table = TOMLTable()
            table["identifier"] = type.identifier
            table["extensions"] = TOMLArray(type.extensions)
            if let mime = type.mime { table["mime"] = mime }
            table["conforms"] = TOMLArray(type.conforms)
            array.append(table)
        }
        return array
    }
}

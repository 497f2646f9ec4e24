import Glibc

/// The types of files by their names, and which type is a kind of which.
///
/// Known from the desktop's shared database, a drive's declarations, and for machines without
/// either a list of common ones. Content tells only where it is here, and the name says nothing.
///
/// - Source: shared-mime-info specification, "globs2", "subclasses" and "aliases".
struct ContentTypes: Sendable {
    /// A pattern that is more than an extension, and the part of it that each match has.
    private struct Pattern: Sendable {
        var glob: String
        var type: String
        var needle: NameNeedle
    }

    private var byExtension: [String: String] = [:]
    /// Those that are told apart by case, such as `C` and `c`.
    private var byExactExtension: [String: String] = [:]
    /// Extensions that a set of characters stands for, as `*.[1-9]`: what is longer goes before.
    private var setExtensions: Set<String> = []
    private var byName: [String: String] = [:]
    private var patterns: [Pattern] = []
    private var parents: [String: [String]] = [:]
    private var aliases: [String: String] = [:]
    private var identifiers = UniformTypes()
    private let magic: MIMEMagic
    /// Extensions of folders that are one document.
    private var packageExtensions: Set<String> = []

    /// What a file is whose name says nothing.
    static let unknown = "application/octet-stream"

    /// How long a line of kinship may be; longer ones are circles.
    private static let mostAncestors = 256

    init(_ database: MIMEDatabase, declaring declared: [DeclaredType] = []) {
        magic = database.magic
        for type in declared { declare(type) }
        for line in database.globs { add(line) }
        for (type, parent) in database.subclasses { parents[type, default: []].append(parent) }
        for (alias, type) in database.aliases where alias != type {
            aliases[alias] = aliases[alias] ?? type
        }
        for type in declared where tree(of: type.mimeName).contains(Self.package) {
            packageExtensions.formUnion(type.extensions.map { $0.lowercased() })
        }
    }

    private mutating func declare(_ type: DeclaredType) {
        let mime = type.mimeName
        for name in type.extensions {
            let name = name.lowercased()
            byExtension[name] = byExtension[name] ?? mime
        }
        let kinds = type.conforms.filter { $0.contains("/") }
        parents[mime, default: []] += kinds.map { $0.lowercased() }
        let above = kinds.compactMap { identifiers.tree(of: [$0.lowercased()]).first }
        identifiers.add(
            type.identifier,
            mime: mime,
            conforms: type.conforms.filter { !$0.contains("/") } + above
        )
    }

    private mutating func add(_ line: MIMEDatabase.Glob) {
        for glob in line.expanded {
            let folded = glob.lowercased()
            if glob.hasPrefix("*."), !glob.dropFirst(2).contains(where: { "*?[".contains($0) }) {
                if line.isCaseSensitive {
                    let key = String(glob.dropFirst(2))
                    byExactExtension[key] = byExactExtension[key] ?? line.type
                }
                let key = String(folded.dropFirst(2))
                if byExtension[key] == nil {
                    byExtension[key] = line.type
                    if line.glob != glob { setExtensions.insert(key) }
                }
            } else if !glob.contains(where: { "*?[".contains($0) }) {
                byName[folded] = byName[folded] ?? line.type
            } else if let needle = NameNeedle(glob: folded) {
                patterns.append(Pattern(glob: folded, type: line.type, needle: needle))
            }
        }
    }

    // MARK: - By name

    /// The MIME type of an item.
    func type(of kind: ItemKind, name: String) -> String {
        switch kind {
        case .folder: return "inode/directory"
        case .symlink: return "inode/symlink"
        case .fifo: return "inode/fifo"
        case .socket: return "inode/socket"
        case .file: break
        }
        let folded = name.lowercased()
        if let type = byName[folded] { return type }
        // The longest extension wins: `x.tar.gz` is a compressed archive, not just compressed.
        var rest = folded[...]
        while let dot = rest.firstIndex(of: ".") {
            rest = rest[rest.index(after: dot)...]
            guard let type = byExtension[String(rest)] else { continue }
            if setExtensions.contains(String(rest)), let other = patternType(folded) {
                return other
            }
            return exactType(name, rest) ?? type
        }
        return patternType(folded) ?? Self.unknown
    }

    /// The MIME type of a file that begins so.
    ///
    /// - Parameter bytes: `MIMEMagic.reach` of them, or all there are.
    func type(ofContent bytes: [UInt8]) -> String {
        magic.type(of: bytes) ?? Self.unknown
    }

    private func patternType(_ folded: String) -> String? {
        patterns.first { fnmatch($0.glob, folded, 0) == 0 }?.type
    }

    private func exactType(_ name: String, _ found: Substring) -> String? {
        byExactExtension.isEmpty ? nil : byExactExtension[String(name.suffix(found.count))]
    }

    /// Whether folders of that name are packages: as a drive declares, nobody else's types are.
    func isPackage(_ name: ItemName) -> Bool {
        guard !packageExtensions.isEmpty else { return false }
        let folded = String(decoding: name.bytes, as: UTF8.self).lowercased()
        return packageExtensions.contains {
            folded.hasSuffix("." + $0) && folded.count > $0.count + 1
        }
    }

    private static let package = "com.apple.package"

    // MARK: - Kinship

    /// A MIME type under the name that counts.
    func canonical(_ mime: String) -> String {
        let mime = mime.lowercased()
        return aliases[mime] ?? mime
    }

    /// A MIME type and all that it is a kind of, the nearest first.
    func lineage(of mime: String) -> [String] {
        var found = [canonical(mime)]
        var next = 0
        while next < found.count, found.count < Self.mostAncestors {
            for parent in (parents[found[next]] ?? []).map(canonical)
            where !found.contains(parent) {
                found.append(parent)
            }
            next += 1
        }
        if found[0].hasPrefix("text/"), !found.contains("text/plain") { found.append("text/plain") }
        if !found[0].hasPrefix("inode/"), !found.contains(Self.unknown) {
            found.append(Self.unknown)
        }
        return found
    }

    /// The uniform type identifiers of a MIME type, the nearest first.
    func tree(of mime: String) -> [String] {
        identifiers.tree(of: lineage(of: mime))
    }

    /// The MIME type that goes by a uniform type identifier.
    func mime(of identifier: String) -> String? {
        identifiers.mime(of: identifier)
    }

    /// Whether a query can ask for that type.
    func isName(_ name: String) -> Bool { kinship(name) != nil }

    /// Which items are of a type, or of a kind of it.
    ///
    /// - Parameter name: A MIME type, also as `image/*`; a uniform type identifier; or a word such
    ///   as `image`.
    /// - Returns: `nil` for a name that no type has.
    func match(_ name: String) -> TypeMatch? {
        guard let isKin = kinship(name) else { return nil }
        var known: [String: Bool] = [:]
        func isMeant(_ type: String) -> Bool {
            if let known = known[type] { return known }
            let answer = isKin(type)
            known[type] = answer
            return answer
        }
        var match = TypeMatch { [self] kind, name in isKin(type(of: kind, name: name)) }
        match.kinds = Set(
            ItemKind.allCases.filter { $0 != .file && isMeant(type(of: $0, name: "")) }
        )
        guard !isMeant(Self.unknown) else { return match }
        match.needles =
            byExtension.filter { isMeant($0.value) }.map { NameNeedle(end: "." + $0.key) }
            + byExactExtension.filter { isMeant($0.value) }
            .map { NameNeedle(end: "." + $0.key.lowercased()) }
            + byName.filter { isMeant($0.value) }.map { NameNeedle(whole: $0.key) }
            + patterns.filter { isMeant($0.type) }.map(\.needle)
        return match
    }

    private func kinship(_ name: String) -> (@Sendable (String) -> Bool)? {
        let name = name.lowercased()
        if name.contains("/") {
            guard DeclaredType.isName(name.replacing("*", with: "a"), withSlash: true) else {
                return nil
            }
            if name.hasSuffix("/*") {
                let family = String(name.dropLast())
                return { [self] in lineage(of: $0).contains { $0.hasPrefix(family) } }
            }
            let wanted = canonical(name)
            return { [self] in lineage(of: $0).contains(wanted) }
        }
        guard let wanted = identifiers.known(name) else { return nil }
        return { [self] in tree(of: $0).contains(wanted) }
    }
}

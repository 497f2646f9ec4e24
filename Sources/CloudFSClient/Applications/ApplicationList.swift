import Foundation
import Glibc

/// The applications of this machine, and which of them open what.
///
/// - Source: Desktop Entry Specification 1.5; Association between MIME types and applications 1.0;
///   XDG Base Directory Specification.
public struct ApplicationList: Sendable {
    private var entries: [String: DesktopEntry] = [:]
    /// Names of entries in the order that they were found, the user's first.
    private var order: [String] = []
    private var defaults: [String: [String]] = [:]
    private var added: [String: [String]] = [:]
    private var removed: [String: Set<String>] = [:]
    private var parents: [String: [String]] = [:]
    private var aliases: [String: String] = [:]

    /// Most entries that are read.
    private static let mostEntries = 10_000
    /// How deep folders of entries go.
    private static let deepest = 4
    /// Longest list of associations or types, in bytes.
    private static let longestList = 4 << 20

    /// - Parameters:
    ///   - data: Folders such as `/usr/share`, the user's own first.
    ///   - settings: Folders such as `~/.config`, the user's own first.
    ///   - programs: Where programs are, as `PATH` lists it.
    public init(data: [String], settings: [String], programs: [String]) {
        for folder in settings { readAssociations("\(folder)/mimeapps.list") }
        for folder in data { readAssociations("\(folder)/applications/mimeapps.list") }
        var seen: Set<String> = []
        for folder in data {
            readEntries("\(folder)/applications", prefix: "", depth: 0, &seen, programs)
            readTypes(folder)
        }
    }

    /// Those of the environment of this process.
    public static func installed() -> ApplicationList {
        let environment = ProcessInfo.processInfo.environment
        func folders(_ name: String, _ other: String) -> [String] {
            let value = environment[name].flatMap { $0.isEmpty ? nil : $0 } ?? other
            return value.split(separator: ":").map(String.init).filter { $0.hasPrefix("/") }
        }
        let home = environment["HOME"] ?? ""
        return ApplicationList(
            data: folders("XDG_DATA_HOME", home + "/.local/share")
                + folders("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
            settings: folders("XDG_CONFIG_HOME", home + "/.config")
                + folders("XDG_CONFIG_DIRS", "/etc/xdg"),
            programs: folders("PATH", "/usr/local/bin:/usr/bin:/bin")
        )
    }

    /// Applications that open a type, or what it is a kind of: the one to take first, if the user
    /// wants nothing else.
    public func applications(for type: String) -> [DesktopEntry] {
        var found: [String] = []
        func add(_ id: String, for type: String) {
            guard entries[id] != nil, !found.contains(id) else { return }
            found.append(id)
        }
        let lineage = lineage(of: type)
        for type in lineage {
            for id in defaults[type] ?? [] { add(id, for: type) }
            let without = removed[type] ?? []
            for id in added[type] ?? [] where !without.contains(id) { add(id, for: type) }
            for id in order where !without.contains(id) {
                guard entries[id]?.mimeTypes.contains(where: { canonical($0) == type }) == true
                else { continue }
                add(id, for: type)
            }
        }
        return found.compactMap { entries[$0] }
    }

    /// The application of that name, as its entry or as a person calls it.
    public func application(named name: String) -> DesktopEntry? {
        let id = name.hasSuffix(".desktop") ? String(name.dropLast(8)) : name
        if let entry = entries[id] { return entry }
        let small = name.lowercased()
        return order.lazy.compactMap { entries[$0] }.first { $0.name.lowercased() == small }
    }

    // MARK: - Types

    private func canonical(_ type: String) -> String {
        aliases[type.lowercased()] ?? type.lowercased()
    }

    /// A type and what it is a kind of, the nearest first.
    private func lineage(of type: String) -> [String] {
        var found = [canonical(type)]
        var next = 0
        while next < found.count, found.count < 256 {
            for parent in (parents[found[next]] ?? []).map(canonical)
            where !found.contains(parent) {
                found.append(parent)
            }
            next += 1
        }
        if found[0].hasPrefix("text/"), !found.contains("text/plain") { found.append("text/plain") }
        return found
    }

    private mutating func readTypes(_ folder: String) {
        for (type, parent) in Self.pairs("\(folder)/mime/subclasses") {
            parents[type, default: []].append(parent)
        }
        for (alias, type) in Self.pairs("\(folder)/mime/aliases") where alias != type {
            aliases[alias] = aliases[alias] ?? type
        }
    }

    private static func pairs(_ path: String) -> [(String, String)] {
        (text(of: path, atMost: longestList) ?? "").split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            return words.count == 2 ? (words[0].lowercased(), words[1].lowercased()) : nil
        }
    }

    // MARK: - Reading

    private mutating func readAssociations(_ path: String) {
        guard let text = Self.text(of: path, atMost: Self.longestList) else { return }
        let groups = KeyFile(text).groups
        func ids(_ value: String) -> [String] {
            DesktopEntry.list(value).filter { $0.hasSuffix(".desktop") }.map {
                String($0.dropLast(8))
            }
        }
        for (type, value) in groups["Default Applications"] ?? [:] {
            defaults[type.lowercased(), default: []] += ids(value)
        }
        for (type, value) in groups["Added Associations"] ?? [:] {
            let type = type.lowercased()
            // What a list before this one takes away stays away.
            let without = removed[type] ?? []
            added[type, default: []] += ids(value).filter { !without.contains($0) }
        }
        for (type, value) in groups["Removed Associations"] ?? [:] {
            let type = type.lowercased()
            // And what one before has added stays.
            let kept = Set(added[type] ?? [])
            removed[type, default: []].formUnion(ids(value).filter { !kept.contains($0) })
        }
    }

    private mutating func readEntries(
        _ folder: String,
        prefix: String,
        depth: Int,
        _ seen: inout Set<String>,
        _ programs: [String]
    ) {
        guard depth < Self.deepest,
            let names = try? FileManager.default.contentsOfDirectory(atPath: folder)
        else { return }
        for name in names.sorted() where seen.count < Self.mostEntries {
            let path = "\(folder)/\(name)"
            guard name.hasSuffix(".desktop") else {
                guard Self.isFolder(path) else { continue }
                readEntries(path, prefix: "\(prefix)\(name)-", depth: depth + 1, &seen, programs)
                continue
            }
            let id = prefix + String(name.dropLast(8))
            guard !seen.contains(id),
                let text = Self.text(of: path, atMost: DesktopEntry.longest)
            else { continue }
            switch DesktopEntry.read(text, id: id, path: path) {
            case .hidden: seen.insert(id)
            case .none: continue
            case .entry(let entry):
                seen.insert(id)
                guard entry.tryExec.map({ Self.isProgram($0, programs) }) ?? true else { continue }
                entries[id] = entry
                order.append(id)
            }
        }
    }

    private static func isFolder(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    private static func isProgram(_ name: String, _ folders: [String]) -> Bool {
        if name.hasPrefix("/") { return access(name, X_OK) == 0 }
        return folders.contains { access("\($0)/\(name)", X_OK) == 0 }
    }

    /// The text of an ordinary file that is not longer.
    private static func text(of path: String, atMost limit: Int) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            status.st_size <= limit
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var count = 0
        while count < bytes.count {
            let got = bytes[count...].withUnsafeMutableBytes {
                read(descriptor, $0.baseAddress, $0.count)
            }
            guard got > 0 else { break }
            count += got
        }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}

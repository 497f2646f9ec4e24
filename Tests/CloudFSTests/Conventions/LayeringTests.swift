import Foundation
import Testing

/// The dependency direction of `Sources/CloudFS`, as an executable rule.
///
/// A folder may name the types of a folder of lower rank, and its own. Folders of the same
/// rank are blind to each other. Swift cannot express this inside one module. Limits: only
/// names of top-level types are seen (free functions and extensions of foreign types escape),
/// so those names must be unique across folders, and free functions stay in their folder.
@Suite struct LayeringTests {
    static let rank: [String: Int] = [
        "Support": 0, "Model": 1,
        "Archive": 2, "Catalog": 2, "Content": 2, "Coordination": 2, "Provider": 2,
        "Sync": 3, "Attributes": 3, "Virtual": 3, "Thumbnails": 3, "Query": 3, "Access": 3,
        "Filesystem": 4, "FUSE": 5, "Control": 5, "Mount": 6,
    ]

    /// The folders that may import each outside module.
    static let importers: [String: Set<String>] = [
        "AsyncHTTPClient": ["Provider"],
        "CArchive": ["Archive"],
        "CExpat": ["Provider"],
        "CFuse": ["FUSE"],
        "CSQLite": ["Catalog"],
        "CloudFSClient": [],
        "CloudFSControlAPI": ["Control"],
        "Crypto": ["Content", "Provider", "Thumbnails", "Access"],
        "GRDB": ["Catalog", "Thumbnails"], "GRDBSQLite": ["Catalog"],
        "Hummingbird": ["Control"],
        "NIOCore": ["Provider", "Control"],
        "NIOHTTP1": ["Provider", "Control"],
        "NIOPosix": ["Provider", "Control"],
        "NIOSSL": ["Provider"],
        "TOMLKit": ["Mount"],
    ]

    /// What the targets beside the engine may import of the project and of heavy libraries.
    static let targetImporters: [String: Set<String>] = [
        "CArchive": [],
        "CExpat": [],
        "CFuse": [],
        "CSQLite": [],
        "CloudFS": ["cloudfs-mount"],
        "CloudFSClient": ["cloudfs"],
        "CloudFSControlAPI": ["CloudFSClient", "cloudfs"],
        "GRDB": [],
        "Hummingbird": [],
        "AsyncHTTPClient": ["CloudFSClient"],
        "TOMLKit": [],
    ]

    @Test func `every folder looks only downwards`() throws {
        let files = try EngineSource.all(under: "Sources/CloudFS")
        try #require(!files.isEmpty)
        var owner: [String: String] = [:]
        for file in files {
            for name in file.declaredTypes { owner[name] = file.folder }
        }

        for file in files {
            let own = try #require(
                Self.rank[file.folder],
                "\(file.path): folder \"\(file.folder)\" has no rank"
            )
            for name in file.mentionedTypes.sorted() {
                guard let other = owner[name], other != file.folder, let rank = Self.rank[other]
                else { continue }
                #expect(rank < own, "\(file.path) mentions \(name), owned by \(other)")
            }
        }
    }

    @Test func `outside modules are imported only where they belong`() throws {
        for file in try EngineSource.all(under: "Sources/CloudFS") {
            for module in file.imports {
                guard let allowed = Self.importers[module] else { continue }
                #expect(allowed.contains(file.folder), "\(file.path) imports \(module)")
            }
        }
    }

    @Test func `the targets beside the engine keep to the control API`() throws {
        for target in ["CloudFSControlAPI", "CloudFSClient", "cloudfs", "cloudfs-mount"] {
            for file in try EngineSource.all(under: "Sources/\(target)") {
                for module in file.imports {
                    guard let allowed = Self.targetImporters[module] else { continue }
                    #expect(allowed.contains(target), "\(file.path) imports \(module)")
                }
            }
        }
    }

    @Test func `a type's name is declared in one folder only`() throws {
        var owners: [String: Set<String>] = [:]
        for file in try EngineSource.all(under: "Sources/CloudFS") {
            for name in file.declaredTypes { owners[name, default: []].insert(file.folder) }
        }
        for (name, folders) in owners where folders.count > 1 {
            Issue.record("\(name) is declared in \(folders.sorted().joined(separator: " and "))")
        }
    }

    @Test func `an upward mention and a sibling's are seen`() throws {
        let catalog = EngineSource(
            path: "Catalog/Lower.swift",
            folder: "Catalog",
            text: ProjectText(
                path: "",
                text: """
                    internal import GRDB
                    /// Mentions Commented, which is no dependency.
                    public final class Lower { let a: Upper?; let b = "Quoted" }
                    private struct Hidden {}
                    """
            ).code
        )

        #expect(catalog.declaredTypes == ["Lower"])
        #expect(catalog.mentionedTypes.contains("Upper"))
        #expect(catalog.mentionedTypes.isDisjoint(with: ["Commented", "Quoted"]))
        #expect(catalog.imports == ["GRDB"])
    }
}

/// One Swift file of the engine, with comments and string literals blanked.
private struct EngineSource {
    let path: String
    let folder: String
    let text: String

    static func all(under start: String) throws -> [EngineSource] {
        try ProjectText.all(under: start, withExtensions: ["swift"]).map { file in
            let parts = file.path.dropFirst(start.count + 1).split(separator: "/")
            return EngineSource(
                path: file.path,
                folder: parts.count > 1 ? String(parts[0]) : "",
                text: file.code
            )
        }
    }

    /// Top-level types that another file can see.
    var declaredTypes: [String] {
        let declaration =
            /(?m)^(?<before>(?:@[\w()]+\s+|[a-z]+\s+)*?)(?:struct|enum|class|actor|protocol|typealias)\s+(?<name>[A-Z]\w*)/
        return text.matches(of: declaration)
            .filter { !$0.output.before.contains("private") }
            .map { String($0.output.name) }
    }

    var mentionedTypes: Set<String> {
        Set(text.matches(of: /\b[A-Z]\w*/).map { String($0.output) })
    }

    var imports: [String] {
        text.matches(of: /(?m)^(?:@\w+ +)*(?:\w+ +)?import +(?:[a-z]+ +)?(\w+)/)
            .map { String($0.output.1) }
    }
}

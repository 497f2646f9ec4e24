import CloudFSControlAPI
import Foundation
import Testing

@testable import CloudFS

/// `docs/openapi.json` says what the control API does: no more, no less.
@Suite struct OpenAPITests {
    private typealias Object = [String: Any]

    /// The Swift type of each form that the document describes.
    private static let types: [String: any (Codable & Sendable).Type] = [
        "ActivityProgram": ActivityReport.Program.self,
        "ActivityPurpose": ActivityReport.Program.Purpose.self,
        "ActivityReport": ActivityReport.self, "BookmarkOrder": BookmarkOrder.self,
        "BookmarkQuery": BookmarkQuery.self, "BookmarkStatus": BookmarkStatus.self,
        "BookmarkWay": BookmarkStatus.Way.self, "CacheStatus": CacheStatus.self,
        "CheckFinding": CheckPage.Finding.self,
        "CheckPage": CheckPage.self, "CheckRequest": CheckRequest.self,
        "CheckShown": CheckPage.Shown.self, "ClaimEnding": ClaimEnding.self,
        "ClaimEvent": ClaimEvent.self, "ClaimHolder": ClaimStatus.Holder.self,
        "ClaimIntent": ClaimIntent.self, "ClaimList": ClaimList.self,
        "ClaimOption": ClaimIntent.Option.self, "ClaimOrder": ClaimOrder.self,
        "ClaimStatus": ClaimStatus.self, "ConflictGroup": ConflictGroup.self,
        "ConflictOutcome": ConflictOutcome.self, "ConflictPage": ConflictPage.self,
        "ConflictQuery": ConflictQuery.self, "ConflictResolution": ConflictResolution.self,
        "ConflictVersion": ConflictGroup.Version.self, "Connection": DriveStatus.Connection.self,
        "Done": Done.self, "DownloadProgress": DownloadProgress.self,
        "DownloadStatus": DownloadStatus.self, "DrainRequest": DrainRequest.self,
        "DrainResult": DrainResult.self, "DriveEvent": DriveEvent.self,
        "DriveStatus": DriveStatus.self, "Error": ControlFailure.self,
        "EvictRequest": EvictRequest.self, "FetchCounts": FetchCounts.self,
        "FolderTotals": FolderTotals.self, "ItemCounts": ItemCounts.self,
        "ItemPage": ItemPage.self, "ItemQuery": ItemQuery.self, "ItemResult": ItemResult.self,
        "ItemResults": ItemResults.self, "ItemStatus": ItemStatus.self,
        "LeaseStatus": LeaseStatus.self, "ListingProgress": ListingProgress.self,
        "LoginRequest": LoginRequest.self, "Mode": DriveStatus.Mode.self,
        "OutboxCounts": OutboxCounts.self, "OutboxEntry": OutboxPage.Entry.self,
        "OutboxPage": OutboxPage.self, "Path": DrivePath.self, "PathsRequest": PathsRequest.self,
        "PinPolicy": PinPolicy.self, "PinState": PinState.self,
        "PolicyRequest": PolicyRequest.self, "PresenterAnswer": PresenterAnswer.self,
        "PresenterEvent": PresenterEvent.self, "PresenterEventKind": PresenterEvent.Kind.self,
        "QueryEvent": QueryEvent.self, "QueryRequest": QueryRequest.self,
        "QueryScope": QueryScope.self,
        "PresenterOrder": PresenterOrder.self, "PresenterStatus": PresenterStatus.self,
        "Time": WireTime.self, "UnmountRequest": UnmountRequest.self,
        "UnmountResult": UnmountResult.self,
    ]

    /// Whose mirrors or coding hide what they hold.
    private static let opaque: Set<String> = ["Error", "LoginRequest", "Path", "Time"]

    private let document: Object
    private let schemas: [String: Object]

    init() throws {
        let file = ProjectText.root.appending(path: "docs/openapi.json")
        document = try #require(
            try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? Object
        )
        let components = try #require(document["components"] as? Object)
        schemas = try #require(components["schemas"] as? [String: Object])
    }

    // MARK: - Forms

    @Test func `every form is one of a type`() {
        #expect(Set(schemas.keys) == Set(Self.types.keys))
    }

    @Test(arguments: types.keys.sorted())
    func `a form has the fields of its type`(name: String) throws {
        let type = try #require(Self.types[name])
        let schema = try #require(schemas[name])
        for sample in try samples(of: schema) {
            let (value, again) = try Self.thereAndBack(sample, type)
            #expect(Self.text(again) == Self.text(sample), "\(name)")
            guard let fields = sample as? Object, !Self.opaque.contains(name) else { continue }
            let labels = Mirror(reflecting: value).children.compactMap(\.label)
            #expect(Set(labels) == Set(fields.keys), "\(name)")
        }
    }

    @Test(arguments: types.keys.sorted())
    func `a form needs what its type needs`(name: String) throws {
        let type = try #require(Self.types[name])
        let schema = try #require(schemas[name])
        let required = Set(schema["required"] as? [String] ?? [])
        guard let full = try samples(of: schema).first as? Object else { return }
        for field in full.keys {
            var part = full
            part[field] = nil
            let isReadable = (try? Self.thereAndBack(part, type)) != nil
            #expect(isReadable == !required.contains(field), "\(name).\(field)")
        }
    }

    private static func thereAndBack(
        _ sample: Any,
        _ type: any (Codable & Sendable).Type
    ) throws -> (value: any Codable, again: Any) {
        let data = try JSONSerialization.data(
            withJSONObject: sample,
            options: [.fragmentsAllowed]
        )
        let value = try JSONDecoder().decode(type, from: data)
        let again = try JSONEncoder().encode(value)
        return (value, try JSONSerialization.jsonObject(with: again, options: .fragmentsAllowed))
    }

    private static func text(_ json: Any) -> String {
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .fragmentsAllowed]
        let data = try? JSONSerialization.data(withJSONObject: json, options: options)
        return data.map { String(decoding: $0, as: UTF8.self) } ?? "no JSON"
    }

    /// Values of a form that together hold every field, and every word of its own.
    private func samples(of schema: Object) throws -> [Any] {
        if let reference = schema["$ref"] as? String {
            let name = try #require(reference.split(separator: "/").last)
            return try samples(of: try #require(schemas[String(name)], "\(name)"))
        }
        if let all = schema["allOf"] as? [Object] { return try samples(of: all[0]) }
        if let words = schema["enum"] as? [String] { return words }
        switch schema["type"] as? String {
        case "string":
            return schema["format"] as? String == "date-time" ? ["2026-11-20T14:30:05Z"] : ["a b"]
        case "integer", "number": return [1]
        case "boolean": return [true]
        case "array":
            return [[try samples(of: try #require(schema["items"] as? Object))[0]]]
        case "object":
            let fields = schema["properties"] as? [String: Object] ?? [:]
            var full: Object = [:]
            for (field, form) in fields { full[field] = try samples(of: form)[0] }
            if schema["additionalProperties"] != nil { full["leases"] = "a b" }
            let others = try fields.flatMap { field, form in
                try samples(of: form).dropFirst().map { word in
                    full.merging([field: word]) { $1 }
                }
            }
            return [full] + others
        default:
            Issue.record("a form of no type: \(schema)")
            return []
        }
    }

    // MARK: - Routes

    @Test func `every route is described`() throws {
        let paths = try #require(document["paths"] as? Object)
        #expect(Set(paths.keys) == Set(ControlAPI.Route.allCases.map(\.rawValue)))
    }

    @Test func `what is described is served, with the requests that are shown`() async throws {
        let paths = try #require(document["paths"] as? [String: [String: Object]])
        let folder = try SocketFolder()
        var requests: [String] = []
        for (path, operations) in paths {
            for (method, operation) in operations {
                var body = ""
                if let described = operation["requestBody"] as? Object {
                    body = try Self.example(of: described)
                }
                requests.append(
                    """
                    \(method.uppercased()) \(path) HTTP/1.1\r
                    Host: drive\r
                    Content-Length: \(body.utf8.count)\r
                    \r
                    \(body)
                    """
                )
            }
        }
        #expect(requests.count >= ControlAPI.Route.allCases.count)
        let sent = requests
        try await withServer(in: folder) { _, server in
            for request in sent {
                let connection = try RawConnection(server.socketPath)
                #expect(try await connection.send(request))
                let answer = try await connection.receive(until: "\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(request)\n\(answer)")
            }
        }
    }

    private static func example(of described: Object) throws -> String {
        let content = try #require(described["content"] as? [String: Object])
        return text(try #require(content["application/json"]?["example"]))
    }
}

import Foundation
import Glibc

/// A JSON document, to look into without a type for it.
public enum JSONNode: Sendable, Equatable, Decodable {
    case object([String: JSONNode])
    case array([JSONNode])
    case text(String)
    case number(Double)
    case flag(Bool)
    case null

    public init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .null
        } else if let flag = try? value.decode(Bool.self) {
            self = .flag(flag)
        } else if let number = try? value.decode(Double.self) {
            self = .number(number)
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let array = try? value.decode([JSONNode].self) {
            self = .array(array)
        } else {
            self = .object(try value.decode([String: JSONNode].self))
        }
    }

    public init(_ text: String) throws {
        self = try JSONDecoder().decode(JSONNode.self, from: Data(text.utf8))
    }

    public subscript(name: String) -> JSONNode? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }

    /// The member called `name`, wherever in the document it is.
    public func first(_ name: String) -> JSONNode? {
        switch self {
        case .object(let members):
            members[name] ?? members.values.lazy.compactMap { $0.first(name) }.first
        case .array(let elements): elements.lazy.compactMap { $0.first(name) }.first
        default: nil
        }
    }

    public var string: String? {
        guard case .text(let text) = self else { return nil }
        return text
    }

    public var integer: Int64? {
        guard case .number(let number) = self else { return nil }
        return Int64(number)
    }

    public var elements: [JSONNode]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }
}

/// Items of the drive, reached on threads of their own so that a hung mount fails the test only.
extension TestDrive {
    private func full(_ name: String) -> String { name.isEmpty ? path : "\(path)/\(name)" }

    public func status(_ name: String) async throws -> FileStatus {
        let full = full(name)
        return try await onThread("lstat of \(name)") { try SystemCall.status(full) }
    }

    public func exists(_ name: String) async throws -> Bool {
        let full = full(name)
        return try await onThread("lstat of \(name)") {
            do throws(SystemError) {
                _ = try SystemCall.status(full)
                return true
            } catch {
                guard error.code == ENOENT else { throw error }
                return false
            }
        }
    }

    /// Whether all of `present` are there and none of `absent`.
    public func has(_ present: [String], not absent: [String] = []) async throws -> Bool {
        for name in present where try await !exists(name) { return false }
        for name in absent where try await exists(name) { return false }
        return true
    }

    public func names(_ name: String = "") async throws -> [String] {
        let full = full(name)
        return try await onThread("listing of \(name)") { try SystemCall.names(in: full) }
    }

    public func bytes(_ name: String) async throws -> [UInt8] {
        let full = full(name)
        return try await onThread("reading of \(name)") {
            let file = try SystemCall.open(full, O_RDONLY)
            defer { close(file) }
            let size = try SystemCall.status(file).size
            return try SystemCall.read(file, count: Int(size), at: 0)
        }
    }

    public func text(_ name: String) async throws -> String {
        String(decoding: try await bytes(name), as: UTF8.self)
    }

    public func write(_ name: String, _ text: String) async throws {
        let full = full(name)
        try await onThread("writing of \(name)") {
            let file = try SystemCall.open(full, O_WRONLY | O_CREAT | O_TRUNC)
            defer { close(file) }
            _ = try SystemCall.write(file, Array(text.utf8), at: 0)
        }
    }

    // MARK: - Attributes

    /// An attribute's text, or `nil` if the item has none of this name.
    public func attribute(_ attribute: String, of name: String) async throws -> String? {
        try await bytes(ofAttribute: attribute, of: name).map {
            String(decoding: $0, as: UTF8.self)
        }
    }

    /// An attribute's bytes, or `nil` if the item has none of this name.
    public func bytes(ofAttribute attribute: String, of name: String) async throws -> [UInt8]? {
        let full = full(name)
        return try await onThread("\(attribute) of \(name)") {
            do throws(SystemError) {
                return try SystemCall.attribute(attribute, of: full)
            } catch {
                guard error.code == ENODATA else { throw error }
                return nil
            }
        }
    }

    public func setAttribute(_ attribute: String, of name: String, to value: String) async throws {
        try await setAttribute(attribute, of: name, to: Array(value.utf8))
    }

    public func setAttribute(_ attribute: String, of name: String, to value: [UInt8]) async throws {
        let full = full(name)
        try await onThread("setting \(attribute) of \(name)") {
            try SystemCall.setAttribute(attribute, of: full, to: value)
        }
    }

    /// The one word for the item's state, such as `cloud` or `local`.
    public func state(_ name: String) async throws -> String? {
        try await attribute("user.cloudfs.status", of: name)
    }

    /// The document's identity; empty in native runs, where nothing has one.
    public func itemID(_ name: String) async throws -> String {
        guard !TestDrive.isNative else { return "" }
        return try await attribute("user.cloudfs.item-id", of: name) ?? "none"
    }

    public func evict(_ name: String) async throws {
        try await setAttribute("user.cloudfs.evict", of: name, to: "1")
    }

    public func hydrate(_ name: String) async throws {
        try await setAttribute("user.cloudfs.hydrate", of: name, to: "1")
        try await eventually("\(name) is here") { try await state(name) == "local" }
    }

    /// All attributes as the one JSON document.
    public func info(_ name: String) async throws -> JSONNode {
        try JSONNode(try await attribute("user.cloudfs", of: name) ?? "{}")
    }

    /// How often the provider was asked for content since the mount, and how much it delivered.
    public func fetched() async throws -> (count: Int64, bytes: Int64) {
        guard !TestDrive.isNative else { return (0, 0) }
        let info = try await info("")
        guard let count = info.first("fetch-count")?.integer,
            let bytes = info.first("fetched-bytes")?.integer
        else { throw SystemError("fetch-count and fetched-bytes in \(info)", ENODATA) }
        return (count, bytes)
    }

    // MARK: - The cloud

    /// Waits until the cloud has this text under this name.
    public func untilCloudHas(
        _ name: String,
        _ text: String,
        within limit: Duration = .seconds(10)
    ) async throws {
        try await eventually("the cloud has \(text.prefix(40)) in \(name)", within: limit) {
            cloud.text(name) == text
        }
    }

    /// Waits until nothing is left to upload.
    public func drain() async throws {
        guard !TestDrive.isNative else { return }
        let result = try await cloudfs(["drain", "--wait"], within: .seconds(150))
        guard result.status == 0, result.errors.isEmpty else {
            throw DeadlineError("the queue is empty: \(result.errors)", .zero)
        }
    }
}

import Glibc

// The `Glibc` module shows only what POSIX names. These calls are in the C library all the same
// and are looked up there by name.

private typealias RenameFunction =
    @convention(c) (
        Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32
    ) -> Int32
private typealias SetAttributeFunction =
    @convention(c) (
        UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeRawPointer?, Int, Int32
    ) -> Int32
private typealias GetAttributeFunction =
    @convention(c) (
        UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeMutableRawPointer?, Int
    ) -> Int
private typealias ListAttributesFunction =
    @convention(c) (
        UnsafePointer<CChar>, UnsafeMutableRawPointer?, Int
    ) -> Int
private typealias RemoveAttributeFunction =
    @convention(c) (
        UnsafePointer<CChar>, UnsafePointer<CChar>
    ) -> Int32

/// How `renameat2` treats an existing target.
public enum RenameFlag: UInt32, Sendable, CaseIterable {
    case replace = 0
    case noReplace = 1
    case exchange = 2
}

/// What `setxattr` demands of the attribute.
public enum AttributeFlag: Int32, Sendable, CaseIterable {
    case any = 0
    case create = 1
    case replace = 2
}

extension SystemCall {
    public static func rename(
        _ source: String,
        to destination: String,
        _ flag: RenameFlag = .replace
    ) throws(SystemError) {
        let function = try find("renameat2", as: RenameFunction.self)
        try check("renameat2", function(AT_FDCWD, source, AT_FDCWD, destination, flag.rawValue))
    }

    public static func setAttribute(
        _ name: String,
        of path: String,
        to value: [UInt8],
        _ flag: AttributeFlag = .any
    ) throws(SystemError) {
        let function = try find("setxattr", as: SetAttributeFunction.self)
        let result = value.withUnsafeBytes { bytes in
            function(path, name, bytes.baseAddress, bytes.count, flag.rawValue)
        }
        try check("setxattr", result)
    }

    public static func attribute(
        _ name: String,
        of path: String
    ) throws(SystemError) -> [UInt8] {
        let function = try find("getxattr", as: GetAttributeFunction.self)
        var buffer = OperationBytes.zeros(65_536)
        let count = buffer.withUnsafeMutableBytes { function(path, name, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw SystemError("getxattr", errno) }
        return Array(buffer[..<count])
    }

    /// The names of the attributes of what `path` leads to, sorted.
    public static func attributeNames(of path: String) throws(SystemError) -> [String] {
        let function = try find("listxattr", as: ListAttributesFunction.self)
        var buffer = OperationBytes.zeros(65_536)
        let count = buffer.withUnsafeMutableBytes { function(path, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw SystemError("listxattr", errno) }
        return buffer[..<count].split(separator: 0)
            .map { String(decoding: $0, as: UTF8.self) }
            .sorted()
    }

    public static func removeAttribute(_ name: String, of path: String) throws(SystemError) {
        let function = try find("removexattr", as: RemoveAttributeFunction.self)
        try check("removexattr", function(path, name))
    }

    private static func find<Function>(
        _ name: String,
        as type: Function.Type
    ) throws(SystemError) -> Function {
        guard let symbol = dlsym(nil, name) else { throw SystemError(name, ENOSYS) }
        return unsafeBitCast(symbol, to: type)
    }
}

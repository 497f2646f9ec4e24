import CLinux
import Glibc

/// Extended attributes of objects in the cloud directory.
///
/// Only `user.*` exists for CloudFS. `user.cloudfs-id` is the document id, and everything below
/// `user.cloudfs.` is what a drive computes, but for `user.cloudfs.favorite`: neither is an
/// application's attribute.
enum EmbeddedAttributes {
    static let documentID = RemoteAttribute.documentID

    /// The attributes of applications, and the document id if one is stored.
    struct Found {
        var attributes: [String: [UInt8]] = [:]
        var documentID: DocumentID?
        /// Whether this user may not read all that there is, or not even what it is called.
        var isHidden = false
    }

    /// Reads all attributes of an open object.
    ///
    /// An object whose attributes this user may not read has them hidden: its item is still there,
    /// and nobody should take them for gone.
    static func read(_ descriptor: EmbeddedDescriptor) throws(EmbeddedFailure) -> Found {
        var found = Found()
        let path = descriptor.magicPath
        do {
            for name in try names(at: path) where name.hasPrefix("user.") {
                if name == documentID {
                    let text = try value(of: name, at: path) ?? []
                    found.documentID = DocumentID(String(decoding: text, as: UTF8.self))
                } else if RemoteAttribute.isSynced(name), found.attributes[name] == nil {
                    // Of names that differ by their normal form only the first is one.
                    found.attributes[name] = try value(of: name, at: path)
                }
            }
        } catch  where error.errorNumber == EACCES {
            found.isHidden = true
        }
        return found
    }

    /// Makes `attributes` all the attributes of applications that the object has.
    ///
    /// Others that were hidden stay: nobody here has seen them, so nobody here has removed them.
    ///
    /// - Parameter wereHidden: Whether they were until a moment ago.
    /// - Returns: Whether there may be such others.
    @discardableResult
    static func write(
        _ attributes: [String: [UInt8]],
        to descriptor: EmbeddedDescriptor,
        wereHidden: Bool = false
    ) throws -> Bool {
        let found = try read(descriptor)
        let present = found.attributes
        let path = descriptor.magicPath
        // By their bytes: one that differs in its normal form only is another one, which goes.
        let names = Set(attributes.keys.map { Array($0.utf8) })
        let kept = present.filter { names.contains(Array($0.key.utf8)) }
        let others = present.keys.filter { kept[$0] == nil }
        let mayRemove = !wereHidden && !found.isHidden
        // First, as their room may be needed.
        for name in others where mayRemove {
            let result = EmbeddedSystem.attempt("removexattr") { clinux_removexattr(path, name) }
            // Somebody else may have removed it first.
            if case .failure(let failure) = result, failure.errorNumber != ENODATA { throw failure }
        }
        for (name, value) in attributes where kept[name] != value {
            guard RemoteAttribute.isSynced(name) else {
                throw CloudFSError(.invalidName, "\"\(name)\" is no attribute of an application")
            }
            try set(name, to: value, of: descriptor)
        }
        return found.isHidden || wereHidden && !others.isEmpty
    }

    static func writeDocumentID(
        _ identity: DocumentID,
        to descriptor: EmbeddedDescriptor
    ) throws {
        try set(documentID, to: Array(identity.description.utf8), of: descriptor)
    }

    /// Whether the file system under `descriptor` keeps `user.*` attributes; asked without writing.
    static func areSupported(by descriptor: EmbeddedDescriptor) throws(EmbeddedFailure) -> Bool {
        let path = descriptor.magicPath
        let result = EmbeddedSystem.attempt("getxattr") {
            clinux_getxattr(path, documentID, nil, 0)
        }
        guard case .failure(let failure) = result else { return true }
        if failure.errorNumber == EOPNOTSUPP { return false }
        guard [ENODATA, EACCES].contains(failure.errorNumber) else { throw failure }
        return true
    }

    private static func set(
        _ name: String,
        to value: [UInt8],
        of descriptor: EmbeddedDescriptor
    ) throws {
        let path = descriptor.magicPath
        let result = EmbeddedSystem.attempt("setxattr") {
            value.withUnsafeBytes { clinux_setxattr(path, name, $0.baseAddress, $0.count) }
        }
        guard case .failure(var failure) = result else { return }
        // One code stands for a full disk and for a full attribute block of this one inode.
        var space = statvfs()
        if failure.errorNumber == ENOSPC, fstatvfs(descriptor.rawValue, &space) == 0,
            space.f_bavail > 0
        {
            failure.errorNumber = E2BIG
        }
        throw failure
    }

    private static func names(at path: String) throws(EmbeddedFailure) -> [String] {
        // Most objects have none, and asking for the length alone needs no room.
        guard try byteCountOfNames(at: path) > 0 else { return [] }
        var space = [CChar](repeating: 0, count: greatestByteCount)
        let length = try EmbeddedSystem.check("listxattr") {
            clinux_listxattr(path, &space, space.count)
        }
        return space.prefix(length).split(separator: 0).compactMap { name in
            // A name that is no UTF-8 has no place in an item; it stays untouched.
            String(validating: name.lazy.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    private static func byteCountOfNames(at path: String) throws(EmbeddedFailure) -> Int {
        switch EmbeddedSystem.attempt("listxattr", { clinux_listxattr(path, nil, 0) }) {
        case .success(let length): return length
        case .failure(let failure):
            guard failure.errorNumber == EOPNOTSUPP else { throw failure }
            return 0
        }
    }

    /// The value, or `nil` if there is none.
    private static func value(
        of name: String,
        at path: String,
        room: Int = 256
    ) throws(EmbeddedFailure) -> [UInt8]? {
        var space = [UInt8](repeating: 0, count: room)
        switch EmbeddedSystem.attempt("getxattr", { clinux_getxattr(path, name, &space, room) }) {
        case .success(let length): return Array(space.prefix(length))
        case .failure(let failure):
            if failure.errorNumber == ENODATA { return nil }
            guard failure.errorNumber == ERANGE, room < greatestByteCount else { throw failure }
            return try value(of: name, at: path, room: greatestByteCount)
        }
    }

    /// What the kernel allows for one value and for all names.
    private static let greatestByteCount = 65_536
}

import CLinux
import Glibc

/// The provider's own room, `.cloudfs` at the root: what is being made and what is being removed.
struct EmbeddedRoom: Sendable {
    let descriptor: EmbeddedDescriptor
    /// New versions before they take their names.
    let staging: EmbeddedDescriptor
    /// What is being deleted, until it was looked at once more.
    let trash: EmbeddedDescriptor

    /// Takes the lock that CloudFS devices change the cloud directory under, or returns `nil`.
    ///
    /// Never waits: threads are few. The lock is held until the descriptor is gone.
    func tryLock() throws(EmbeddedFailure) -> EmbeddedDescriptor? {
        let lock = try EmbeddedSystem.open(
            Array("lock".utf8),
            in: descriptor,
            flags: O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK,
            mode: 0o666
        )
        do {
            try EmbeddedSystem.check("flock") { flock(lock.rawValue, LOCK_EX | LOCK_NB) }
            return lock
        } catch  where error.errorNumber == EWOULDBLOCK {
            return nil
        }
    }

    /// Puts something whose owner is not known any more where people can find it.
    func rescue(_ name: [UInt8], in folder: EmbeddedDescriptor) throws(EmbeddedFailure) {
        let found = try EmbeddedRoot.makeAndOpen(Array("lost+found".utf8), in: descriptor)
        try EmbeddedSystem.rename(
            name,
            in: folder,
            to: name,
            in: found,
            flags: clinux_rename_noreplace
        )
        try EmbeddedSystem.synchronize(found)
    }

    // MARK: - Leftovers

    /// Removes what a crash of this device left behind.
    ///
    /// The lock must be held. An unfinished upload goes, and so does a version that was displaced
    /// or deleted on
    /// purpose. Anything else got here in the moment of a crash, while a foreign program changed
    /// the same item; it may be the only copy and goes to `lost+found`.
    func removeLeftovers(of device: EmbeddedDeviceName) throws {
        for folder in [staging, trash] {
            for name in try EmbeddedSystem.names(in: folder) {
                guard let leftover = EmbeddedLeftover(name, device: device) else { continue }
                try remove(leftover, name: name, in: folder)
            }
        }
    }

    private func remove(
        _ leftover: EmbeddedLeftover,
        name: [UInt8],
        in folder: EmbeddedDescriptor
    ) throws {
        let item = try EmbeddedFoundItem(
            name: try ItemName(name),
            in: folder,
            handle: try EmbeddedHandle(of: folder)
        )
        if item.status.kind == .file, try isBeingMade(item) { return }
        guard leftover.mayBeRemoved(item.status) else { return try rescue(name, in: folder) }
        let flags = item.status.kind == .folder ? AT_REMOVEDIR : 0
        try EmbeddedSystem.unlink(name, in: folder, flags: flags)
    }

    /// Whether a living upload holds the file: two mounts can have the same device name.
    private func isBeingMade(_ item: EmbeddedFoundItem) throws(EmbeddedFailure) -> Bool {
        let file: EmbeddedDescriptor
        do {
            file = try EmbeddedSystem.reopen(item.descriptor, flags: O_RDONLY | O_NONBLOCK)
        } catch  where error.errorNumber == EACCES {
            return false
        }
        do {
            try EmbeddedSystem.check("flock") { flock(file.rawValue, LOCK_EX | LOCK_NB) }
            return false
        } catch  where error.errorNumber == EWOULDBLOCK {
            return true
        }
    }
}

/// A device's name in a form that can be part of a file name.
struct EmbeddedDeviceName: Sendable {
    let text: String

    init(_ name: String) {
        let allowed = name.utf8.prefix(64).map { byte -> UInt8 in
            let isPlain =
                (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte)
                || (0x61...0x7a).contains(byte) || byte == 0x5f
            return isPlain ? byte : 0x5f
        }
        text = allowed.isEmpty ? "device" : String(decoding: allowed, as: UTF8.self)
    }
}

/// The name of something in the provider's own room; it says what may be done after a crash.
///
/// `device-random` is being made. `device-random-own-base` takes part in an exchange or a
/// deletion: `own` is the digest of the object that this device made, `base` that of the version
/// it meant to displace. Seeing which of the two is there tells how far it got.
struct EmbeddedLeftover: Sendable {
    private let parts: [String]

    static func making(_ device: EmbeddedDeviceName) -> String {
        "\(device.text)-\(EmbeddedText.random())"
    }

    static func exchanging(_ name: String, own: EmbeddedStatus, base: EmbeddedStatus) -> String {
        "\(name)-\(digest(own.handle.key))-\(digest(base.version.content))"
    }

    static func deleting(_ base: EmbeddedStatus, device: EmbeddedDeviceName) -> String {
        "\(making(device))-0-\(digest(base.version.content))"
    }

    init?(_ name: [UInt8], device: EmbeddedDeviceName) {
        parts = String(decoding: name, as: UTF8.self)
            .split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2 || parts.count == 4, parts[0] == device.text,
            DocumentID(parts[1]) != nil
        else { return nil }
    }

    func mayBeRemoved(_ status: EmbeddedStatus) -> Bool {
        guard parts.count == 4 else { return true }
        return parts[2] == Self.digest(status.handle.key)
            || parts[3] == Self.digest(status.version.content)
    }

    private static func digest(_ text: String) -> String {
        EmbeddedText.digest(text, byteCount: 8)
    }
}

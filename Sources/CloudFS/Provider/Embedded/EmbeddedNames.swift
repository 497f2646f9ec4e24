import Glibc

/// Names in the cloud directory, changed also in folders whose mode keeps their owner from it.
///
/// A tree that was unpacked read-only is to reach the cloud as it is, and to go from it. Here,
/// where it was made, its folders were writable in the meantime; there they are for a moment.
enum EmbeddedNames {
    /// Renames as `EmbeddedSystem` does.
    ///
    /// - Parameter moved: What is renamed, if it may be a folder: one that gets another parent has
    ///   to be writable itself.
    static func rename(
        _ name: [UInt8],
        of moved: EmbeddedDescriptor? = nil,
        in folder: EmbeddedDescriptor,
        to newName: [UInt8],
        in newFolder: EmbeddedDescriptor,
        flags: UInt32
    ) throws(EmbeddedFailure) {
        let folders = [folder, newFolder] + [moved].compactMap(\.self)
        try withWriting(in: folders) { () throws(EmbeddedFailure) in
            try EmbeddedSystem.rename(name, in: folder, to: newName, in: newFolder, flags: flags)
        }
    }

    /// Removes a name as `EmbeddedSystem` does.
    static func unlink(
        _ name: [UInt8],
        in folder: EmbeddedDescriptor,
        flags: Int32 = 0
    ) throws(EmbeddedFailure) {
        try withWriting(in: [folder]) { () throws(EmbeddedFailure) in
            try EmbeddedSystem.unlink(name, in: folder, flags: flags)
        }
    }

    /// Runs `change`, and where permissions refuse it once more with those of the owner added.
    ///
    /// To be called under the lock, or two devices could take each other's added ones for the mode.
    /// A process that dies in between leaves them behind: the folder's owner may do more in it than
    /// before, and nobody else may. Every device sees that as a mode that somebody has set in the
    /// directory; nothing else of the folder, and nothing in it, is touched.
    private static func withWriting(
        in folders: [EmbeddedDescriptor],
        _ change: () throws(EmbeddedFailure) -> Void
    ) throws(EmbeddedFailure) {
        let refusal: EmbeddedFailure
        do {
            return try change()
        } catch {
            guard error.errorNumber == EACCES else { throw error }
            refusal = error
        }
        let lifted = folders.compactMap { folder in lift(folder).map { (folder, $0) } }
        guard !lifted.isEmpty else { throw refusal }
        let result = Result(catching: change)
        for (folder, mode) in lifted.reversed() {
            try EmbeddedMetadata.changePermissions(of: folder, to: mode)
        }
        try result.get()
    }

    /// Lets a folder's owner change names in it.
    ///
    /// - Returns: The mode that it had; `nil` if that is not what refuses it, or if it belongs to
    ///   somebody else.
    private static func lift(_ folder: EmbeddedDescriptor) -> mode_t? {
        var status = stat()
        guard fstat(folder.rawValue, &status) == 0, status.st_mode & S_IFMT == S_IFDIR,
            status.st_mode & 0o300 != 0o300
        else { return nil }
        let mode = status.st_mode & 0o7777
        do {
            try EmbeddedMetadata.changePermissions(of: folder, to: mode | 0o300)
            return mode
        } catch {
            // What was refused is told, and not that this was, too.
            return nil
        }
    }
}

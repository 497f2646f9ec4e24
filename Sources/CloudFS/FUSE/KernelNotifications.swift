import CFuse
import Glibc

extension KernelNotification {
    /// Tells the kernel through `session`; 0 or an errno.
    ///
    /// May block behind an unanswered request of the same folder or item.
    func send(through session: SharedPointer) -> Int32 {
        switch self {
        case .attributes(let id):
            return -fuse_lowlevel_notify_inval_inode(session.raw, id.number, -1, 0)
        case .content(let id):
            return -fuse_lowlevel_notify_inval_inode(session.raw, id.number, 0, 0)
        case .entry(let parent, let name):
            return name.withCString { text, count in
                -fuse_lowlevel_notify_inval_entry(session.raw, parent.number, text, count)
            }
        case .deletion(let parent, let name, let item):
            return Self.sendDeletion(session, parent, name, item)
        }
    }

    /// Tells of a deletion, or if that cannot be shown makes the kernel forget the name.
    ///
    /// A folder with entries that the kernel still uses cannot be shown as deleted. The kernel
    /// sets the item's link count to 0, which would be wrong for a file with other names, so its
    /// attributes are forgotten too.
    private static func sendDeletion(
        _ session: SharedPointer,
        _ parent: ItemID,
        _ name: ItemName,
        _ item: ItemID
    ) -> Int32 {
        let result = name.withCString { text, count in
            var result = fuse_lowlevel_notify_delete(
                session.raw,
                parent.number,
                item.number,
                text,
                count
            )
            if result != 0, result != -ENOENT {
                result = fuse_lowlevel_notify_inval_entry(
                    session.raw,
                    parent.number,
                    text,
                    count
                )
            }
            return result
        }
        let forgotten = fuse_lowlevel_notify_inval_inode(session.raw, item.number, -1, 0)
        return -(result != 0 ? result : forgotten)
    }
}

extension Telling {
    /// Notes what the kernel has forgotten.
    ///
    /// - Parameter number: 0, or the errno that it answered with.
    func note(_ notification: KernelNotification, answeredWith number: Int32) {
        switch notification {
        case .attributes: break
        case .content(let id):
            // A file that it does not know may be in an answer from before, which is on its way.
            if number == 0 { noteSize(of: id) }
        case .entry(let parent, let name), .deletion(let parent, let name, _):
            // It has waited for answers about names of the folder. Where it does not know the
            // name, or still uses what had it, it looks that up again all the same.
            guard [0, ENOENT, ENOTEMPTY, EBUSY].contains(number) else { return }
            noteName(name, in: parent)
        }
    }
}

extension ItemID {
    fileprivate var number: fuse_ino_t { fuse_ino_t(bitPattern: rawValue) }
}

extension ItemName {
    /// The name with a NUL behind it, and its length without.
    fileprivate func withCString<Result>(
        _ body: (UnsafePointer<CChar>, Int) -> Result
    ) -> Result {
        let text = bytes.map { CChar(bitPattern: $0) } + [0]
        return text.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { preconditionFailure("a name is not empty") }
            return body(base, bytes.count)
        }
    }
}

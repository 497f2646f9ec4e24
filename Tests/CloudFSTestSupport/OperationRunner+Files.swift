import Glibc

extension OperationRunner {
    func create(_ path: String, _ mode: UInt32) throws(SystemError) -> Outcome {
        let file = try SystemCall.open(path, O_RDWR | O_CREAT | O_EXCL, mode: mode)
        try SystemCall.close(file)
        return .done
    }

    func open(_ path: String, _ access: Operation.Access) throws(SystemError) -> Int32 {
        let flags =
            switch access {
            case .reading: O_RDONLY
            case .writing: O_WRONLY
            case .both: O_RDWR
            case .appending: O_WRONLY | O_APPEND
            }
        let file = try SystemCall.open(path, flags)
        // Folders can be opened for reading; the model has handles of files only.
        guard try SystemCall.status(file).kind != .folder else {
            try SystemCall.close(file)
            throw SystemError("open", EISDIR)
        }
        return file
    }

    /// Opens, does `body`, closes; the first error counts.
    func withFile(
        _ path: String,
        _ flags: Int32,
        _ body: (Int32) throws(SystemError) -> Outcome
    ) throws(SystemError) -> Outcome {
        let file = try SystemCall.open(full(path), flags)
        let outcome: Outcome
        do throws(SystemError) {
            outcome = try body(file)
        } catch {
            close(file)
            throw error
        }
        try SystemCall.close(file)
        return outcome
    }

    /// Asks for eviction, which must not show.
    ///
    /// It may be refused, for an open or a dirty item.
    func evict(_ path: String) -> Outcome {
        do {
            try SystemCall.setAttribute("user.cloudfs.evict", of: full(path), to: [0x31])
        } catch {
            return .done
        }
        return .done
    }
}

extension Operation {
    /// The handle it works on.
    var slot: Int? {
        switch self {
        case .open(let slot, _, _), .readHandle(let slot, _, _), .writeHandle(let slot, _, _),
            .truncateHandle(let slot, _), .synchronizeHandle(let slot),
            .statusOfHandle(let slot), .close(let slot):
            slot
        default: nil
        }
    }
}

extension Outcome.Status {
    init(_ status: FileStatus) {
        let isFolder = status.kind == .folder
        self.init(
            kind: status.kind,
            size: isFolder ? nil : status.size,
            mode: status.mode,
            links: isFolder ? nil : status.links,
            modified: status.modified
        )
    }
}

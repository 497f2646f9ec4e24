import Glibc

@testable import CloudFS

/// One thing that a program does, within the life of one process of its device.
struct Session {
    let program: Program
    let life: Life
    let caller: Caller

    init(_ program: Program, in life: Life) {
        self.program = program
        self.life = life
        caller = Caller(
            userID: 1_000,
            groupID: 1_000,
            processID: Int32(100 + program.number),
            umask: 0o022
        )
    }

    /// Few names, so that devices meet under them: one in two cases, one in two normal forms.
    static let names = ["a", "A", "b.txt", "\u{e9}", "e\u{301}", "d"]

    func name() throws -> ItemName {
        let text = Self.names[program.draw(Self.names.count)]
        return try ItemName(text)
    }

    /// A child that a folder shows.
    struct Found {
        var name: ItemName
        var id: ItemID
        var kind: ItemKind
    }

    /// A place in the tree: a folder, and its path for people.
    struct Place {
        var id: ItemID
        var path: String
    }

    // MARK: - The drive

    /// One request of the kernel, which nothing comes between.
    ///
    /// What the items show that it may change or remove, and show no longer, was given up by
    /// somebody who could see it.
    ///
    /// - Parameters:
    ///   - items: Those that it names itself.
    ///   - names: Those that it means by what they are called when it arrives.
    func ask<Value>(
        _ what: @autoclosure () -> String,
        on items: [ItemID] = [],
        at names: [(ItemID, ItemName)] = [],
        _ request: (Filesystem) throws -> Value
    ) async throws -> Value {
        await Task.yield()
        let filesystem = try life.parts().filesystem
        let observer = Observer(filesystem: filesystem, cloud: program.cloud)
        program.note(what())
        var before: Set<Token> = []
        let items = try items + names.compactMap { try observer.item(named: $1, in: $0) }
        for id in items { before.formUnion(try observer.tokens(of: id)) }
        defer {
            do {
                var after: Set<Token> = []
                for id in items { after.formUnion(try observer.tokens(of: id)) }
                program.ledger.release(before.subtracting(after))
            } catch {
                program.ledger.release(before)
            }
        }
        filesystem.noteRequest()
        let value = try request(filesystem)
        try life.requireGoingOn()
        return value
    }

    func children(of folder: ItemID) async throws -> [Found] {
        let opened = try await ask("opendir \(folder)") { try $0.openFolder(folder) }
            .value(in: life)
        return try await ask("readdir \(folder)") { filesystem in
            defer { filesystem.releaseFolder(opened.handle) }
            var found: [Found] = []
            try filesystem.readFolder(opened.handle, offset: 2, withAttributes: true) { entry in
                if let name = try? ItemName(entry.name) {
                    found.append(
                        Found(name: name, id: entry.attributes.id, kind: entry.attributes.kind)
                    )
                }
                return true
            }
            return found
        }
    }

    func lookUp(_ name: ItemName, in folder: ItemID) async throws -> Found? {
        let answer = try await ask("lookup \(folder)/\(name)") { try $0.lookup(name, in: folder) }
        guard case .found(let entry) = try await answer.value(in: life) else { return nil }
        return Found(name: name, id: entry.attributes.id, kind: entry.attributes.kind)
    }

    /// Some folder, at most three deep.
    func somewhere() async throws -> Place {
        var place = Place(id: .root, path: "")
        while program.draw(3) != 0, place.path.count < 40 {
            let folders = try await children(of: place.id).filter { $0.kind == .folder }
            guard let next = program.pick(folders) else { break }
            place = Place(id: next.id, path: "\(place.path)/\(next.name)")
        }
        return place
    }

    /// Something in a folder.
    func something(
        in place: Place,
        _ kinds: Set<ItemKind> = [.file, .folder, .symlink]
    ) async throws -> Found? {
        let found = try await children(of: place.id).filter { kinds.contains($0.kind) }
        guard let item = program.pick(found) else { return nil }
        // The kernel asks for the name before it does anything with it.
        return try await lookUp(item.name, in: place.id)
    }

    func open(_ id: ItemID, _ flags: Int32) async throws -> UInt64 {
        let changes = flags & O_TRUNC != 0 ? [id] : []
        let answer = try await ask("open \(id) \(flags)", on: changes) {
            try $0.open(id, flags: flags, caller: caller)
        }
        return try await answer.value(in: life).handle
    }

    func close(_ handle: UInt64) async throws {
        try await ask("flush \(handle)") { try $0.flush(handle, lockOwner: 0) }
        try await ask("release \(handle)") {
            $0.release(handle)
        }
    }

    /// Writes one token, which is acknowledged if the file still has a name.
    ///
    /// - Parameter block: Where; `nil` is the end of the file.
    func write(_ handle: UInt64, to id: ItemID, block: Int?) async throws {
        let token = program.ledger.makeToken()
        let bytes = token.block(program.plan.blockByteCount)
        let offset = block.map { Int64($0 * bytes.count) }
        let place = offset.map { "\($0)" } ?? "its end"
        let written = try await ask("write \(token.number) to \(id) at \(place)", on: [id]) {
            filesystem in
            let written = try filesystem.write(
                handle,
                offset: offset,
                count: bytes.count,
                caller: caller
            ) { content, offset, count throws(CloudFSError) in
                try content.write(bytes[...], at: offset)
                return count
            }
            try life.requireGoingOn()
            let observer = Observer(filesystem: filesystem, cloud: program.cloud)
            if try observer.tokens(of: id).contains(token) {
                program.ledger.acknowledge(token, "\(program.device.name), item \(id)")
            } else if try filesystem.catalog.read({ try $0.name(of: id) }) != nil {
                program.ledger.find("token \(token.number) was written and is not in the file")
            }
            return written
        }
        guard written == bytes.count else {
            return program.ledger.find("\(written) of \(bytes.count) bytes were written")
        }
    }

    /// Reads a whole file.
    func read(_ id: ItemID) async throws -> [UInt8] {
        let handle = try await open(id, O_RDONLY)
        do {
            let bytes = try await read(handle)
            try await close(handle)
            return bytes
        } catch let error as CloudFSError {
            try await close(handle)
            throw error
        }
    }

    private func read(_ handle: UInt64) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let answer = try await ask("read \(handle) at \(bytes.count)") {
                try $0.read(handle, offset: Int64(bytes.count), count: 128 << 10, by: 0)
            }
            let piece: [UInt8]
            switch try await answer.value(in: life) {
            case .bytes(let found): piece = found
            case .file(let content, let offset, let count, let held):
                piece = try withExtendedLifetime(held) {
                    try content.read(at: offset, count: count)
                }
            }
            if piece.isEmpty { return bytes }
            bytes += piece
        }
    }
}

import Glibc

@testable import CloudFS

/// What programs do: the ways in which editors, shells and file managers use a drive.
extension Session {
    func doSomething() async throws {
        if program.plan.leavesMarks { return try await addSomething() }
        switch program.draw(100) {
        case 0..<14: try await makeFile()
        case 14..<24: try await append()
        case 24..<32: try await overwrite()
        case 32..<38: try await saveOver()
        case 38..<48: try await saveByRename()
        case 48..<52: try await cut()
        case 52..<66: try await rename()
        case 66..<73: try await makeFolder()
        case 73..<76: try await makeLink()
        case 76..<83: try await remove()
        case 83..<87: try await changeMetadata()
        case 87..<90: try await changeAttributes()
        case 90..<94: try await readSomething()
        case 94..<97: try await trigger()
        case 97..<99: try await pause()
        default: try await flushToDisk()
        }
    }

    /// After this all that was written on an item before is on it still.
    private func addSomething() async throws {
        switch program.draw(100) {
        case 0..<15: try await makeFile()
        case 15..<23: try await append()
        case 23..<30: try await overwrite()
        case 30..<33: try await cut()
        case 33..<43: try await move()
        case 43..<51: try await makeFolder()
        case 51..<57: try await changeMetadata()
        case 57..<90: try await leaveMark()
        case 90..<95: try await trigger()
        case 95..<97: try await pause()
        default: try await flushToDisk()
        }
    }

    // MARK: - Files

    private func makeFile() async throws {
        let place = try await somewhere()
        try await makeFile(try name(), in: place)
    }

    private func makeFile(_ name: ItemName, in place: Place) async throws {
        guard try await lookUp(name, in: place.id) == nil else { return }
        let (entry, opened) = try await ask("create \(place.path)/\(name)") {
            try $0.createFile(
                name,
                in: place.id,
                permissions: 0o644,
                flags: O_WRONLY | O_CREAT | O_EXCL,
                caller: caller
            )
        }
        try await writing(opened.handle) {
            for block in 0..<program.draw(4) {
                try await write(opened.handle, to: entry.attributes.id, block: block)
            }
        }
    }

    /// Closes a handle however the writing ends; some programs take their time before.
    private func writing(_ handle: UInt64, _ body: () async throws -> Void) async throws {
        do {
            try await body()
            if program.draw(6) == 0 { try await program.rest(atMost: .seconds(20)) }
        } catch let error as CloudFSError {
            try await close(handle)
            throw error
        }
        if program.draw(8) == 0 {
            try await ask("fsync \(handle)") { try $0.synchronize(handle, dataOnly: false) }
        }
        try await close(handle)
    }

    private func someFile() async throws -> (Place, Found)? {
        let place = try await somewhere()
        return try await something(in: place, [.file]).map { (place, $0) }
    }

    private func append() async throws {
        guard let (_, file) = try await someFile() else { return }
        let handle = try await open(file.id, O_WRONLY | O_APPEND)
        try await writing(handle) {
            for _ in 0...program.draw(2) { try await write(handle, to: file.id, block: nil) }
        }
    }

    /// Writes in the middle, without having read the rest.
    private func overwrite() async throws {
        guard let (_, file) = try await someFile() else { return }
        let handle = try await open(file.id, program.draw(2) == 0 ? O_WRONLY : O_RDWR)
        try await writing(handle) {
            for _ in 0...program.draw(2) {
                try await write(handle, to: file.id, block: program.draw(4))
                if program.draw(4) == 0 { try await program.rest(atMost: .seconds(40)) }
            }
        }
    }

    private func saveOver() async throws {
        guard let (_, file) = try await someFile() else { return }
        let handle = try await open(file.id, O_WRONLY | O_TRUNC)
        try await writing(handle) {
            for block in 0...program.draw(3) {
                try await write(handle, to: file.id, block: block)
            }
        }
    }

    /// Writes a new file aside and renames it over the old one.
    private func saveByRename() async throws {
        guard let (place, file) = try await someFile() else { return }
        let content = program.draw(2) == 0 ? try await read(file.id) : []
        let aside = try ItemName("\(file.name).part")
        if try await lookUp(aside, in: place.id) != nil {
            try await unlink(aside, in: place)
        }
        try await makeFile(aside, in: place)
        guard let new = try await lookUp(aside, in: place.id) else { return }
        if !content.isEmpty {
            // What it has read is in the new file too: nobody gives it up.
            let handle = try await open(new.id, O_WRONLY | O_APPEND)
            try await writing(handle) {
                try await ask("write \(content.count) known bytes", on: [new.id]) { filesystem in
                    _ = try filesystem.write(
                        handle,
                        offset: nil,
                        count: content.count,
                        caller: caller
                    ) { file, offset, count throws(CloudFSError) in
                        try file.write(content[...], at: offset)
                        return count
                    }
                }
            }
        }
        try await rename(aside, in: place, to: file.name, in: place, mode: .replacing)
    }

    private func cut() async throws {
        guard let (_, file) = try await someFile() else { return }
        let size = Int64(program.draw(4) * program.plan.blockByteCount)
        var changes = AttributeChanges()
        changes.size = size
        try await ask("truncate \(file.id) to \(size)", on: [file.id]) {
            _ = try $0.setAttributes(changes, of: file.id, handle: nil, caller: caller)
        }
    }

    private func readSomething() async throws {
        guard let (place, file) = try await someFile() else { return }
        let bytes = try await read(file.id)
        program.ledger.count("reads")
        if Token.content(of: bytes).isTorn {
            program.ledger.find(
                "\(program.device.name): \(place.path)/\(file.name) has half of something"
            )
        }
    }

    private func flushToDisk() async throws {
        guard let (_, file) = try await someFile() else { return }
        let handle = try await open(file.id, O_RDWR)
        try await ask("fsync \(handle)") { try $0.synchronize(handle, dataOnly: false) }
        try await close(handle)
    }

    // MARK: - Names

    private func rename() async throws {
        let place = try await somewhere()
        guard let item = try await something(in: place) else { return }
        let target = try await somewhere()
        let modes: [RenameMode] = [.replacing, .replacing, .replacing, .noReplace, .exchange]
        try await rename(
            item.name,
            in: place,
            to: try name(),
            in: target,
            mode: program.pick(modes) ?? .replacing
        )
    }

    private func move() async throws {
        let place = try await somewhere()
        guard let item = try await something(in: place) else { return }
        let target = try await somewhere()
        try await rename(item.name, in: place, to: try name(), in: target, mode: .noReplace)
    }

    private func rename(
        _ old: ItemName,
        in place: Place,
        to new: ItemName,
        in target: Place,
        mode: RenameMode
    ) async throws {
        _ = try await lookUp(old, in: place.id)
        _ = try await lookUp(new, in: target.id)
        let text = "rename \(place.path)/\(old) to \(target.path)/\(new) (\(mode))"
        try await ask(text, at: [(place.id, old), (target.id, new)]) {
            try $0.rename(old, in: place.id, to: new, in: target.id, mode: mode, caller: caller)
        }
    }

    private func makeFolder() async throws {
        let place = try await somewhere()
        let name = try name()
        try await ask("mkdir \(place.path)/\(name)") {
            _ = try $0.makeFolder(name, in: place.id, permissions: 0o755, caller: caller)
        }
    }

    private func makeLink() async throws {
        let place = try await somewhere()
        let name = try name()
        let target = Array("target\(program.draw(3))".utf8)
        try await ask("symlink \(place.path)/\(name)") {
            _ = try $0.makeSymlink(name, in: place.id, target: target, caller: caller)
        }
    }

    private func remove() async throws {
        let place = try await somewhere()
        guard let item = try await something(in: place) else { return }
        guard item.kind == .folder else { return try await unlink(item.name, in: place) }
        if program.plan.removesTrees { try await removeAll(in: item, of: place) }
        try await ask("rmdir \(place.path)/\(item.name)") {
            try $0.removeFolder(item.name, from: place.id, caller: caller)
        }
    }

    /// As `rm -r` does it: it takes what is there when it looks, from the bottom up.
    private func removeAll(in folder: Found, of place: Place) async throws {
        let here = Place(id: folder.id, path: "\(place.path)/\(folder.name)")
        for child in try await children(of: folder.id) {
            guard child.kind == .folder else {
                try await unlink(child.name, in: here)
                continue
            }
            try await removeAll(in: child, of: here)
            try await ask("rmdir \(here.path)/\(child.name)") {
                try $0.removeFolder(child.name, from: here.id, caller: caller)
            }
        }
    }

    private func unlink(_ name: ItemName, in place: Place) async throws {
        _ = try await lookUp(name, in: place.id)
        try await ask("unlink \(place.path)/\(name)", at: [(place.id, name)]) {
            try $0.removeFile(name, from: place.id, caller: caller)
        }
    }

    // MARK: - What is written on items

    private func changeMetadata() async throws {
        let place = try await somewhere()
        guard let item = try await something(in: place, [.file, .folder]) else { return }
        var changes = AttributeChanges()
        if program.draw(2) == 0 { changes.permissions = [0o600, 0o640, 0o755][program.draw(3)] }
        if program.draw(2) == 0 {
            changes.modified = .to(Timestamp(seconds: Int64(program.draw(9)), nanoseconds: 0))
        }
        try await ask("setattr \(place.path)/\(item.name)") {
            _ = try $0.setAttributes(changes, of: item.id, handle: nil, caller: caller)
        }
    }

    private func changeAttributes() async throws {
        let place = try await somewhere()
        guard let item = try await something(in: place, [.file, .folder]) else { return }
        let name = ["user.xdg.tags", "user.color"][program.draw(2)]
        if program.draw(4) == 0 {
            try await ask("removexattr \(place.path)/\(item.name) \(name)") {
                try $0.removeAttribute(name, of: item.id, caller: caller)
            }
        } else {
            let value = Array("value\(program.draw(5))".utf8)
            try await ask("setxattr \(place.path)/\(item.name) \(name)") {
                try $0.setAttribute(name, to: value, of: item.id, flags: 0, caller: caller)
            }
        }
    }

    /// Writes an attribute that nobody else writes, or takes away.
    private func leaveMark() async throws {
        let place = try await somewhere()
        guard let item = try await something(in: place, [.file, .folder]) else { return }
        let mark = "user.mark\(program.ledger.makeToken().number)"
        try await ask("setxattr \(place.path)/\(item.name) \(mark)") {
            try $0.setAttribute(mark, to: [1], of: item.id, flags: 0, caller: caller)
        }
        program.ledger.acknowledge(mark: mark, "\(place.path)/\(item.name)")
    }

    /// Asks the drive itself for something.
    private func trigger() async throws {
        let place = try await somewhere()
        guard let item = try await something(in: place, [.file, .folder]) else { return }
        let (name, value) = [
            ("user.cloudfs.evict", "1"), ("user.cloudfs.evict", "1"), ("user.cloudfs.hydrate", "1"),
            ("user.cloudfs.pin", "pinned"), ("user.cloudfs.pin", "inherit"),
        ][program.draw(5)]
        try await ask("\(name) \(value) on \(place.path)/\(item.name)") {
            try $0.setAttribute(name, to: Array(value.utf8), of: item.id, flags: 0, caller: caller)
        }
    }

    private func pause() async throws {
        try await ask("pause") { $0.setPaused(since: $0.clocks.now()) }
        try await program.rest(atMost: .seconds(10))
        try await ask("resume") { $0.setPaused(since: nil) }
    }
}

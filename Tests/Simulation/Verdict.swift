@testable import CloudFS

/// Whether all agree in the end, and nothing is missing.
struct Verdict {
    let story: Story

    /// How long it may take until all agree, by the clocks inside: a failed change is tried again
    /// after five minutes at most, and some take several of them.
    private static let patience = Duration.seconds(3 * 3600)

    init(of story: Story) {
        self.story = story
    }

    private var ledger: Ledger { story.ledger }

    func reach() async throws {
        let begin = Scheduler.shared.elapsed
        var differences = ["nobody has looked"]
        var quiet = 0
        while quiet < 2 {
            try await Task.sleep(for: .seconds(differences.isEmpty ? 5 : 10))
            differences = try self.differences()
            quiet = differences.isEmpty ? quiet + 1 : 0
            guard Scheduler.shared.elapsed - begin < Self.patience else { break }
        }
        guard differences.isEmpty else {
            for text in differences { ledger.find("they do not agree: \(text)") }
            return
        }
        for device in story.devices { try await examine(device) }
        try checkNothingIsLost()
        try checkMarks()
    }

    // MARK: - Agreement

    private func differences() throws -> [String] {
        let there = try story.cloud.tree()
        var differences: [String] = []
        for device in story.devices {
            guard device.link.adrift == 0 else { return ["requests are on their way"] }
            guard let filesystem = try device.life?.parts().filesystem else { continue }
            let observer = Observer(filesystem: filesystem, cloud: story.cloud)
            differences += try observer.queued().map { "\(device.name) has to send \($0)" }
            var here = try observer.tree()
            var there = there
            // Nothing of the cloud can be shown where such an edit has the name: one that was
            // renamed over something hides it, for as long as a person lets it.
            for path in try unsendable(filesystem) { (here[path], there[path]) = (nil, nil) }
            for path in Set(here.keys).union(there.keys).sorted() where here[path] != there[path] {
                differences.append(
                    "\(device.name) \(path): \(text(here[path])), in the cloud \(text(there[path]))"
                )
            }
        }
        return differences
    }

    private func text(_ shown: Observer.Shown?) -> String {
        guard let shown else { return "nothing" }
        return "\(shown.kind) \(shown.version ?? "") \(shown.size) bytes, "
            + "\(String(shown.permissions, radix: 8)) \(shown.modified?.nanoseconds ?? 0) "
            + "\(shown.attributes.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })"
    }

    /// Edits of versions of which a part is gone: they stay where they were made.
    private func unsendable(_ filesystem: Filesystem) throws -> [String] {
        try filesystem.catalog.read { reader in
            try reader.outbox(offset: 0, limit: 1_000).compactMap { row in
                guard try reader.item(row.item)?.isBaseLost == true,
                    let path = try reader.path(of: row.item)
                else { return nil }
                return path.map { "/" + Observer.text($0) }.joined()
            }
        }
    }

    // MARK: - What each has

    /// Reads every file as programs do, and verifies the engine's own invariants.
    private func examine(_ device: Device) async throws {
        guard let life = device.life else { return }
        try await Life.$current.withValue(life) {
            let filesystem = try life.parts().filesystem
            try await read(filesystem, device, life)
            let checker = Checker(
                feed: filesystem.feed,
                hydrator: filesystem.hydrator,
                uploader: filesystem.uploader
            )
            var position: Checker.Position? = .catalog
            while let current = position {
                let page = try await checker.page(from: current, Checker.Options())
                for violation in page.findings {
                    let item = violation.item.map { " item \($0)" } ?? ""
                    ledger.find(
                        "\(device.name)\(item) \(violation.invariant): \(violation.text)"
                    )
                }
                position = page.next
            }
        }
    }

    private func read(_ filesystem: Filesystem, _ device: Device, _ life: Life) async throws {
        guard let program = story.programs.first(where: { $0.device === device }) else { return }
        let session = Session(program, in: life)
        let lost = Set(try unsendable(filesystem))
        var folders = [(id: ItemID.root, path: RemotePath.root)]
        while let folder = folders.popLast() {
            for child in try await session.children(of: folder.id) {
                let path = folder.path.appending(child.name)
                if child.kind == .folder { folders.append((child.id, path)) }
                let text = path.names.map { "/" + Observer.text($0.bytes) }.joined()
                guard child.kind == .file, !lost.contains(text) else { continue }
                let bytes = try await patiently { try await session.read(child.id) }
                if bytes != (try story.cloud.bytes(at: path)) {
                    ledger.find("\(device.name) reads other bytes of \(text) than the cloud has")
                }
            }
        }
    }

    /// Reads again what failed because a request of before the calm is waited for.
    private func patiently<Value>(_ read: () async throws -> Value) async throws -> Value {
        for _ in 0..<3 {
            do {
                return try await read()
            } catch let error as CloudFSError where error.isTransient {
                try await Task.sleep(for: .seconds(60))
            }
        }
        return try await read()
    }

    // MARK: - Nothing is lost

    private func checkNothingIsLost() throws {
        var kept: Set<Token> = []
        for bytes in try story.cloud.contents() { kept.formUnion(Token.content(of: bytes).tokens) }
        for device in story.devices {
            guard let filesystem = try device.life?.parts().filesystem else { continue }
            let observer = Observer(filesystem: filesystem, cloud: story.cloud)
            for id in try filesystem.catalog.read({ try $0.descendants(of: .root) }) {
                kept.formUnion(try observer.tokens(of: id))
            }
        }
        let owed = ledger.owed
        ledger.count("tokens", owed.count)
        ledger.count(
            "conflicts",
            try story.cloud.tree().keys.count { $0.contains("(conflicted copy") }
        )
        ledger.count("lost requests", story.devices.reduce(0) { $0 + $1.link.faults })
        for (token, place) in owed.sorted(by: { $0.key.number < $1.key.number })
        where !kept.contains(token) {
            ledger.find("token \(token.number) is lost; it was written on \(place)")
        }
    }

    private func checkMarks() throws {
        var kept = Set(try story.cloud.tree().values.flatMap(\.attributes.keys))
        for device in story.devices {
            guard let filesystem = try device.life?.parts().filesystem else { continue }
            let observer = Observer(filesystem: filesystem, cloud: story.cloud)
            kept.formUnion(try observer.tree().values.flatMap(\.attributes.keys))
        }
        let marks = ledger.marks
        ledger.count("marks", marks.count)
        let excused = story.cloud.excusedMarks
        for (mark, place) in marks.sorted(by: { $0.key < $1.key }) where !kept.contains(mark) {
            if excused.contains(mark) {
                ledger.count("marks overwritten", 1)
            } else {
                ledger.find("\(mark) is lost; it was written on \(place)")
            }
        }
    }
}

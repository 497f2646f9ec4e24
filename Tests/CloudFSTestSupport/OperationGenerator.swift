/// Makes up operations that are likely to meet each other.
///
/// Few names, few handles and small files, so that most operations hit something; paths come
/// from the model's tree four times of five.
public struct OperationGenerator: Sendable {
    /// Which operations of the engine are mixed in.
    public struct Engine: OptionSet, Sendable {
        public let rawValue: Int

        public init(rawValue: Int) {
            self.rawValue = rawValue
        }

        public static let evictions = Engine(rawValue: 1)
        public static let remounts = Engine(rawValue: 2)
    }

    private var random: SeededRandom
    private let engine: Engine

    static let names = ["a", "b", "c", "d e", "ünï.txt", "x.tar.gz", "-", "Z"]
    static let attributes = ["user.a", "user.b", "user.xdg.tags"]
    static let handles = 4
    static let depth = 4

    public init(seed: UInt64, engine: Engine = []) {
        random = SeededRandom(seed: seed)
        self.engine = engine
    }

    /// `count` operations that make sense one after the other, from `model` on.
    public static func sequence(
        seed: UInt64,
        count: Int,
        from model: ReferenceFilesystem = ReferenceFilesystem(),
        engine: Engine = []
    ) -> [Operation] {
        var generator = OperationGenerator(seed: seed, engine: engine)
        var model = model
        return (0..<count).map { _ in
            let operation = generator.next(model)
            _ = model.apply(operation)
            return operation
        }
    }

    mutating func next(_ model: ReferenceFilesystem) -> Operation {
        if engine.contains(.evictions), random.below(12) == 0 {
            return .evict(existing(model))
        }
        if engine.contains(.remounts), random.below(250) == 0 { return .remount }
        switch random.below(100) {
        case 0..<30: return content(model)
        case 30..<60: return naming(model)
        case 60..<72: return metadata(model)
        case 72..<80: return looking(model)
        default: return handle(model)
        }
    }

    private mutating func content(_ model: ReferenceFilesystem) -> Operation {
        switch random.below(6) {
        case 0: .create(free(model), mode: random.one(of: [0o644, 0o600, 0o755]))
        case 1: .write(file(model), offset: offset(), fill())
        case 2: .append(file(model), fill())
        case 3: .replace(random.below(2) == 0 ? free(model) : file(model), fill())
        case 4: .truncate(file(model), size: offset())
        default: .read(file(model), offset: offset(), count: 1 + random.below(40_000))
        }
    }

    private mutating func naming(_ model: ReferenceFilesystem) -> Operation {
        switch random.below(20) {
        case 0..<5: .rename(existing(model), free(model), flag())
        case 5..<8: .rename(existing(model), existing(model), flag())
        case 8..<11: .remove(existing(model))
        case 11..<15: .makeFolder(free(model), mode: random.one(of: [0o755, 0o700]))
        case 15..<17: .removeFolder(existing(model))
        case 17..<19: .makeSymlink(free(model), target: target())
        default: .readSymlink(existing(model))
        }
    }

    private mutating func metadata(_ model: ReferenceFilesystem) -> Operation {
        let name = random.one(of: Self.attributes)
        switch random.below(6) {
        case 0: return .setMode(existing(model), random.one(of: [0o755, 0o700, 0o777, 0o750]))
        case 1:
            let time = Int64(random.below(2_000_000_000)) * 1_000_000_000
            return .setTimes(
                existing(model),
                nanoseconds: time + Int64(random.below(1_000_000_000))
            )
        case 2, 3:
            let fill = Fill(seed: random.next(), count: 1 + random.below(200))
            return .setAttribute(
                file(model),
                name: name,
                fill,
                random.one(of: AttributeFlag.allCases)
            )
        case 4: return .removeAttribute(file(model), name: name)
        default: return .readAttribute(file(model), name: name)
        }
    }

    private mutating func looking(_ model: ReferenceFilesystem) -> Operation {
        random.below(2) == 0 ? .list(existing(model)) : .status(existing(model))
    }

    private mutating func handle(_ model: ReferenceFilesystem) -> Operation {
        let slot = random.below(Self.handles)
        guard model.node(ofHandle: slot) != nil else {
            return .open(slot, file(model), random.one(of: Operation.Access.allCases))
        }
        switch random.below(12) {
        case 0..<4: return .writeHandle(slot, offset: offset(), fill())
        case 4..<7: return .readHandle(slot, offset: offset(), count: 1 + random.below(40_000))
        case 7: return .truncateHandle(slot, size: offset())
        case 8: return .synchronizeHandle(slot)
        default: return .close(slot)
        }
    }

    // MARK: - Arguments

    private mutating func fill() -> Fill {
        Fill(seed: random.next(), count: 1 + random.below(random.below(4) == 0 ? 50_000 : 3_000))
    }

    private mutating func offset() -> Int64 {
        switch random.below(4) {
        case 0: 0
        case 1: Int64(random.below(40)) * 4_096
        case 2: Int64(random.below(150_000))
        default: Int64(random.below(5_000))
        }
    }

    private mutating func flag() -> RenameFlag {
        random.one(of: [.replace, .replace, .replace, .noReplace, .exchange])
    }

    private mutating func target() -> String {
        let name = random.one(of: Self.names)
        return random.below(3) == 0 ? "\(name)/\(random.one(of: Self.names))" : name
    }

    private mutating func existing(_ model: ReferenceFilesystem) -> String {
        let tree = model.tree()
        guard tree.count > 1, random.below(5) > 0 else { return free(model) }
        return tree[1 + random.below(tree.count - 1)].path
    }

    private mutating func file(_ model: ReferenceFilesystem) -> String {
        let files = model.tree().filter { $0.node.kind == .file }
        guard !files.isEmpty, random.below(8) > 0 else { return existing(model) }
        return files[random.below(files.count)].path
    }

    /// A path that is probably free, in a folder that probably exists.
    private mutating func free(_ model: ReferenceFilesystem) -> String {
        let folders = model.tree().filter { $0.node.kind != .file && depth($0.path) < Self.depth }
        let folder = folders[random.below(folders.count)].path
        let name = random.one(of: Self.names)
        return folder.isEmpty ? name : "\(folder)/\(name)"
    }

    private func depth(_ path: String) -> Int {
        path.isEmpty ? 0 : path.split(separator: "/").count
    }
}

extension SeededRandom {
    fileprivate mutating func one<Element>(of choices: [Element]) -> Element {
        choices[below(choices.count)]
    }
}

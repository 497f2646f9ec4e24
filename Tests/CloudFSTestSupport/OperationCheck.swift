import Foundation

/// Where sequences are tried: a folder, and what the engine can be made to do around it.
public struct OperationSite: Sendable {
    /// A folder on the drive with the model of what is in it, new for every try.
    public var makeFolder: @Sendable () async throws -> (path: String, model: ReferenceFilesystem)
    /// Unmounts and mounts again.
    public var remount: @Sendable () async throws -> Void
    /// What must be true of the folder when the sequence is over.
    public var finish: @Sendable (_ path: String, _ model: ReferenceFilesystem) async throws -> Void

    public init(
        makeFolder:
            @escaping @Sendable () async throws -> (path: String, model: ReferenceFilesystem),
        remount: @escaping @Sendable () async throws -> Void = {},
        finish: @escaping @Sendable (String, ReferenceFilesystem) async throws -> Void = { _, _ in }
    ) {
        self.makeFolder = makeFolder
        self.remount = remount
        self.finish = finish
    }
}

/// Compares model and system over a sequence, and makes a failing sequence small.
public struct OperationCheck: Sendable {
    /// A sequence after which model and system differ.
    public struct Failure: Error, CustomStringConvertible {
        public let seed: UInt64
        public let operations: [Operation]
        public let cause: any Error

        public var description: String {
            let list = operations.enumerated().map { "  \($0.offset): \($0.element)" }
            return "seed \(seed), \(operations.count) operations are enough, the last of them:\n"
                + list.suffix(60).joined(separator: "\n") + "\n\(cause)"
        }
    }

    private let site: OperationSite
    /// The whole tree is compared after so many operations.
    private static let treeInterval = 50
    private static let segmentLimit: Duration = .seconds(60)
    private static let shrinkLimit: Duration = .seconds(45)

    public init(_ site: OperationSite) {
        self.site = site
    }

    /// Tries `operations`; a failure is shrunk before it is thrown.
    public func run(_ operations: [Operation], seed: UInt64) async throws {
        do {
            try await attempt(operations)
        } catch {
            // Retrying on a mount that hangs would only hang again.
            guard !(error is DeadlineError) else {
                throw Failure(seed: seed, operations: operations, cause: error)
            }
            throw await shrink(operations, seed: seed, cause: error)
        }
    }

    /// Leaves out ever smaller pieces as long as what remains still fails.
    private func shrink(
        _ operations: [Operation],
        seed: UInt64,
        cause: any Error
    ) async -> Failure {
        let end = ContinuousClock.now + Self.shrinkLimit
        var failure = Failure(seed: seed, operations: operations, cause: cause)
        var length = operations.count / 2
        while length > 0 {
            var start = 0
            while start < failure.operations.count, ContinuousClock.now < end {
                var fewer = failure.operations
                fewer.removeSubrange(start..<min(start + length, fewer.count))
                do {
                    try await attempt(fewer)
                    start += length
                } catch  where Self.kind(of: error) == Self.kind(of: cause) {
                    failure = Failure(seed: seed, operations: fewer, cause: error)
                } catch {
                    // Another fault, which a run of its own will find.
                    start += length
                }
            }
            length /= 2
        }
        return failure
    }

    /// What two failures must have in common to count as the same fault.
    private static func kind(of error: any Error) -> String {
        let mismatch = error as? OperationRunner.Mismatch
        return mismatch?.what.split(separator: " ").first.map(String.init) ?? "\(type(of: error))"
    }

    private func attempt(_ operations: [Operation]) async throws {
        let (path, model) = try await site.makeFolder()
        var runner = OperationRunner(model: model, root: path)
        for segment in Self.segments(operations) {
            if segment.beginsWithRemount {
                runner = try await Self.run([.remount], on: runner, closing: true)
                try await site.remount()
            }
            runner = try await Self.run(segment.operations, on: runner, closing: false)
        }
        runner = try await Self.run([.remount], on: runner, closing: true)
        try await site.finish(path, runner.model)
    }

    /// Runs on a thread of its own; the runner that comes back has gone on.
    private static func run(
        _ operations: [Operation],
        on runner: OperationRunner,
        closing: Bool
    ) async throws -> OperationRunner {
        try await onThread("\(operations.count) operations", within: segmentLimit) {
            var runner = runner
            do {
                for (index, operation) in operations.enumerated() {
                    try runner.step(operation)
                    if index % treeInterval == treeInterval - 1 { try runner.compareTree() }
                }
                if closing { runner.closeAll() }
                try runner.compareTree()
            } catch {
                runner.closeAll()
                throw error
            }
            return runner
        }
    }

    private static func segments(
        _ operations: [Operation]
    ) -> [(beginsWithRemount: Bool, operations: [Operation])] {
        var segments: [(beginsWithRemount: Bool, operations: [Operation])] = [(false, [])]
        for operation in operations {
            if operation == .remount {
                segments.append((true, []))
            } else {
                segments[segments.count - 1].operations.append(operation)
            }
        }
        return segments
    }

    // MARK: - What the environment asks for

    /// How many operations a sequence has: `CLOUDFS_TEST_OPERATIONS`, else `count`.
    public static func length(default count: Int) -> Int {
        environment("CLOUDFS_TEST_OPERATIONS") ?? count
    }

    /// The seeds to try: `CLOUDFS_TEST_SEED` alone, or `CLOUDFS_TEST_SEEDS` of them, else `count`.
    ///
    /// The first ones are always the same; the last is new on every run.
    public static func seeds(default count: Int) -> [UInt64] {
        if let text = ProcessInfo.processInfo.environment["CLOUDFS_TEST_SEED"],
            let seed = UInt64(text)
        {
            return [seed]
        }
        guard let wanted = environment("CLOUDFS_TEST_SEEDS") else {
            return (1...UInt64(max(1, count))).map { $0 }
        }
        let last = UInt64.random(in: 1_000...999_999_999)
        return (1..<UInt64(max(1, wanted))).map { $0 } + [last]
    }

    private static func environment(_ name: String) -> Int? {
        ProcessInfo.processInfo.environment[name].flatMap(Int.init)
    }
}

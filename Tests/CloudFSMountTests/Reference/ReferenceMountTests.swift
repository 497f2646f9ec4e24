import CloudFSTestSupport
import Synchronization
import Testing

/// The drive against the model, operation by operation.
@Suite(.onDrives, .printingLogs, .notingIssues, .serialized)
struct ReferenceMountTests {
    /// Numbers the folders of the tries.
    private static let tries = Mutex(0)

    private static func newName() -> String {
        tries.withLock { number in
            number += 1
            return "try\(number)"
        }
    }

    /// Of two seeds in a row one has the kernel reach local bytes by itself.
    private static func reads(_ number: UInt64) -> Reads {
        number.isMultiple(of: 2) ? .throughDaemon : .byKernel
    }

    /// Compares what arrived in the cloud with the model.
    private static func compareCloud(
        _ drive: TestDrive,
        _ name: String,
        _ model: ReferenceFilesystem
    ) async throws {
        try await drive.drain()
        let path = "\(drive.cloud.path)/\(name)"
        try await onThread("comparison with the cloud") {
            try OperationRunner.compareTree(model, with: path)
        }
    }

    @Test(arguments: OperationCheck.seeds(default: 3))
    func `a drive does what the model does, and so does its cloud`(seed: UInt64) async throws {
        let reads = Self.reads(seed)
        print("seed \(seed), \(reads)")
        try await TestDrive.with(reads.arguments) { drive in
            let operations = OperationGenerator.sequence(
                seed: seed,
                count: OperationCheck.length(default: 2_000)
            )
            let site = OperationSite(
                makeFolder: {
                    let path = "\(drive.path)/\(Self.newName())"
                    try await onThread("mkdir") { try SystemCall.makeFolder(path) }
                    return (path, ReferenceFilesystem())
                },
                finish: { path, model in
                    let name = path.split(separator: "/").last.map(String.init) ?? ""
                    try await Self.compareCloud(drive, name, model)
                }
            )
            try await OperationCheck(site).run(operations, seed: seed)
        }
    }

    @Test(arguments: OperationCheck.seeds(default: 3))
    func `placeholders, evictions and remounts do not show`(seed: UInt64) async throws {
        let reads = Self.reads(seed &+ 1)
        print("seed \(seed), \(reads)")
        try await TestDrive.with(reads.arguments) { drive in
            let start = OperationGenerator.sequence(seed: seed ^ 0x5eed, count: 250)
                .filter { $0 != .remount }
            var model = ReferenceFilesystem()
            for operation in start { _ = model.apply(operation) }
            _ = model.apply(.remount)
            let operations = OperationGenerator.sequence(
                seed: seed,
                count: OperationCheck.length(default: 1_000),
                from: model,
                engine: TestDrive.isNative ? [.evictions] : [.evictions, .remounts]
            )
            let site = OperationSite(
                makeFolder: { try await Self.makePlaceholders(drive, start) },
                remount: { _ = try await drive.restart() },
                finish: { path, model in
                    let name = path.split(separator: "/").last.map(String.init) ?? ""
                    try await Self.compareCloud(drive, name, model)
                }
            )
            try await OperationCheck(site).run(operations, seed: seed)
        }
    }

    /// Does `operations` in the cloud's folder and waits until the drive shows the outcome.
    private static func makePlaceholders(
        _ drive: TestDrive,
        _ operations: [Operation]
    ) async throws -> (path: String, model: ReferenceFilesystem) {
        let name = newName()
        let hidden = "\(drive.folder)/\(name)"
        let model = try await onThread("filling the cloud", within: .seconds(30)) {
            try SystemCall.makeFolder(hidden)
            var runner = OperationRunner(model: ReferenceFilesystem(), root: hidden)
            for operation in operations { try runner.step(operation) }
            runner.closeAll()
            _ = runner.model.apply(.remount)
            try SystemCall.rename(hidden, to: "\(drive.cloud.path)/\(name)")
            return runner.model
        }
        let path = "\(drive.path)/\(name)"
        try await eventually("the drive shows all of \(name)", within: .seconds(15)) {
            try await onThread("lstat of all") {
                model.tree().allSatisfy { item in
                    (try? SystemCall.status("\(path)/\(item.path)"))?.kind == item.node.kind
                }
            }
        }
        return (path, model)
    }
}

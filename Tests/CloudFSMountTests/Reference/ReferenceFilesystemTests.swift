import CloudFSTestSupport
import Testing

/// The model against the local file system: what the model says must be what Linux does.
@Suite struct ReferenceFilesystemTests {
    @Test(arguments: OperationCheck.seeds(default: 4))
    func `the model does what the local file system does`(seed: UInt64) async throws {
        print("seed \(seed)")
        let operations = OperationGenerator.sequence(
            seed: seed,
            count: OperationCheck.length(default: 2_000)
        )
        let folder = try Shell.makeTemporaryFolder()
        defer { Shell.removeTree(folder) }
        let site = OperationSite(makeFolder: {
            let path = "\(folder)/\(UInt64.random(in: 0 ... .max))"
            try SystemCall.makeFolder(path)
            return (path, ReferenceFilesystem())
        })
        try await OperationCheck(site).run(operations, seed: seed)
    }

    @Test func `a file system that forgets is caught and the sequence becomes short`() async throws
    {
        let operations =
            OperationGenerator.sequence(seed: 5, count: 200)
            + [.replace("kept", Fill(seed: 1, count: 10)), .setMode("kept", 0o755), .remount]
        let folder = try Shell.makeTemporaryFolder()
        defer { Shell.removeTree(folder) }
        let site = OperationSite(
            makeFolder: {
                let path = "\(folder)/\(UInt64.random(in: 0 ... .max))"
                try SystemCall.makeFolder(path)
                return (path, ReferenceFilesystem())
            },
            // The fault: a mode is lost when the system starts again.
            remount: { _ = try await Shell.script("chmod -f 644 \(folder)/*/kept || true") }
        )
        let failure = await #expect(throws: OperationCheck.Failure.self) {
            try await OperationCheck(site).run(operations, seed: 5)
        }
        #expect(failure?.operations.count == 3)
    }

    @Test func `the same seed gives the same operations`() {
        let first = OperationGenerator.sequence(seed: 7, count: 300, engine: [.evictions])
        #expect(first == OperationGenerator.sequence(seed: 7, count: 300, engine: [.evictions]))
        #expect(first != OperationGenerator.sequence(seed: 8, count: 300, engine: [.evictions]))
    }

    @Test func `most operations of a sequence do something`() {
        var model = ReferenceFilesystem()
        let operations = OperationGenerator.sequence(seed: 3, count: 2_000)
        var failures: [String: Int] = [:]
        for operation in operations {
            guard case .failed(let code) = model.apply(operation) else { continue }
            failures["errno \(code)", default: 0] += 1
        }
        #expect(failures.values.reduce(0, +) < operations.count * 2 / 3, "\(failures)")
        // Every kind of refusal is met as well.
        #expect(failures.count >= 9, "\(failures)")
    }
}

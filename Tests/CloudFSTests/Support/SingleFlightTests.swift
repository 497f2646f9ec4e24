import Synchronization
import Testing

@testable import CloudFS

/// Work that goes on when the test says so.
private final class Gate: Sendable {
    private struct State {
        var runs = 0
        var cancellations = 0
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    var runs: Int { state.withLock { $0.runs } }
    var cancellations: Int { state.withLock { $0.cancellations } }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func pass() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    state.runs += 1
                    if !state.isOpen { state.waiting.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.cancellations += 1 }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct SingleFlightTests {
    private func waiters(_ count: Int, in flight: SingleFlight<Int, String>) async {
        while flight.waiterCount(for: 1) != count { await Task.yield() }
    }

    @Test func `many who ask at once share one run`() async throws {
        let flight = SingleFlight<Int, String>()
        let gate = Gate()
        let tasks = (0..<20).map { _ in
            Task {
                try await flight.value(for: 1) {
                    await gate.pass()
                    return "done"
                }
            }
        }
        await waiters(20, in: flight)
        gate.open()
        for task in tasks { #expect(try await task.value == "done") }
        #expect(gate.runs == 1)
        #expect(flight.runningKeys.isEmpty)
    }

    @Test func `who asks afterwards runs the work again`() async throws {
        let flight = SingleFlight<Int, String>()
        let first = try await flight.value(for: 1) { "one" }
        let second = try await flight.value(for: 1) { "two" }
        #expect([first, second] == ["one", "two"])
    }

    @Test func `keys do not share`() async throws {
        let flight = SingleFlight<Int, String>()
        async let first = flight.value(for: 1) { "one" }
        async let second = flight.value(for: 2) { "two" }
        let results = try await [first, second]
        #expect(results == ["one", "two"])
    }

    @Test func `a failure reaches everybody who waits`() async throws {
        let flight = SingleFlight<Int, String>()
        let gate = Gate()
        let tasks = (0..<3).map { _ in
            Task {
                try await flight.value(for: 1) {
                    await gate.pass()
                    throw CloudFSError(.offline, "no way there")
                }
            }
        }
        await waiters(3, in: flight)
        gate.open()
        for task in tasks {
            await #expect(throws: CloudFSError.self) { try await task.value }
        }
        #expect(gate.runs == 1)
    }

    @Test func `one who gives up leaves the work to the others`() async throws {
        let flight = SingleFlight<Int, String>()
        let gate = Gate()
        let work: @Sendable () async throws -> String = {
            await gate.pass()
            return "done"
        }
        let leaving = Task { try await flight.value(for: 1, work) }
        let staying = Task { try await flight.value(for: 1, work) }
        await waiters(2, in: flight)
        leaving.cancel()
        await #expect(throws: CancellationError.self) { try await leaving.value }
        #expect(gate.cancellations == 0)
        gate.open()
        #expect(try await staying.value == "done")
    }

    @Test func `the last who gives up cancels the work, and the next begins anew`() async throws {
        let flight = SingleFlight<Int, String>()
        let gate = Gate()
        let task = Task {
            try await flight.value(for: 1) {
                await gate.pass()
                return "old"
            }
        }
        while gate.runs < 1 { await Task.yield() }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        while gate.cancellations < 1 { await Task.yield() }
        #expect(try await flight.value(for: 1) { "new" } == "new")
        gate.open()
    }
}

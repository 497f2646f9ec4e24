import Synchronization

/// What programs were told is saved, and what of it somebody removed who had seen it.
final class Ledger: Sendable {
    private struct State {
        var next = 1
        /// Where each acknowledged token was written, for people.
        var acknowledged: [Token: String] = [:]
        var released: Set<Token> = []
        /// Names of attributes that must be somewhere, and on what they were written.
        var marks: [String: String] = [:]
        var findings: [String] = []
        var counts: [String: Int] = [:]
    }

    private let state = Mutex(State())

    func makeToken() -> Token {
        state.withLock { state in
            defer { state.next += 1 }
            return Token(number: state.next)
        }
    }

    func acknowledge(_ token: Token, _ place: @autoclosure () -> String) {
        let place = place()
        state.withLock { $0.acknowledged[token] = place }
    }

    func acknowledge(mark: String, _ place: String) {
        state.withLock { $0.marks[mark] = place }
    }

    var marks: [String: String] { state.withLock { $0.marks } }

    func release(_ tokens: Set<Token>) {
        if !tokens.isEmpty { Trace.note("ledger", "given up: \(tokens.map(\.number).sorted())") }
        state.withLock { $0.released.formUnion(tokens) }
    }

    /// What must be somewhere, and where it was written.
    var owed: [Token: String] {
        state.withLock { state in
            state.acknowledged.filter { !state.released.contains($0.key) }
        }
    }

    // MARK: - What the run was

    func find(_ text: String) {
        Trace.note("FINDING", text)
        state.withLock { $0.findings.append(text) }
    }

    var findings: [String] { state.withLock { $0.findings } }

    func count(_ what: String, _ number: Int = 1) {
        state.withLock { $0.counts[what, default: 0] += number }
    }

    var counts: [String: Int] { state.withLock { $0.counts } }
}

import Glibc
import Testing

@testable import CloudFS

/// A user whom permissions bind, also where tests run as root.
///
/// Linux holds each thread to the user that it has for files, who has none of root's rights to
/// them.
enum OrdinaryUser {
    static let id: uid_t = geteuid() == 0 ? 65_534 : geteuid()

    /// A pool of one thread, which is this user's.
    static func makePool() async throws -> BlockingPool {
        let pool = BlockingPool(name: "ordinary-tests", width: 1)
        guard geteuid() == 0 else { return pool }
        let isBound = try await pool.run { Self.become() }
        try #require(isBound, "the thread is still root's")
        return pool
    }

    private static func become() -> Bool {
        guard let symbol = dlsym(nil, "setfsuid") else { return false }
        let set = unsafeBitCast(symbol, to: (@convention(c) (uid_t) -> Int32).self)
        _ = set(id)
        // It tells who it was before, and no failures.
        return set(id) == Int32(id)
    }
}

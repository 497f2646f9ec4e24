import Glibc

/// A lock that several may hold at once, or one alone.
///
/// Who wants it alone comes before all who come later to share it. Nobody takes it twice.
///
/// `Sendable`: the lock itself is what threads share.
final class SharedLock: @unchecked Sendable {
    private let lock = UnsafeMutablePointer<pthread_rwlock_t>.allocate(capacity: 1)

    init() {
        var attributes = pthread_rwlockattr_t()
        Self.require(pthread_rwlockattr_init(&attributes))
        defer { pthread_rwlockattr_destroy(&attributes) }
        let kind = Int32(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)
        Self.require(pthread_rwlockattr_setkind_np(&attributes, kind))
        Self.require(pthread_rwlock_init(lock, &attributes))
    }

    deinit {
        pthread_rwlock_destroy(lock)
        lock.deallocate()
    }

    func shared<Value, Failure: Error>(
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try holding(pthread_rwlock_rdlock(lock), body)
    }

    func alone<Value, Failure: Error>(
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try holding(pthread_rwlock_wrlock(lock), body)
    }

    /// - Parameter taken: The result of taking it.
    private func holding<Value, Failure: Error>(
        _ taken: Int32,
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        Self.require(taken)
        defer { Self.require(pthread_rwlock_unlock(lock)) }
        return try body()
    }

    /// Only a program's own mistake makes it fail, as taking it twice.
    private static func require(_ result: Int32) {
        precondition(result == 0, "a lock failed: \(result)")
    }
}

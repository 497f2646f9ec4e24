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
        pthread_rwlockattr_init(&attributes)
        defer { pthread_rwlockattr_destroy(&attributes) }
        let kind = Int32(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)
        pthread_rwlockattr_setkind_np(&attributes, kind)
        let result = pthread_rwlock_init(lock, &attributes)
        precondition(result == 0, "no lock can be made: \(result)")
    }

    deinit {
        pthread_rwlock_destroy(lock)
        lock.deallocate()
    }

    func shared<Value, Failure: Error>(
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        check(pthread_rwlock_rdlock(lock))
        defer { check(pthread_rwlock_unlock(lock)) }
        return try body()
    }

    func alone<Value, Failure: Error>(
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        check(pthread_rwlock_wrlock(lock))
        defer { check(pthread_rwlock_unlock(lock)) }
        return try body()
    }

    /// Only a program's own mistake makes it fail, as taking it twice.
    private func check(_ result: Int32) {
        precondition(result == 0, "a lock failed: \(result)")
    }
}

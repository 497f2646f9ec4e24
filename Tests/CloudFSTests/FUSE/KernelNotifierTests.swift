import Dispatch
import Glibc
import Logging
import Synchronization
import Testing

@testable import CloudFS

@Suite struct KernelNotifierTests {
    @Test func `what concerns one folder is sent in the order it happened`() throws {
        let kernel = RecordingKernel()
        let notifier = kernel.notifier()
        var expected: [KernelNotification] = []
        for index in 0..<200 {
            let name = try ItemName("name-\(index)")
            let change: ItemChange =
                index % 2 == 0
                ? .entryAppeared(parent: ItemID(9), name: name)
                : .entryVanished(
                    parent: ItemID(9),
                    name: name,
                    item: ItemID(1000),
                    isFolder: false,
                    isGone: true
                )
            notifier.enqueue([change])
            expected.append(change.notifications[0])
        }
        notifier.start()
        // How often the folder itself is told of in between depends on who is faster.
        kernel.wait(for: expected[expected.count - 1])
        kernel.stop(notifier)
        #expect(kernel.sent.filter { $0 != .content(ItemID(9)) } == expected)
    }

    @Test func `what waits already is not queued twice`() throws {
        let kernel = RecordingKernel()
        let notifier = kernel.notifier()
        let name = try ItemName("a")
        for _ in 0..<1000 {
            notifier.enqueue([
                .entryAppeared(parent: ItemID(9), name: name), .content(ItemID(12)),
                .attributes(ItemID(12)), .attributes(ItemID(15)),
            ])
        }
        notifier.start()
        kernel.wait(for: 4)
        kernel.stop(notifier)
        #expect(
            Set(kernel.sent) == [
                .entry(parent: ItemID(9), name: name), .content(ItemID(9)), .content(ItemID(12)),
                .attributes(ItemID(15)),
            ]
        )
        #expect(kernel.sent.count == 4)
    }

    @Test func `who waits for what is queued hears when it is sent, or dropped`() async throws {
        let kernel = RecordingKernel(blocking: .attributes(ItemID(3)))
        let notifier = kernel.notifier()
        notifier.start()
        await notifier.settled()
        notifier.enqueue([.attributes(ItemID(3)), .attributes(ItemID(4)), .content(ItemID(3))])
        kernel.waitUntilBlocked()
        let isTold = Mutex(false)
        let waiting = Task {
            await notifier.settled()
            isTold.withLock { $0 = true }
        }
        kernel.wait(for: .attributes(ItemID(4)))
        #expect(!isTold.withLock { $0 })
        kernel.unblock()
        await waiting.value
        #expect(kernel.sent.contains(.content(ItemID(3))))
        kernel.stop(notifier)
        // What was closed sends nothing that anybody could wait for.
        notifier.enqueue([.content(ItemID(5))])
        await notifier.settled()
    }

    @Test func `news that comes while its like is being sent is sent again`() throws {
        let kernel = RecordingKernel(blocking: .attributes(ItemID(3)))
        let notifier = kernel.notifier()
        notifier.start()
        notifier.enqueue([.attributes(ItemID(3))])
        kernel.waitUntilBlocked()
        notifier.enqueue([.attributes(ItemID(3))])
        kernel.unblock()
        kernel.wait(for: 2)
        kernel.stop(notifier)
        #expect(kernel.sent == [.attributes(ItemID(3)), .attributes(ItemID(3))])
    }

    @Test func `a notification stuck in the kernel holds up only its own thread`() throws {
        let kernel = RecordingKernel(blocking: .content(ItemID(0)))
        let notifier = kernel.notifier(width: 2)
        notifier.start()
        notifier.enqueue([.content(ItemID(0)), .content(ItemID(2)), .content(ItemID(1))])
        kernel.waitUntilBlocked()
        kernel.wait(for: 1)
        #expect(kernel.sent == [.content(ItemID(1))])
        kernel.unblock()
        kernel.wait(for: 2)
        kernel.stop(notifier)
        #expect(kernel.sent.count == 3)
    }

    @Test func `after closing nothing more is sent`() throws {
        let kernel = RecordingKernel(blocking: .content(ItemID(0)))
        let notifier = kernel.notifier(width: 1)
        notifier.start()
        notifier.enqueue([.content(ItemID(0)), .content(ItemID(1))])
        kernel.waitUntilBlocked()
        notifier.close()
        notifier.enqueue([.content(ItemID(2))])
        #expect(!notifier.waitUntilStopped(within: .milliseconds(1)))
        kernel.unblock()
        #expect(notifier.waitUntilStopped(within: .seconds(10)))
        #expect(kernel.sent == [.content(ItemID(0))])
    }

    @Test func `a stuck notification is told once`() throws {
        let log = RecordingLog()
        let kernel = RecordingKernel(blocking: .content(ItemID(4)))
        let notifier = kernel.notifier(width: 1, stuckAfter: .milliseconds(5), log: log)
        notifier.start()
        notifier.enqueue([.content(ItemID(4))])
        kernel.waitUntilBlocked()
        log.wait()
        #expect(log.messages.count == 1)
        #expect(log.messages.first?.contains("stuck") == true)
        kernel.unblock()
        kernel.stop(notifier)
    }

    @Test(arguments: [ENOENT, ENOTEMPTY, EBUSY, ENOTCONN, ENODEV, EINVAL])
    func `only an unexpected answer of the kernel is logged`(number: Int32) throws {
        let log = RecordingLog()
        let kernel = RecordingKernel(result: number)
        let notifier = kernel.notifier(log: log)
        notifier.start()
        notifier.enqueue([.content(ItemID(4))])
        kernel.wait(for: 1)
        kernel.stop(notifier)
        #expect(log.messages.isEmpty == (number != EINVAL))
    }
}

/// A kernel that writes down what it is told, and can hold one notification back.
private final class RecordingKernel: Sendable {
    private let list = Mutex<[KernelNotification]>([])
    private let blocking: Mutex<KernelNotification?>
    private let arrived = DispatchSemaphore(value: 0)
    private let blocked = DispatchSemaphore(value: 0)
    private let released = DispatchSemaphore(value: 0)
    private let result: Int32

    init(blocking: KernelNotification? = nil, result: Int32 = 0) {
        self.blocking = Mutex(blocking)
        self.result = result
    }

    var sent: [KernelNotification] { list.withLock { $0 } }

    func notifier(
        width: Int = 3,
        stuckAfter: Duration = .seconds(60),
        log: RecordingLog = RecordingLog()
    ) -> KernelNotifier {
        let logger = Logger(label: "tests") { _ in log }
        return KernelNotifier(width: width, stuckAfter: stuckAfter, logger: logger) {
            self.take($0)
        }
    }

    func wait(for count: Int) { for _ in 0..<count { arrived.wait() } }

    func wait(for last: KernelNotification) {
        while !sent.contains(last) { arrived.wait() }
    }

    func waitUntilBlocked() { blocked.wait() }
    func unblock() { released.signal() }

    func stop(_ notifier: KernelNotifier) {
        notifier.close()
        #expect(notifier.waitUntilStopped(within: .seconds(10)))
    }

    private func take(_ notification: KernelNotification) -> Int32 {
        let blocks = blocking.withLock { blocking in
            guard blocking == notification else { return false }
            blocking = nil
            return true
        }
        if blocks {
            blocked.signal()
            released.wait()
        }
        list.withLock { $0.append(notification) }
        arrived.signal()
        return result
    }
}

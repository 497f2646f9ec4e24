import CloudFS
import Glibc
import Testing

@testable import cloudfs_mount

/// What a supervisor decides, by the story of its workers.
@Suite struct SupervisorPlanTests {
    /// A plan and what it decided last, as text.
    private struct Story {
        var plan = SupervisorPlan()
        var now = Duration.zero

        mutating func happens(_ event: SupervisorPlan.Event) -> [String] {
            plan.decide(event, at: now).map { "\($0)" }.map(Self.short)
        }

        mutating func hears(_ worker: Int, _ report: WorkerReport) -> [String] {
            happens(.report(worker: worker, report))
        }

        /// The name of the action and the number of its worker or its status.
        private static func short(_ text: String) -> String {
            let name = text.prefix { $0 != "(" }
            let number = text.drop { !$0.isNumber }.prefix { $0.isNumber }
            switch name {
            case "start", "wait", "handOver", "kill", "order", "exit": return "\(name) \(number)"
            default: return String(name)
            }
        }

        /// A drive that worker 1 serves.
        static func serving(isResumable: Bool = true) -> Story {
            var story = Story()
            #expect(story.happens(.began) == ["start 1"])
            #expect(story.hears(1, .standsBy(format: "1")) == ["handOver 1"])
            #expect(story.hears(1, .mounted(isResumable: isResumable)) == [])
            #expect(story.hears(1, .ready) == ["announce"])
            return story
        }
    }

    @Test func `a worker that is killed is replaced`() {
        var story = Story.serving()
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["tell", "start 2"])
        #expect(story.hears(2, .standsBy(format: "1")) == ["handOver 2"])
        #expect(story.hears(2, .ready) == ["tell"])
        #expect(story.happens(.deadline(worker: 2)) == [])
    }

    @Test func `where the kernel cannot send again the mount is replaced too`() {
        var story = Story.serving(isResumable: false)
        let actions = story.happens(.lost(worker: 1, how: "signal 9"))
        #expect(actions == ["tell", "letGo", "removeMount", "start 2"])
    }

    @Test func `one that ends by itself ends the drive`() {
        var story = Story.serving()
        #expect(story.hears(1, .over) == ["letGo"])
        #expect(story.hears(1, .ended(status: 0)) == [])
        #expect(story.happens(.lost(worker: 1, how: "status 0")) == ["exit 0"])
    }

    @Test func `one that is killed after the drive was unmounted mounts nothing again`() {
        var story = Story.serving()
        #expect(story.hears(1, .over) == ["letGo"])
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["exit 1"])
    }

    @Test func `one that never served ends the drive, with its reason`() {
        var story = Story()
        _ = story.happens(.began)
        _ = story.hears(1, .standsBy(format: "1"))
        #expect(story.hears(1, .failed(CloudFSError(.denied, "no"))) == [])
        let actions = story.happens(.lost(worker: 1, how: "status 1"))
        #expect(actions == ["removeDeadMount", "exit 1"])

        var other = Story()
        _ = other.happens(.began)
        #expect(other.happens(.lost(worker: 1, how: "signal 11")) == ["exit 1"])
    }

    /// It may have mounted the drive, and not yet heard from the kernel.
    @Test func `one that is lost with the order to mount leaves no dead mount`() {
        var story = Story()
        _ = story.happens(.began)
        #expect(story.hears(1, .standsBy(format: "1")) == ["handOver 1"])
        var ending = story
        let lost = story.happens(.lost(worker: 1, how: "signal 9"))
        #expect(lost == ["removeDeadMount", "exit 1"])
        #expect(ending.happens(.signalled(SIGTERM)) == ["order 1"])
        let ended = ending.happens(.lost(worker: 1, how: "signal 9"))
        #expect(ended == ["removeDeadMount", "exit 1"])

        var later = Story.serving(isResumable: false)
        _ = later.happens(.lost(worker: 1, how: "signal 9"))
        #expect(later.hears(2, .standsBy(format: "1")) == ["handOver 2"])
        let again = later.happens(.lost(worker: 2, how: "signal 9"))
        #expect(again == ["tell", "removeDeadMount", "wait 3"])
    }

    @Test func `the fifth crash within a minute is the last`() {
        var story = Story.serving()
        for worker in 1...4 {
            story.now += .seconds(10)
            let lost = story.happens(.lost(worker: worker, how: "signal 6"))
            #expect(lost == ["tell", "start \(worker + 1)"])
            #expect(story.hears(worker + 1, .standsBy(format: "1")) == ["handOver \(worker + 1)"])
            #expect(story.hears(worker + 1, .ready) == ["tell"])
        }
        var later = story
        later.now += .seconds(40)
        #expect(later.happens(.lost(worker: 5, how: "signal 6")) == ["tell", "start 6"])
        story.now += .seconds(10)
        let last = story.happens(.lost(worker: 5, how: "signal 6"))
        #expect(last == ["letGo", "removeMount", "exit 1"])
    }

    @Test func `crashes before the order count too`() {
        var story = Story.serving()
        #expect(story.happens(.lost(worker: 1, how: "signal 6")) == ["tell", "start 2"])
        for worker in 2...4 {
            let lost = story.happens(.lost(worker: worker, how: "status 127"))
            #expect(lost == ["tell", "wait \(worker + 1)"])
            story.now += .seconds(worker)
            #expect(story.happens(.due(worker: worker + 1)) == ["start \(worker + 1)"])
        }
        let last = story.happens(.lost(worker: 5, how: "status 127"))
        #expect(last == ["letGo", "removeMount", "exit 1"])
    }

    /// What it lacked may be there a little later: tried at once, all would be over in a second.
    @Test func `a worker that is lost before it serves is followed after a pause`() {
        var story = Story.serving()
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["tell", "start 2"])
        #expect(story.hears(2, .standsBy(format: "1")) == ["handOver 2"])
        #expect(story.happens(.lost(worker: 2, how: "signal 4")) == ["tell", "wait 3"])
        #expect(story.happens(.deadline(worker: 2)) == [])
        #expect(story.happens(.due(worker: 3)) == ["start 3"])
        #expect(story.happens(.lost(worker: 3, how: "signal 4")) == ["tell", "wait 4"])
        #expect(story.happens(.due(worker: 4)) == ["start 4"])
        #expect(story.hears(4, .standsBy(format: "1")) == ["handOver 4"])
        #expect(story.hears(4, .ready) == ["tell"])
        // One that served is replaced at once.
        story.now += .seconds(60)
        #expect(story.happens(.lost(worker: 4, how: "signal 9")) == ["tell", "start 5"])
    }

    @Test func `the pause grows with the losses of a minute`() {
        var story = Story.serving()
        _ = story.happens(.lost(worker: 1, how: "signal 9"))
        for worker in 2...4 {
            let actions = story.plan.decide(.lost(worker: worker, how: "signal 4"), at: .zero)
            guard case .wait(let next, let pause)? = actions.last, actions.count == 2 else {
                Issue.record("\(actions)")
                return
            }
            #expect(next == worker + 1 && pause == .seconds(worker))
            _ = story.happens(.due(worker: worker + 1))
        }
    }

    @Test func `a mount that no other can take over is gone before the pause`() {
        var story = Story.serving(isResumable: false)
        let actions = story.happens(.lost(worker: 1, how: "signal 9"))
        #expect(actions == ["tell", "letGo", "removeMount", "start 2"])
        #expect(story.hears(2, .standsBy(format: "1")) == ["handOver 2"])
        #expect(story.hears(2, .mounted(isResumable: false)) == [])
        let again = story.happens(.lost(worker: 2, how: "signal 9"))
        #expect(again == ["tell", "letGo", "removeMount", "wait 3"])
    }

    @Test(arguments: [false, true])
    func `a next worker that does not answer in time ends the drive`(standsBy: Bool) {
        var story = Story.serving()
        _ = story.happens(.lost(worker: 1, how: "signal 9"))
        if standsBy { _ = story.hears(2, .standsBy(format: "1")) }
        let actions = story.happens(.deadline(worker: 2))
        #expect(actions == ["kill 2", "letGo", "removeMount", "exit 1"])
    }

    @Test func `a restart kills the old one only when the next stands by`() {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        #expect(story.hears(1, .restart) == ["order 1"])
        #expect(story.hears(2, .standsBy(format: "1")) == ["kill 1"])
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["handOver 2"])
        #expect(story.hears(2, .ready) == ["tell"])
        #expect(story.hears(2, .restart) == ["start 3"])
    }

    @Test func `a restart whose next worker does not come up leaves the old one`() {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        #expect(story.happens(.lost(worker: 2, how: "status 1")) == ["order 1"])
        #expect(story.hears(1, .restart) == ["start 3"])
        #expect(story.happens(.deadline(worker: 3)) == ["kill 3", "order 1"])
        #expect(story.happens(.lost(worker: 3, how: "signal 9")) == [])
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["tell", "start 4"])
    }

    private static let unstartable = CloudFSError(.internalFailure, "it cannot be started: why")

    @Test func `a first worker that cannot be started ends the drive, with its reason`() {
        var plan = SupervisorPlan()
        _ = plan.decide(.began, at: .zero)
        let actions = plan.decide(.unstarted(worker: 1, Self.unstartable), at: .zero)
        guard case .exit(1, let error)? = actions.first, actions.count == 1 else {
            Issue.record("\(actions)")
            return
        }
        #expect(error?.message == "it cannot be started: why")
    }

    @Test func `a restart whose next worker cannot be started leaves the old one`() {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        let actions = story.plan.decide(.unstarted(worker: 2, Self.unstartable), at: .zero)
        guard case .order(1, .goOn(let reason))? = actions.first, actions.count == 1 else {
            Issue.record("\(actions)")
            return
        }
        #expect(reason == "it cannot be started: why; the old one goes on")
        // It is no loss of the drive, and another one can be asked for.
        for worker in 3...12 {
            #expect(story.hears(1, .restart) == ["start \(worker)"])
            #expect(story.happens(.unstarted(worker: worker, Self.unstartable)) == ["order 1"])
        }
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["tell", "start 13"])
    }

    @Test func `a worker that cannot be started is tried again a little later`() {
        var story = Story.serving()
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["tell", "start 2"])
        #expect(story.happens(.unstarted(worker: 2, Self.unstartable)) == ["tell", "wait 3"])
        #expect(story.happens(.due(worker: 2)) == [])
        #expect(story.happens(.due(worker: 3)) == ["start 3"])
        #expect(story.hears(3, .standsBy(format: "1")) == ["handOver 3"])
        #expect(story.hears(3, .ready) == ["tell"])
    }

    @Test func `workers that cannot be started are not tried for ever`() {
        var story = Story.serving()
        #expect(story.happens(.lost(worker: 1, how: "signal 9")) == ["tell", "start 2"])
        for worker in 2...4 {
            let lacking = story.happens(.unstarted(worker: worker, Self.unstartable))
            #expect(lacking == ["tell", "wait \(worker + 1)"])
            story.now += .seconds(worker)
            #expect(story.happens(.due(worker: worker + 1)) == ["start \(worker + 1)"])
        }
        let last = story.happens(.unstarted(worker: 5, Self.unstartable))
        #expect(last == ["letGo", "removeMount", "exit 1"])
    }

    @Test func `a drive can end while a worker waits to be started`() {
        var story = Story.serving()
        _ = story.happens(.lost(worker: 1, how: "signal 9"))
        #expect(story.happens(.unstarted(worker: 2, Self.unstartable)) == ["tell", "wait 3"])
        #expect(story.happens(.signalled(SIGTERM)) == ["kill 3", "letGo", "removeMount", "exit 0"])
        #expect(story.happens(.due(worker: 3)) == [])
    }

    @Test func `a next worker that cannot be started after the old one crashed is tried again`() {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        #expect(story.happens(.lost(worker: 1, how: "signal 11")) == [])
        #expect(story.happens(.unstarted(worker: 2, Self.unstartable)) == ["tell", "wait 3"])
        #expect(story.happens(.due(worker: 3)) == ["start 3"])
    }

    @Test func `a drive that was unmounted needs no worker that cannot be started`() {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        #expect(story.hears(1, .over) == ["letGo", "kill 2", "order 1"])
        #expect(story.happens(.unstarted(worker: 2, Self.unstartable)) == [])
    }

    @Test func `a version that cannot go on with the mount leaves the old one`() {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        #expect(story.hears(2, .standsBy(format: "2")) == ["kill 2", "order 1"])
        #expect(story.happens(.lost(worker: 2, how: "signal 9")) == [])
        // Where there is no old one any more, the drive is mounted anew.
        _ = story.happens(.lost(worker: 1, how: "signal 9"))
        let actions = story.hears(3, .standsBy(format: "2"))
        #expect(actions == ["tell", "letGo", "removeMount", "handOver 3"])
    }

    @Test func `a worker that crashes during a restart is followed by the next one`() {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        #expect(story.happens(.lost(worker: 1, how: "signal 11")) == [])
        #expect(story.hears(2, .standsBy(format: "1")) == ["handOver 2"])
    }

    @Test func `a restart on an old kernel unmounts, and mounts again`() {
        var story = Story.serving(isResumable: false)
        #expect(story.hears(1, .restart) == ["order 1"])
        #expect(story.hears(1, .stopping("")) == [])
        #expect(story.hears(1, .over) == ["letGo"])
        #expect(story.hears(1, .ended(status: 0)) == [])
        #expect(story.happens(.lost(worker: 1, how: "status 0")) == ["start 2"])
        #expect(story.hears(2, .standsBy(format: "1")) == ["handOver 2"])
    }

    @Test func `a next worker that cannot go on with the mount mounts anew, once`() {
        var story = Story.serving()
        _ = story.happens(.lost(worker: 1, how: "signal 9"))
        _ = story.hears(2, .standsBy(format: "1"))
        let error = CloudFSError(.unsupported, "other words")
        #expect(story.hears(2, .failed(error)) == [])
        let actions = story.happens(.lost(worker: 2, how: "status 1"))
        #expect(actions == ["tell", "letGo", "removeMount", "start 3"])
        _ = story.hears(3, .standsBy(format: "1"))
        _ = story.hears(3, .failed(error))
        let last = story.happens(.lost(worker: 3, how: "status 1"))
        #expect(last == ["removeDeadMount", "exit 1"])
    }

    @Test func `signals are passed on, and end a drive that nobody serves`() {
        var story = Story.serving()
        #expect(story.happens(.signalled(SIGINT)) == ["order 1"])
        #expect(story.happens(.signalled(SIGINT)) == ["order 1"])
        #expect(story.hears(1, .restart) == ["order 1"])
        #expect(
            story.happens(.lost(worker: 1, how: "signal 9")) == ["letGo", "removeMount", "exit 1"]
        )

        var other = Story.serving()
        _ = other.happens(.lost(worker: 1, how: "signal 9"))
        #expect(other.happens(.signalled(SIGTERM)) == ["kill 2", "letGo", "removeMount", "exit 0"])
    }

    @Test(arguments: [false, true])
    func `a worker that ends at once leaves its mount to the supervisor`(isOver: Bool) {
        var story = Story.serving()
        #expect(story.happens(.signalled(SIGINT)) == ["order 1"])
        if isOver { #expect(story.hears(1, .over) == ["letGo"]) }
        #expect(story.happens(.signalled(SIGINT)) == ["order 1"])
        #expect(story.hears(1, .ended(status: 130)) == [])
        let last = story.happens(.lost(worker: 1, how: "status 130"))
        #expect(last == (isOver ? ["exit 130"] : ["letGo", "removeMount", "exit 130"]))
    }

    @Test func `a worker that ends before it had the mount leaves none behind`() {
        var story = Story.serving()
        _ = story.happens(.lost(worker: 1, how: "signal 9"))
        #expect(story.hears(2, .standsBy(format: "1")) == ["handOver 2"])
        #expect(story.happens(.signalled(SIGTERM)) == ["order 2"])
        #expect(story.hears(2, .ended(status: 0)) == [])
        let actions = story.happens(.lost(worker: 2, how: "status 0"))
        #expect(actions == ["letGo", "removeMount", "exit 0"])
    }

    @Test func `a drive that was unmounted is not mounted again by a restart`() {
        var story = Story.serving()
        #expect(story.hears(1, .over) == ["letGo"])
        #expect(story.hears(1, .restart) == ["order 1"])
        #expect(story.hears(1, .ended(status: 0)) == [])
        #expect(story.happens(.lost(worker: 1, how: "status 0")) == ["exit 0"])
    }

    @Test func `a worker that goes on with a mount that ends meanwhile mounts nothing again`() {
        var story = Story.serving()
        _ = story.happens(.lost(worker: 1, how: "signal 9"))
        _ = story.hears(2, .standsBy(format: "1"))
        #expect(story.hears(2, .over) == ["letGo"])
        #expect(story.hears(2, .failed(CloudFSError(.denied, "no"))) == [])
        #expect(story.happens(.lost(worker: 2, how: "status 1")) == ["exit 1"])
    }

    @Test(arguments: [false, true])
    func `a drive that is unmounted during a restart is not mounted again`(standsBy: Bool) {
        var story = Story.serving()
        #expect(story.hears(1, .restart) == ["start 2"])
        if standsBy { #expect(story.hears(2, .standsBy(format: "1")) == ["kill 1"]) }
        #expect(story.hears(1, .over) == ["letGo", "kill 2", "order 1"])
        #expect(story.hears(2, .standsBy(format: "1")) == [])
        #expect(story.happens(.lost(worker: 2, how: "signal 9")) == [])
        // What it did not send is queued for the next mount.
        if !standsBy { #expect(story.hears(1, .ended(status: 0)) == []) }
        let last = story.happens(.lost(worker: 1, how: standsBy ? "signal 9" : "status 0"))
        #expect(last == [standsBy ? "exit 1" : "exit 0"])
    }

    @Test func `what is said arrives as it was said`() {
        let reports: [WorkerReport] = [
            .standsBy(format: "1-2"), .note("two words"), .mounted(isResumable: true), .ready,
            .status(""),
            .stopping("x"), .over, .restart, .failed(CloudFSError(.diskFull, "no room")),
            .ended(status: 130),
        ]
        for report in reports {
            #expect(WorkerReport(report.text).map { "\($0)" } == "\(report)")
        }
        let orders: [SupervisorOrder] = [
            .begin(driveFile: "a = 1\nb = 2\n"), .end(signal: 15), .goOn(reason: "no reason"),
        ]
        for order in orders { #expect(SupervisorOrder(order.text) == order) }
        for text in ["", "ended", "ended x", "failed", "failed nothing x", "nonsense"] {
            #expect(WorkerReport(text) == nil, "\(text)")
        }
        for text in ["", "end", "end x", "nonsense x"] {
            #expect(SupervisorOrder(text) == nil, "\(text)")
        }
    }
}

@testable import CloudFS

/// The rules of `fcntl(2)` and `flock(2)`, one byte at a time: the naive model of `LockTable`.
struct LockModel {
    struct Request: Hashable {
        var kind: FileLock.Kind
        var range: Range<UInt64>
        var family: FileLock.Family
        var item: Int64
        var owner: UInt64
        var token: UInt64
    }

    struct Byte: Hashable {
        var item: Int64
        var family: FileLock.Family
        var offset: UInt64
    }

    /// Per byte, what each owner holds.
    var held: [Byte: [UInt64: FileLock.Kind]] = [:]
    var queue: [Request] = []

    private func bytes(_ request: Request) -> [Byte] {
        let range = request.family == .flock ? 0..<1 : request.range
        return range.map { Byte(item: request.item, family: request.family, offset: $0) }
    }

    func blockers(_ request: Request) -> Set<UInt64> {
        guard request.kind != .unlock else { return [] }
        var owners: Set<UInt64> = []
        for byte in bytes(request) {
            for (owner, kind) in held[byte] ?? [:] where owner != request.owner {
                if kind == .exclusive || request.kind == .exclusive { owners.insert(owner) }
            }
        }
        return owners
    }

    private mutating func apply(_ request: Request) {
        for byte in bytes(request) {
            held[byte, default: [:]][request.owner] = request.kind == .unlock ? nil : request.kind
        }
    }

    private mutating func grantQueue(_ actions: inout [LockTable.Action]) {
        while let index = queue.firstIndex(where: { blockers($0).isEmpty }) {
            let request = queue.remove(at: index)
            apply(request)
            actions.append(.granted(.init(rawValue: request.token)))
        }
    }

    func closesCycle(_ request: Request) -> Bool {
        var reached: Set<UInt64> = []
        var frontier = Array(blockers(request))
        while let owner = frontier.popLast() {
            if owner == request.owner { return true }
            guard reached.insert(owner).inserted else { continue }
            for wait in queue where wait.owner == owner && wait.family == .posix {
                frontier += blockers(wait)
            }
        }
        return false
    }

    mutating func set(_ request: Request, waits: Bool) -> [LockTable.Action] {
        let token = LockTable.Token(rawValue: request.token)
        var actions: [LockTable.Action] = []
        if request.family == .flock, let byte = bytes(request).first,
            let own = held[byte]?[request.owner]
        {
            if own == request.kind { return [.granted(token)] }
            held[byte]?[request.owner] = nil
            grantQueue(&actions)
        }
        if blockers(request).isEmpty {
            apply(request)
            actions.append(.granted(token))
            grantQueue(&actions)
        } else if !waits {
            actions.append(.refused(token, .lockHeld))
        } else if request.family == .posix && closesCycle(request) {
            actions.append(.deadlock(token))
        } else {
            queue.append(request)
        }
        return actions
    }

    mutating func unlockAll(item: Int64, owner: UInt64) -> [LockTable.Action] {
        for byte in held.keys where byte.item == item { held[byte]?[owner] = nil }
        var actions: [LockTable.Action] = []
        grantQueue(&actions)
        return actions
    }

    /// The locks of one item as the table should list them: one record a run of one kind.
    func runs(item: Int64, family: FileLock.Family) -> Set<[UInt64]> {
        var runs: Set<[UInt64]> = []
        for owner in Set(held.values.flatMap(\.keys)) {
            var open: (kind: FileLock.Kind, start: UInt64)?
            for offset in 0...UInt64(16) {
                let byte = Byte(item: item, family: family, offset: offset)
                let kind = held[byte]?[owner]
                if let last = open, last.kind != kind {
                    let end = family == .flock ? FileLock.end : offset
                    runs.insert([owner, last.start, end, UInt64(last.kind.rawValue)])
                    open = nil
                }
                if let kind, open == nil { open = (kind, offset) }
            }
        }
        return runs
    }
}

extension LockTable {
    func runs(item: Int64, family: FileLock.Family) -> Set<[UInt64]> {
        Set(
            records(of: ItemID(item), family: family).map {
                [$0.owner, $0.start, $0.end, UInt64($0.kind)]
            }
        )
    }

    mutating func set(_ request: LockModel.Request, waits: Bool) -> [Action] {
        set(
            FileLock(kind: request.kind, range: request.range, processID: 1),
            family: request.family,
            on: ItemID(request.item),
            owner: request.owner,
            waits: waits,
            token: Token(rawValue: request.token)
        )
    }
}

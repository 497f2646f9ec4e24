/// Which paths of the cloud requests under way rely on, so that no folder moves beneath them.
///
/// A path names an item only as long as no folder above it moves. So a request that moves or
/// deletes a folder and requests that name anything inside of it, before or after, exclude each
/// other.
struct PathReservations: Sendable {
    struct Reservation: Sendable {
        var paths: [RemotePath]
        /// Whether the request changes what paths below its own mean.
        var changesSubtree: Bool
    }

    private var held: [ItemID: Reservation] = [:]

    /// Reserves paths for one item's request.
    ///
    /// - Returns: Whether they are free; nothing is reserved otherwise.
    mutating func reserve(_ reservation: Reservation, for id: ItemID) -> Bool {
        let isFree = held.allSatisfy { other, existing in
            other == id || !Self.conflict(reservation, existing)
        }
        if isFree { held[id] = reservation }
        return isFree
    }

    mutating func release(_ id: ItemID) {
        held[id] = nil
    }

    private static func conflict(_ first: Reservation, _ second: Reservation) -> Bool {
        (first.changesSubtree && covers(first.paths, second.paths))
            || (second.changesSubtree && covers(second.paths, first.paths))
    }

    /// Whether one of `paths` lies at or below one of `folders`.
    private static func covers(_ folders: [RemotePath], _ paths: [RemotePath]) -> Bool {
        folders.contains { folder in paths.contains { $0.names.starts(with: folder.names) } }
    }
}

import Testing

@testable import CloudFS

@Suite struct PathReservationsTests {
    private static func path(_ text: String) throws -> RemotePath {
        RemotePath(try text.split(separator: "/").map { try ItemName(String($0)) })
    }

    private static func reservation(
        _ text: String,
        moves: Bool = false
    ) throws -> PathReservations.Reservation {
        PathReservations.Reservation(paths: [try path(text)], changesSubtree: moves)
    }

    @Test func `a folder does not move while something in it is sent`() throws {
        var reservations = PathReservations()
        #expect(reservations.reserve(try Self.reservation("a/b/file"), for: ItemID(2)))
        #expect(!reservations.reserve(try Self.reservation("a", moves: true), for: ItemID(3)))
        reservations.release(ItemID(2))
        #expect(reservations.reserve(try Self.reservation("a", moves: true), for: ItemID(3)))
        #expect(!reservations.reserve(try Self.reservation("a/b/file"), for: ItemID(2)))
    }

    @Test func `files beside each other, and folders apart, do not wait`() throws {
        var reservations = PathReservations()
        #expect(reservations.reserve(try Self.reservation("a/x"), for: ItemID(2)))
        #expect(reservations.reserve(try Self.reservation("a/y"), for: ItemID(3)))
        #expect(reservations.reserve(try Self.reservation("ab", moves: true), for: ItemID(4)))
    }
}

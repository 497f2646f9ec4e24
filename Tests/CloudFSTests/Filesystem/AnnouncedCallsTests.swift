import Glibc
import Testing

@testable import CloudFS

/// The announcing process sees what it is to see, and changes nothing.
struct AnnouncedCallsTests {
    private static let process: Int32 = 4242
    private let place: WatchEvent.Place
    private let calls = AnnouncedCalls()

    init() throws {
        place = WatchEvent.Place(folder: .root, name: try ItemName("name"))
    }

    private func begin(_ kind: WatchEvent.Kind) {
        calls.begin([WatchEvent(place: place, kind: kind)], by: Self.process)
    }

    @Test func `what has appeared is not seen, and is made once`() {
        begin(.appeared(.file))
        #expect(calls.sight(of: place, isThere: true) == .nothing)
        #expect(calls.takeMaking(at: place))
        #expect(!calls.takeMaking(at: place))
        #expect(calls.sight(of: place, isThere: true) == .truth)
    }

    @Test func `what is gone is seen, and is removed once`() {
        begin(.vanished(isFolder: true))
        #expect(!calls.takeRemoval(at: place))
        begin(.vanished(isFolder: true))
        #expect(calls.sight(of: place, isThere: false) == .former(isFolder: true))
        #expect(calls.takeRemoval(at: place))
        #expect(!calls.takeRemoval(at: place))
    }

    @Test func `a name that is taken again is not removed`() {
        begin(.vanished(isFolder: false))
        #expect(calls.sight(of: place, isThere: true) == .truth)
        #expect(!calls.takeRemoval(at: place))
    }

    @Test func `only the process itself is answered so, as long as it is there`() throws {
        #expect(try !calls.isAnnouncing(Self.process))
        begin(.changed)
        #expect(try calls.isAnnouncing(Self.process))
        for other in [Self.process + 1, 0] { #expect(try !calls.isAnnouncing(other)) }
        calls.end()
        for any in [Self.process, 0] { #expect(try !calls.isAnnouncing(any)) }
        #expect(calls.sight(of: place, isThere: false) == .truth)
    }

    @Test func `one of another worker is refused, and told nothing`() throws {
        let calls = AnnouncedCalls { $0 == Self.process }
        let error = #expect(throws: CloudFSError.self) { try calls.isAnnouncing(Self.process) }
        #expect(error?.code == .cancelled)
        #expect(!calls.isOwn(Self.process))
        #expect(try !calls.isAnnouncing(Self.process + 1))
    }

    @Test func `programs that are called alike are not taken for one`() {
        #expect(!Announcer.isOne(getpid()) && !Announcer.isOne(0))
    }

    @Test func `what happened in one place is one event`() throws {
        var changes = WatchedChanges()
        let names = try ["new", "gone", "back", "brief", "written", "touched"].map(ItemName.init)
        let places = names.map { WatchEvent.Place(folder: .root, name: $0) }
        changes.appeared(at: places[0])
        changes.changed(at: places[0])
        changes.vanished(at: places[1], isFolder: true)
        changes.vanished(at: places[2], isFolder: false)
        changes.appeared(at: places[2])
        changes.appeared(at: places[3])
        changes.written(at: places[4])
        changes.changed(at: places[5])
        let events = changes.events { place -> ItemKind? in
            [places[1], places[3]].contains(place) ? nil : .file
        }
        let expected: [WatchEvent] = [
            WatchEvent(place: places[0], kind: .appeared(.file)),
            WatchEvent(place: places[1], kind: .vanished(isFolder: true)),
            WatchEvent(place: places[2], kind: .written),
            WatchEvent(place: places[4], kind: .written),
            WatchEvent(place: places[5], kind: .changed),
        ]
        #expect(events == expected)
    }

    /// As when the worker that knew what it was to do died, and a call comes again.
    @Test func `a process of which nothing is expected can do nothing`() async throws {
        let drive = try await QuietDrive()
        let (filesystem, user) = (drive.filesystem, QuietDrive.caller)
        filesystem.announced.begin([], by: Self.process)
        var other = user
        other.processID = Self.process
        let file = try filesystem.makeNode(
            place.name,
            in: .root,
            kind: .file,
            permissions: 0o644,
            caller: user
        )
        let before = try filesystem.attributes(of: file.attributes.id, handle: nil)
        #expect(throws: CloudFSError.self) {
            try filesystem.removeFile(place.name, from: .root, caller: other)
        }
        #expect(throws: CloudFSError.self) {
            try filesystem.removeFolder(place.name, from: .root, caller: other)
        }
        for kind in [ItemKind.file, .fifo] {
            #expect(throws: CloudFSError.self) {
                _ = try filesystem.makeNode(
                    ItemName("other"),
                    in: .root,
                    kind: kind,
                    permissions: 0o644,
                    caller: other
                )
            }
        }
        let changes = AttributeChanges(permissions: 0o600, size: 7, modified: .now)
        let shown = try filesystem.setAttributes(
            changes,
            of: file.attributes.id,
            handle: nil,
            caller: other
        )
        #expect(shown == before)
        #expect(try filesystem.attributes(of: file.attributes.id, handle: nil) == before)
    }
}

@testable import CloudFS

/// A file that is not all here: a version of `size` bytes in the cloud, and some of its own.
struct PartialFile {
    static let size: Int64 = 1 << 20
    static let own: Range<Int64> = 0..<4096
    static let absent: Range<Int64> = 8192..<12288

    let fixture: CatalogFixture
    let id: ItemID
    var files: OpenFiles { fixture.files }
    var catalog: Catalog { fixture.catalog }

    init(in fixture: CatalogFixture, named name: String = "doc", isDirty: Bool = true) throws {
        self.fixture = fixture
        var new = NewItem(
            container: ContainerID(1),
            kind: .file,
            metadata: CatalogFixture.metadata,
            size: Self.size,
            generation: 1
        )
        new.residency = .partial
        new.cleanliness = isDirty ? .dirty : .clean
        id = try fixture.catalog.write { writer in
            let record = try writer.insert(
                new,
                name: Array(name.utf8),
                in: .root,
                at: CatalogFixture.now
            )
            try writer.setBase(Self.base(of: record.id, named: name, version: "1"))
            try writer.addRanges([Self.own], of: record.id, written: nil)
            return record.id
        }
        _ = try fixture.files.store.create(id, generation: 1, size: Self.size)
    }

    static func base(of id: ItemID, named name: String, version: String) -> BaseRecord {
        var base = CatalogFixture.base(of: id, named: name, version: version)
        base.size = size
        return base
    }

    var record: ItemRecord { get throws { try catalog.read { try $0.existing(id) } } }
}

extension OpenFile {
    /// Begins a read.
    func read(
        _ range: Range<Int64>,
        in files: OpenFiles
    ) -> (
        waiter: HydrationPlan.WaiterID, actions: [HydrationPlan.Action]
    ) {
        state.withLock { state in
            let waiter = state.newWaiter()
            let event = HydrationPlan.Event.read(waiter, range, handle: nil)
            return (waiter, files.handle(event, &state, files.clocks.elapsed()))
        }
    }

    /// How a read ends at once; `nil` if it waits.
    func outcome(
        ofReading range: Range<Int64>,
        in files: OpenFiles
    ) -> Result<Void, CloudFSError>? {
        let (waiter, actions) = read(range, in: files)
        for case .wake(waiter, let code) in actions {
            return code.map { .failure(CloudFSError($0, "")) } ?? .success(())
        }
        return nil
    }
}

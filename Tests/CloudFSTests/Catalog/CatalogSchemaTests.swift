import CloudFSTestSupport
import GRDB
import Testing

@testable import CloudFS

/// Catalogs that an earlier version has left.
@Suite struct CatalogSchemaTests {
    /// After an update was taken back: what that version noted would be overlooked.
    @Test func `a catalog of a newer version is refused and not changed`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("catalog.sqlite")
        let newer = try DatabaseQueue(path: path)
        // Something is left to be done to it, so that it would show.
        try CatalogSchema.migrator.migrate(newer, upTo: "15")
        try newer.write { database in
            try database.execute(sql: "INSERT INTO grdb_migrations VALUES ('1000')")
        }
        func schema(_ database: DatabaseQueue) throws -> [String] {
            try database.read { database in
                let sql = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY sql"
                return try String.fetchAll(database, sql: sql)
                    + String.fetchAll(database, sql: "SELECT identifier FROM grdb_migrations")
            }
        }
        let before = try schema(newer)
        try newer.close()
        let error = #expect(throws: CloudFSError.self) { _ = try Catalog(path: path) }
        #expect(error?.code == .corrupt)
        #expect(error?.message.contains("newer version") == true)
        #expect(try schema(try DatabaseQueue(path: path)) == before)
    }

    @Test func `a catalog with conflict versions by document keeps all its items`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("catalog.sqlite")
        let copy = "a (conflicted copy desk 2026-11-20 14-30-05).txt"
        let old = try DatabaseQueue(path: path)
        try CatalogSchema.migrator.migrate(old, upTo: "4")
        try old.write { database in
            for (id, kind, name) in [(1, 2, ""), (2, 1, "a.txt"), (3, 1, copy), (4, 1, "b.txt")] {
                try database.execute(
                    sql: """
                        INSERT INTO item (id, container, document, kind, permissions, user_id,
                            group_id, size, modified, changed, accessed, conflict_of)
                        VALUES (?, 1, randomblob(16), ?, 420, 0, 0, 0, 0, 0, 0,
                            CASE ? WHEN 4 THEN randomblob(16) END)
                        """,
                    arguments: [id, kind, id]
                )
                guard !name.isEmpty else { continue }
                try database.execute(
                    sql: "INSERT INTO name (parent, name, item) VALUES (1, ?, ?)",
                    arguments: [Array(name.utf8).asBlob, id]
                )
            }
        }
        try old.close()

        let catalog = try Catalog(path: path)
        let (found, count) = try catalog.read { reader in
            let names = try ["a.txt", copy, "b.txt"].map {
                try reader.child(Array($0.utf8), of: .root).map { try reader.isInConflict($0.id) }
            }
            return (names, try reader.conflictCount())
        }
        #expect(found == [true, true, false])
        #expect(count == 1)
    }

    /// A base was forgotten without a note of how long it was.
    @Test func `files that lack bytes of a version that is gone are known`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("catalog.sqlite")
        let old = try DatabaseQueue(path: path)
        try CatalogSchema.migrator.migrate(old, upTo: "11")
        // One whose version is gone, one that is noted of, one as in the cloud, one all here.
        let rows = [(2, 1, 0), (3, 1, 1), (4, 1, 0), (5, 2, 1)]
        try old.write { database in
            for (id, residency, isLost) in rows {
                try database.execute(
                    sql: """
                        INSERT INTO item (id, container, document, kind, permissions, user_id,
                            group_id, size, modified, changed, accessed, residency, generation,
                            base_lost)
                        VALUES (?, 1, randomblob(16), 1, 420, 0, 0, 7, 0, 0, 0, ?, 1, ?)
                        """,
                    arguments: [id, residency, isLost]
                )
            }
            try database.execute(
                sql: """
                    INSERT INTO base (item, name, remote_id, content_version, metadata_version,
                        size, modified) VALUES (4, x'61', '1', '1', '', 7, 0)
                    """
            )
        }
        try old.close()

        let catalog = try Catalog(path: path)
        let sizes = try catalog.read { reader in
            try rows.map { try reader.existing(ItemID(Int64($0.0))).lostSize }
        }
        #expect(sizes == [7, 7, nil, nil])
    }

    @Test func `what was held back with something excluded is looked at again`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("catalog.sqlite")
        let old = try DatabaseQueue(path: path)
        try CatalogSchema.migrator.migrate(old, upTo: "14")
        try old.write { database in
            try database.execute(
                sql: """
                    INSERT INTO item (id, container, document, kind, permissions, user_id,
                        group_id, size, modified, changed, accessed)
                    VALUES (2, 1, randomblob(16), 1, 420, 0, 0, 0, 0, 0, 0);
                    INSERT INTO outbox (item, not_before, is_held) VALUES (2, 0, 1);
                    """
            )
        }
        try old.close()

        let catalog = try Catalog(path: path)
        let rows = try catalog.read { try $0.outbox(offset: 0, limit: 10) }
        #expect(rows.map(\.item) == [ItemID(2)])
    }
}

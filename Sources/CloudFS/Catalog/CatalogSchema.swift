import GRDB

/// The tables of the catalog.
///
/// A migration is never edited once it was shipped.
///
/// Three states of an item are kept apart: *local* is `item` and `name`; *base* is what this
/// machine and the cloud last agreed on; *newer* is a state of the cloud that is known but not
/// applied yet because the item is in use. The last known remote state is `newer`, else `base`.
enum CatalogSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(sql: first)
        }
        migrator.registerMigration("2") { database in
            try database.execute(sql: second)
        }
        migrator.registerMigration("3") { database in
            try database.execute(sql: third)
        }
        migrator.registerMigration("4") { database in
            try database.execute(sql: fourth)
        }
        migrator.registerMigration("5") { database in
            try database.execute(sql: fifth)
        }
        migrator.registerMigration("6") { database in
            try database.execute(sql: sixth)
        }
        migrator.registerMigration("7") { database in
            try database.execute(sql: seventh)
        }
        migrator.registerMigration("8") { database in
            try database.execute(sql: eighth)
            let writer = CatalogWriter(database: database, statements: CompiledStatements())
            try writer.indexTags()
        }
        migrator.registerMigration("9") { database in
            try database.execute(sql: ninth)
        }
        migrator.registerMigration("10") { database in
            try database.execute(sql: tenth)
        }
        migrator.registerMigration("11") { database in
            try database.execute(sql: eleventh)
        }
        migrator.registerMigration("12") { database in
            try database.execute(sql: twelfth)
        }
        migrator.registerMigration("13") { database in
            try database.execute(sql: thirteenth)
        }
        migrator.registerMigration("14") { database in
            try database.execute(sql: fourteenth)
        }
        migrator.registerMigration("15") { database in
            try database.execute(sql: fifteenth)
        }
        migrator.registerMigration("16") { database in
            try database.execute(sql: sixteenth)
        }
        migrator.registerMigration("17") { database in
            try database.execute(sql: seventeenth)
        }
        migrator.registerMigration("18") { database in
            try database.execute(sql: eighteenth)
        }
        return migrator
    }

    private static let first = """
        CREATE TABLE container (
            id INTEGER PRIMARY KEY,
            url TEXT NOT NULL UNIQUE,
            root INTEGER NOT NULL REFERENCES item(id),
            identity TEXT,
            has_items INTEGER NOT NULL DEFAULT 0 CHECK (has_items IN (0, 1))
        );
        CREATE TABLE item (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            container INTEGER NOT NULL,
            document BLOB NOT NULL CHECK (length(document) = 16),
            kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
            permissions INTEGER NOT NULL CHECK (permissions BETWEEN 0 AND 4095),
            user_id INTEGER NOT NULL,
            group_id INTEGER NOT NULL,
            size INTEGER NOT NULL CHECK (size >= 0),
            modified INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            accessed INTEGER NOT NULL,
            link_target BLOB CHECK ((link_target IS NOT NULL) = (kind = 3)),
            residency INTEGER NOT NULL DEFAULT 0 CHECK (residency BETWEEN 0 AND 2),
            cleanliness INTEGER NOT NULL DEFAULT 0 CHECK (cleanliness BETWEEN 0 AND 1),
            policy INTEGER NOT NULL DEFAULT 0 CHECK (policy BETWEEN 0 AND 3),
            generation INTEGER NOT NULL DEFAULT 0,
            local_bytes INTEGER NOT NULL DEFAULT 0,
            last_used INTEGER NOT NULL DEFAULT 0,
            metadata_changed INTEGER NOT NULL DEFAULT 0 CHECK (metadata_changed IN (0, 1)),
            is_listed INTEGER NOT NULL DEFAULT 0 CHECK (is_listed IN (0, 1)),
            is_wanted INTEGER NOT NULL DEFAULT 0 CHECK (is_wanted IN (0, 1)),
            base_lost INTEGER NOT NULL DEFAULT 0 CHECK (base_lost IN (0, 1)),
            conflict_of BLOB CHECK (conflict_of IS NULL OR length(conflict_of) = 16),
            -- Bytes that exist nowhere else must have a content file.
            CHECK (cleanliness = 0 OR generation <> 0),
            CHECK (residency = 0 OR generation <> 0)
        );
        CREATE INDEX item_document ON item(document);
        CREATE INDEX item_conflict ON item(conflict_of) WHERE conflict_of IS NOT NULL;
        CREATE INDEX item_wanted ON item(id) WHERE is_wanted = 1;
        CREATE INDEX item_local ON item(last_used) WHERE generation <> 0;
        CREATE TABLE name (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            parent INTEGER NOT NULL REFERENCES item(id),
            name BLOB NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
            item INTEGER NOT NULL REFERENCES item(id),
            UNIQUE (parent, name)
        );
        CREATE INDEX name_order ON name(parent);
        CREATE INDEX name_item ON name(item);
        CREATE TABLE base (
            item INTEGER PRIMARY KEY REFERENCES item(id),
            parent INTEGER REFERENCES item(id),
            name BLOB NOT NULL,
            remote_id TEXT NOT NULL,
            content_version TEXT NOT NULL,
            metadata_version TEXT NOT NULL,
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            UNIQUE (parent, name)
        );
        CREATE INDEX base_remote ON base(remote_id);
        CREATE TABLE newer (
            item INTEGER PRIMARY KEY REFERENCES item(id) ON DELETE CASCADE,
            content_version TEXT NOT NULL,
            metadata_version TEXT NOT NULL,
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL
        );
        CREATE TABLE range (
            item INTEGER NOT NULL REFERENCES item(id) ON DELETE CASCADE,
            lower INTEGER NOT NULL CHECK (lower >= 0),
            upper INTEGER NOT NULL CHECK (upper > lower),
            PRIMARY KEY (item, lower)
        ) WITHOUT ROWID;
        CREATE TABLE attribute (
            item INTEGER NOT NULL REFERENCES item(id) ON DELETE CASCADE,
            name TEXT NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (item, name)
        ) WITHOUT ROWID;
        CREATE TABLE outbox (
            item INTEGER PRIMARY KEY REFERENCES item(id) ON DELETE CASCADE,
            not_before INTEGER NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0,
            is_held INTEGER NOT NULL DEFAULT 0 CHECK (is_held IN (0, 1)),
            error_code TEXT,
            error_message TEXT
        );
        CREATE INDEX outbox_order ON outbox(not_before) WHERE is_held = 0;
        CREATE TABLE discard (
            item INTEGER NOT NULL,
            generation INTEGER NOT NULL,
            PRIMARY KEY (item, generation)
        ) WITHOUT ROWID;
        CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        """

    /// Folders are found among a million files, and the first listing of one goes on after an
    /// interruption.
    private static let second = """
        CREATE TABLE listing (
            folder INTEGER PRIMARY KEY REFERENCES item(id) ON DELETE CASCADE,
            page TEXT NOT NULL
        );
        CREATE INDEX base_sketch ON base(parent, name) WHERE metadata_version >= '~';
        CREATE INDEX item_folder ON item(id) WHERE kind = 2;
        CREATE INDEX item_unlisted ON item(id) WHERE kind = 2 AND is_listed = 0;
        """

    /// Requests whose answer is not known, so that what they made is not taken for somebody else's.
    private static let third = """
        CREATE TABLE sent (
            item INTEGER PRIMARY KEY REFERENCES item(id) ON DELETE CASCADE,
            parent INTEGER NOT NULL,
            name BLOB NOT NULL,
            base_parent INTEGER,
            base_name BLOB,
            is_move INTEGER NOT NULL CHECK (is_move IN (0, 1)),
            document BLOB NOT NULL CHECK (length(document) = 16),
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL
        );
        CREATE INDEX sent_place ON sent(parent, name);
        """

    /// Which request of the kernel changed a folder's names or an item's attributes last.
    private static let fourth = "ALTER TABLE item ADD COLUMN request INTEGER"

    /// Names alone tell which file is a conflict version of which; these few are found by an index.
    ///
    /// The bytes are ` (conflicted copy `.
    private static let fifth = """
        DROP INDEX item_conflict;
        ALTER TABLE item DROP COLUMN conflict_of;
        CREATE INDEX name_conflict ON name(id)
            WHERE instr(name, x'2028636f6e666c696374656420636f707920') > 0;
        """

    /// Files by which office programs tell who has a document open, and who made them.
    private static let sixth = """
        CREATE TABLE owner_file (
            item INTEGER PRIMARY KEY REFERENCES item(id) ON DELETE CASCADE,
            process INTEGER NOT NULL,
            began INTEGER NOT NULL,
            boot TEXT NOT NULL,
            is_kept INTEGER NOT NULL DEFAULT 0 CHECK (is_kept IN (0, 1))
        );
        """

    /// What queries look into: the text of names, which `NameText` fills, and a few indexes.
    private static let seventh = """
        CREATE VIRTUAL TABLE name_text USING fts5(
            name, content = '', columnsize = 0, detail = none, tokenize = 'trigram'
        );
        CREATE INDEX item_modified ON item(modified);
        CREATE INDEX item_large ON item(size) WHERE size >= 1048576;
        CREATE INDEX item_excluded ON item(id) WHERE policy = 3;
        CREATE INDEX attribute_comment ON attribute(item) WHERE name = 'user.xdg.comment';
        """

    /// What a person used, wants to find again, tagged or pinned is found among a million items;
    /// attributes that were changed here and not sent yet remember what they were.
    private static let eighth = """
        ALTER TABLE item ADD COLUMN opened INTEGER;
        CREATE INDEX item_opened ON item(opened) WHERE opened IS NOT NULL;
        CREATE INDEX item_pinned ON item(id) WHERE policy = 2;
        CREATE INDEX attribute_favorite ON attribute(item) WHERE name = 'user.cloudfs.favorite';
        CREATE TABLE tag (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
        CREATE TABLE item_tag (
            tag INTEGER NOT NULL REFERENCES tag(id),
            item INTEGER NOT NULL REFERENCES item(id) ON DELETE CASCADE,
            PRIMARY KEY (tag, item)
        ) WITHOUT ROWID;
        CREATE INDEX item_tag_item ON item_tag(item);
        CREATE TRIGGER tag_unused AFTER DELETE ON item_tag
            WHEN NOT EXISTS (SELECT 1 FROM item_tag WHERE tag = old.tag)
            BEGIN DELETE FROM tag WHERE id = old.tag; END;
        CREATE TABLE base_attribute (
            item INTEGER NOT NULL REFERENCES item(id) ON DELETE CASCADE,
            name TEXT NOT NULL,
            value BLOB,
            PRIMARY KEY (item, name)
        ) WITHOUT ROWID;
        """

    /// The texts of queries that have folders, by numbers that never come again.
    private static let ninth = """
        CREATE TABLE search (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            query TEXT NOT NULL UNIQUE,
            used INTEGER NOT NULL
        );
        """

    /// Packages: files that are shown as folders, and what is in them.
    private static let tenth = """
        ALTER TABLE item ADD COLUMN is_package INTEGER NOT NULL DEFAULT 0
            CHECK (is_package IN (0, 1));
        ALTER TABLE item ADD COLUMN package INTEGER;
        ALTER TABLE item ADD COLUMN tree_changes INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE item ADD COLUMN packed_changes INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX item_package ON item(package) WHERE package IS NOT NULL;
        """

    /// What files were before their content was replaced, until the new content is on the disk.
    private static let eleventh = """
        CREATE TABLE previous (
            item INTEGER PRIMARY KEY REFERENCES item(id),
            holder INTEGER NOT NULL,
            generation INTEGER NOT NULL,
            size INTEGER NOT NULL CHECK (size > 0),
            modified INTEGER NOT NULL,
            version TEXT,
            since INTEGER NOT NULL,
            CHECK (generation <> 0 OR version IS NOT NULL)
        );
        CREATE UNIQUE INDEX previous_content ON previous(holder, generation) WHERE generation <> 0;
        """

    /// How long the version was that a file lacks bytes of, once no base tells: nothing else may
    /// take their place.
    private static let twelfth = """
        ALTER TABLE item ADD COLUMN lost_size INTEGER
            CHECK (lost_size IS NULL OR residency = 1);
        UPDATE item SET lost_size = size WHERE residency = 1 AND (base_lost = 1
            OR NOT EXISTS (SELECT 1 FROM base WHERE base.item = item.id));
        ALTER TABLE item DROP COLUMN base_lost;
        """

    /// Who renames a folder asks whether anything in it is held back, which seldom anything is.
    private static let thirteenth = """
        CREATE INDEX outbox_held ON outbox(item) WHERE is_held = 1;
        """

    /// What was written on items here and not sent while the cloud had them, and who may be those;
    /// which requests sent no bytes.
    private static let fourteenth = """
        CREATE TABLE bequest (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            item INTEGER NOT NULL,
            document BLOB NOT NULL CHECK (length(document) = 16),
            kind INTEGER NOT NULL,
            name BLOB NOT NULL,
            content_version TEXT NOT NULL,
            size INTEGER NOT NULL,
            permissions INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            base_modified INTEGER NOT NULL,
            is_sketch INTEGER NOT NULL CHECK (is_sketch IN (0, 1)),
            since INTEGER NOT NULL
        );
        CREATE INDEX bequest_document ON bequest(document);
        CREATE INDEX bequest_content ON bequest(content_version);
        CREATE TABLE bequest_attribute (
            bequest INTEGER NOT NULL REFERENCES bequest(id) ON DELETE CASCADE,
            name TEXT NOT NULL,
            base BLOB,
            value BLOB,
            PRIMARY KEY (bequest, name)
        ) WITHOUT ROWID;
        CREATE TABLE heir (
            item INTEGER PRIMARY KEY REFERENCES item(id) ON DELETE CASCADE,
            document BLOB CHECK (length(document) = 16),
            original INTEGER REFERENCES item(id) ON DELETE CASCADE,
            since INTEGER NOT NULL,
            CHECK ((document IS NULL) <> (original IS NULL))
        );
        CREATE INDEX heir_document ON heir(document) WHERE document IS NOT NULL;
        CREATE INDEX heir_original ON heir(original) WHERE original IS NOT NULL;
        CREATE INDEX item_unsent ON item(id) WHERE metadata_changed = 1;
        ALTER TABLE sent ADD COLUMN is_metadata INTEGER NOT NULL DEFAULT 0
            CHECK (is_metadata IN (0, 1));
        """

    /// Has it decided anew what is held back.
    ///
    /// What waited for something excluded was, and nothing let it go. What was refused is found
    /// among all that waits.
    private static let fifteenth = """
        UPDATE outbox SET is_held = 0 WHERE is_held = 1;
        CREATE INDEX outbox_refused ON outbox(item) WHERE error_code = 'exists';
        """

    /// Which fields are unsent was not known: all of them.
    private static let sixteenth = """
        ALTER TABLE item ADD COLUMN unsent_fields INTEGER NOT NULL DEFAULT 0;
        UPDATE item SET unsent_fields = 3 WHERE metadata_changed = 1;
        """

    /// Nor was whether owners are.
    private static let seventeenth = """
        UPDATE item SET unsent_fields = unsent_fields | 4 WHERE metadata_changed = 1;
        """

    /// Ranges that programs wrote are stored before their bytes are on the disk: since when.
    private static let eighteenth = """
        ALTER TABLE range ADD COLUMN written INTEGER;
        CREATE INDEX range_written ON range(item) WHERE written IS NOT NULL;
        """
}

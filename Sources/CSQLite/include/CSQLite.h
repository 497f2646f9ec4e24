#pragma once

#include <sqlite3.h>

/// Has SQLite not count its memory, for which it locks a mutex at each allocation.
///
/// The function that it calls takes any number of arguments, which Swift cannot give it.
///
/// Returns SQLITE_MISUSE, and changes nothing, once SQLite is in use.
int csqlite_leave_memory_uncounted(void);

/// Has the log of a database stay as it is when this connection, the last one, is closed.
///
/// Returns SQLITE_OK, or why not.
int csqlite_keep_log(sqlite3 *connection);

/// Has SQLite open files by default as "unix-excl" does, but write what a transaction adds to a
/// write-ahead log at once, when it is committed.
///
/// SQLite itself writes each page of a transaction twice: 24 bytes that describe it, and the page.
/// As neither begins where a page of the system's cache does, that is three of those for each.
///
/// Returns SQLITE_OK, or why not.
int csqlite_gather_log_writes(void);

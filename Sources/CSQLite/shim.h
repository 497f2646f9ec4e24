#pragma once

#include <sqlite3.h>

/// Has SQLite not count its memory, for which it locks a mutex at each allocation.
///
/// The function that it calls takes any number of arguments, which Swift cannot give it.
///
/// Returns SQLITE_MISUSE, and changes nothing, once SQLite is in use.
static inline int csqlite_leave_memory_uncounted(void) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

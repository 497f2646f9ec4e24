#include "CSQLite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int csqlite_leave_memory_uncounted(void) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

int csqlite_keep_log(sqlite3 *connection) {
    return sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

// MARK: - Write-ahead logs

// What stands before each page in a log.
// Source: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
enum { frame_header = 24 };

// How much is gathered at most: a transaction that is longer is written in parts. SQLite's own file
// takes less than 128 KiB at once.
enum { capacity = 96 << 10 };

// One log, as one connection sees it.
//
// What is gathered is of a transaction that is not committed: others look for what the index of the
// log names, which is written after the last page. So everything is in the file by then.
//
// SQLite may also write over what it wrote, if a transaction is too large for its memory. From then
// on nothing is gathered, until the log begins anew.
typedef struct {
    sqlite3_file file;
    // The file of the system's, behind this.
    sqlite3_file *inner;
    unsigned char *gathered;
    int count;
    // Where the gathered bytes belong.
    sqlite3_int64 start;
    // From where on what SQLite has written is nowhere, as the disk did not take it; -1 if it did.
    sqlite3_int64 lost;
    // Where the page belongs whose description was written last; -1 when it is there.
    sqlite3_int64 page_place;
    // Whether that page ends a transaction.
    bool ends_transaction;
    bool is_plain;
} Log;

static sqlite3_vfs *unix_vfs;

static int write_gathered(Log *log) {
    int count = log->count;
    log->count = 0;
    if (count == 0) return SQLITE_OK;
    int code = log->inner->pMethods->xWrite(log->inner, log->gathered, count, log->start);
    if (code != SQLITE_OK) log->lost = log->start;
    return code;
}

static int write_through(Log *log, const void *bytes, int count, sqlite3_int64 place) {
    log->page_place = -1;
    int code = write_gathered(log);
    if (code != SQLITE_OK) return code;
    return log->inner->pMethods->xWrite(log->inner, bytes, count, place);
}

static int gather(Log *log, const void *bytes, int count, sqlite3_int64 place) {
    // What is written anew was undone.
    if (place <= log->start) {
        log->count = 0;
    } else if (place < log->start + log->count) {
        log->count = (int)(place - log->start);
    }
    if (place != log->start + log->count || count > capacity - log->count) {
        int code = write_gathered(log);
        if (code != SQLITE_OK) return code;
    }
    if (log->count == 0) log->start = place;
    memcpy(log->gathered + log->count, bytes, (size_t)count);
    log->count += count;
    return SQLITE_OK;
}

static bool tells_end(const unsigned char *header) {
    return header[4] != 0 || header[5] != 0 || header[6] != 0 || header[7] != 0;
}

static int write_frame_part(Log *log, const void *bytes, int count, sqlite3_int64 place) {
    bool is_page = place == log->page_place;
    int code = gather(log, bytes, count, place);
    if (is_page) {
        log->page_place = -1;
        return code == SQLITE_OK && log->ends_transaction ? write_gathered(log) : code;
    }
    log->page_place = code == SQLITE_OK ? place + count : -1;
    log->ends_transaction = tells_end(bytes);
    return code;
}

static int log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 place) {
    Log *log = (Log *)file;
    // The transaction that lost some of its bytes is not committed, whatever becomes of it: only
    // what begins where it began, or before, goes on.
    bool begins = place == 0 || count == frame_header;
    if (log->lost >= 0 && !(begins && place <= log->lost)) return SQLITE_IOERR_WRITE;
    log->lost = -1;
    if (place == 0) {
        log->is_plain = false;
        // What is gathered still was undone.
        log->count = 0;
        return write_through(log, bytes, count, place);
    }
    bool is_page = place == log->page_place && count > frame_header && count <= capacity;
    bool is_header = log->page_place < 0 && count == frame_header;
    if (log->gathered == NULL) log->gathered = malloc(capacity);
    if (log->is_plain || log->gathered == NULL || !(is_page || is_header)) {
        log->is_plain = true;
        return write_through(log, bytes, count, place);
    }
    return write_frame_part(log, bytes, count, place);
}

static int log_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 place) {
    Log *log = (Log *)file;
    bool is_gathered = place < log->start + log->count && place + count > log->start;
    int code = is_gathered ? write_gathered(log) : SQLITE_OK;
    if (code != SQLITE_OK) return code;
    if (log->lost >= 0 && place + count > log->lost) return SQLITE_IOERR_READ;
    return log->inner->pMethods->xRead(log->inner, bytes, count, place);
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size) {
    Log *log = (Log *)file;
    int code = write_gathered(log);
    if (code != SQLITE_OK) return code;
    return log->inner->pMethods->xTruncate(log->inner, size);
}

static int log_sync(sqlite3_file *file, int flags) {
    Log *log = (Log *)file;
    int code = write_gathered(log);
    if (code != SQLITE_OK) return code;
    return log->inner->pMethods->xSync(log->inner, flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *size) {
    Log *log = (Log *)file;
    int code = write_gathered(log);
    if (code != SQLITE_OK) return code;
    return log->inner->pMethods->xFileSize(log->inner, size);
}

static int log_close(sqlite3_file *file) {
    Log *log = (Log *)file;
    // What is gathered still was undone.
    free(log->gathered);
    return log->inner->pMethods->xClose(log->inner);
}

// The rest has nothing to do with what is in the file.

static int log_lock(sqlite3_file *file, int level) {
    Log *log = (Log *)file;
    return log->inner->pMethods->xLock(log->inner, level);
}

static int log_unlock(sqlite3_file *file, int level) {
    Log *log = (Log *)file;
    return log->inner->pMethods->xUnlock(log->inner, level);
}

static int log_is_reserved(sqlite3_file *file, int *is_reserved) {
    Log *log = (Log *)file;
    return log->inner->pMethods->xCheckReservedLock(log->inner, is_reserved);
}

static int log_control(sqlite3_file *file, int operation, void *argument) {
    Log *log = (Log *)file;
    return log->inner->pMethods->xFileControl(log->inner, operation, argument);
}

static int log_sector_size(sqlite3_file *file) {
    Log *log = (Log *)file;
    return log->inner->pMethods->xSectorSize(log->inner);
}

static int log_characteristics(sqlite3_file *file) {
    Log *log = (Log *)file;
    return log->inner->pMethods->xDeviceCharacteristics(log->inner);
}

static const sqlite3_io_methods log_methods = {
    .iVersion = 1,
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_is_reserved,
    .xFileControl = log_control,
    .xSectorSize = log_sector_size,
    .xDeviceCharacteristics = log_characteristics,
};

static int open_file(
    sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *flags_out
) {
    (void)vfs;
    if (!(flags & SQLITE_OPEN_WAL)) return unix_vfs->xOpen(unix_vfs, name, file, flags, flags_out);
    Log *log = (Log *)file;
    memset(log, 0, sizeof *log);
    log->inner = (sqlite3_file *)(log + 1);
    log->page_place = log->lost = -1;
    int code = unix_vfs->xOpen(unix_vfs, name, log->inner, flags, flags_out);
    // SQLite closes what has methods.
    if (log->inner->pMethods != NULL) log->file.pMethods = &log_methods;
    return code;
}

int csqlite_gather_log_writes(void) {
    // Files of the system keep in memory what they have locked for others, so that a transaction
    // needs no call for each lock; and no other process gets at the database.
    unix_vfs = sqlite3_vfs_find("unix-excl");
    if (unix_vfs == NULL) return SQLITE_NOTFOUND;
    static sqlite3_vfs gathering;
    gathering = *unix_vfs;
    gathering.pNext = NULL;
    gathering.zName = "cloudfs";
    gathering.szOsFile = (int)sizeof(Log) + unix_vfs->szOsFile;
    gathering.xOpen = open_file;
    return sqlite3_vfs_register(&gathering, 1);
}

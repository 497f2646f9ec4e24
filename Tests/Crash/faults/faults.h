// What the calls ask before they are made, and the page that answers.
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

// In the order of `page.py`.
enum area { CONTENT, CATALOG, CLOUD, STATE, ANY, AREAS, NONE };
enum action {
    OPEN, READ, WRITE, FLUSH, NAME, SIZE, LOOK, LOCK, ATTRIBUTE, CREATE, WATCH, ACTIONS
};
enum manner { REFUSED, SHORT, LATE, KILLED, SHORT_KILLED, LATE_KILLED };

struct page {
    _Atomic int32_t area, action, error, manner;
    _Atomic int64_t first, last, passed, failed;
    char call[32], path[224];
    _Atomic int64_t counts[AREAS][ACTIONS];
};

// Absent in programs that the daemon starts, before the constructor ran, and outside tests.
extern struct page *page;

// Each counts a call, and says whether it is one that fails; errno stays.
int is_due(const char *call, enum area area, enum action action, const char *path);
int fails(const char *call, enum action action, int descriptor);
int fails_at(const char *call, enum action action, int folder, const char *name);
int fails_to_open(const char *call, int folder, const char *name, int flags);
int fails_anywhere(const char *call);

// Whether a call that fails was carried out before, and whether it takes half of what it is given.
int is_late(void);
int is_short(void);
// Ends the daemon, supervisor and worker, if that is what fails.
void end_if_killed(void);

#endif

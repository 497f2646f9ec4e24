// Lets the n-th call of a kind fail, or ends the daemon there: a library that is loaded before all
// others (LD_PRELOAD).
//
// A call's kind is what it does and whose file it does it to: "catalog-write". A page that the
// test shares with the daemon says which kind fails, from which call to which, and how; it counts
// the calls of all kinds. So one daemon serves many tries.
#define _GNU_SOURCE
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct page *page;
static char state_root[PATH_MAX], cloud_root[PATH_MAX], runtime_root[PATH_MAX];
static size_t state_length, cloud_length, runtime_length;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOUDFS_FAULT_PAGE");
    const char *state = getenv("CLOUDFS_FAULT_STATE"), *cloud = getenv("CLOUDFS_FAULT_CLOUD");
    const char *runtime = getenv("CLOUDFS_FAULT_RUNTIME");
    if (!path || !state || !cloud || !runtime) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (memory == MAP_FAILED) return;
    state_length = (size_t)snprintf(state_root, sizeof state_root, "%s/", state);
    cloud_length = (size_t)snprintf(cloud_root, sizeof cloud_root, "%s/", cloud);
    runtime_length = (size_t)snprintf(runtime_root, sizeof runtime_root, "%s/", runtime);
    page = memory;
}

static enum area area_of_path(const char *path) {
    if (strncmp(path, cloud_root, cloud_length - 1) == 0) return CLOUD;
    if (strncmp(path, runtime_root, runtime_length) == 0) return STATE;
    if (strncmp(path, "/memfd:cloudfs-snapshot", 23) == 0) return CONTENT;
    // Whoever asks for the room on its disk names the folder itself.
    if (strncmp(path, state_root, state_length - 1) == 0 && !path[state_length - 1]) return CONTENT;
    if (strncmp(path, state_root, state_length) != 0) return NONE;
    const char *rest = path + state_length;
    if (strncmp(rest, "catalog.sqlite", 14) == 0) return CATALOG;
    if (strncmp(rest, "content", 7) == 0 || strncmp(rest, "staging", 7) == 0) return CONTENT;
    return strncmp(rest, "lost+found", 10) == 0 ? CONTENT : STATE;
}

static void path_of(int descriptor, char path[PATH_MAX]) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

static void path_at(int folder, const char *name, char path[PATH_MAX]) {
    path[0] = 0;
    if (name && name[0] == '/') {
        if (strncmp(name, "/proc/self/fd/", 14) == 0) path_of(atoi(name + 14), path);
        else snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    if (folder == AT_FDCWD) {
        snprintf(path, PATH_MAX, "%s", name ? name : "");
        return;
    }
    path_of(folder, path);
    size_t length = strlen(path);
    if (name) snprintf(path + length, PATH_MAX - length, "/%s", name);
}

// Counts a call, and says whether it is one that fails.
int is_due(const char *call, enum area area, enum action action, const char *path) {
    atomic_fetch_add(&page->counts[area][action], 1);
    if (page->area != (int)area || page->action != (int)action) return 0;
    int64_t number = atomic_fetch_add(&page->passed, 1) + 1;
    if (number < page->first || number > page->last) return 0;
    if (atomic_fetch_add(&page->failed, 1) == 0) {
        snprintf(page->call, sizeof page->call, "%s", call);
        snprintf(page->path, sizeof page->path, "%s", path);
    }
    return 1;
}

int fails_at(const char *call, enum action action, int folder, const char *name) {
    if (!page) return 0;
    int before = errno;
    char path[PATH_MAX];
    path_at(folder, name, path);
    enum area area = area_of_path(path);
    // libdispatch ends the process if it cannot look at a thread in /proc.
    int counts = action == OPEN && strncmp(path, "/proc/", 6) != 0;
    int due = counts && is_due(call, ANY, OPEN, path);
    if (area != NONE) due |= is_due(call, area, action, path);
    errno = before;
    return due;
}

int fails_to_open(const char *call, int folder, const char *name, int flags) {
    int makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    return fails_at(call, OPEN, folder, name) || (makes && fails_at(call, CREATE, folder, name));
}

int fails(const char *call, enum action action, int descriptor) {
    return fails_at(call, action, descriptor, NULL);
}

int fails_anywhere(const char *call) {
    return page && is_due(call, ANY, OPEN, "");
}

int is_late(void) {
    return page->manner == LATE || page->manner == LATE_KILLED;
}

int is_short(void) {
    return page && (page->manner == SHORT || page->manner == SHORT_KILLED);
}

void end_if_killed(void) {
    if (page->manner < KILLED) return;
    // The harness starts the daemon in a group of its own. No thread of it makes another call.
    kill(0, SIGKILL);
    for (;;) pause();
}

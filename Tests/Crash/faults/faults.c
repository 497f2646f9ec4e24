// Lets the n-th call of a kind fail: a library that is loaded before all others (LD_PRELOAD).
//
// A call's kind is what it does and whose file it does it to: "catalog-write". A page that the
// test shares with the daemon says which kind fails, from which call to which, and how; it counts
// the calls of all kinds. So one daemon serves many tries.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

// In the order of `page.py`.
enum area { CONTENT, CATALOG, CLOUD, ANY, AREAS, NONE };
enum action { OPEN, READ, WRITE, FLUSH, NAME, SIZE, LOOK, MAP, LOCK, ATTRIBUTE, ACTIONS };
enum manner { REFUSED, SHORT, LATE };

struct page {
    _Atomic int32_t area, action, error, manner;
    _Atomic int64_t first, last, passed, failed;
    char call[32], path[224];
    _Atomic int64_t counts[AREAS][ACTIONS];
};

static struct page *page;
static char state_root[PATH_MAX], cloud_root[PATH_MAX];
static size_t state_length, cloud_length;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOUDFS_FAULT_PAGE");
    const char *state = getenv("CLOUDFS_FAULT_STATE"), *cloud = getenv("CLOUDFS_FAULT_CLOUD");
    if (!path || !state || !cloud) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (memory == MAP_FAILED) return;
    state_length = (size_t)snprintf(state_root, sizeof state_root, "%s/", state);
    cloud_length = (size_t)snprintf(cloud_root, sizeof cloud_root, "%s/", cloud);
    page = memory;
}

static enum area area_of_path(const char *path) {
    if (strncmp(path, cloud_root, cloud_length - 1) == 0) return CLOUD;
    if (strncmp(path, "/memfd:cloudfs", 14) == 0) return CONTENT;
    if (strncmp(path, state_root, state_length) != 0) return NONE;
    const char *rest = path + state_length;
    if (strncmp(rest, "catalog.sqlite", 14) == 0) return CATALOG;
    if (strncmp(rest, "content", 7) == 0 || strncmp(rest, "staging", 7) == 0) return CONTENT;
    return strncmp(rest, "lost+found", 10) == 0 ? CONTENT : NONE;
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
static int is_due(const char *call, enum area area, enum action action, const char *path) {
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

static int fails_at(const char *call, enum action action, int folder, const char *name) {
    if (!page) return 0;
    int before = errno;
    char path[PATH_MAX];
    path_at(folder, name, path);
    enum area area = area_of_path(path);
    int due = action == OPEN && is_due(call, ANY, OPEN, path);
    if (area != NONE) due |= is_due(call, area, action, path);
    errno = before;
    return due;
}

static int fails(const char *call, enum action action, int descriptor) {
    return fails_at(call, action, descriptor, NULL);
}

static int fails_anywhere(const char *call) {
    return page && is_due(call, ANY, OPEN, "");
}

#define REAL(name)                                                             \
    static __typeof__(&name) real;                                             \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

// What a call that fails gives: nothing was done, or all of it was.
#define FAIL(result, work)                                                     \
    do {                                                                       \
        if (page->manner == LATE) (void)(work);                                \
        errno = page->error;                                                   \
        return result;                                                         \
    } while (0)

// Calls that transfer `count` bytes can be cut short too.
#define TRANSFER(action, descriptor, call)                                     \
    if (fails(__func__, action, descriptor)) {                                 \
        if (page->manner != SHORT) FAIL(-1, call);                             \
        if (count > 1) count /= 2;                                             \
    }                                                                          \
    return call

// MARK: Descriptors

#define OPENER(name)                                                           \
    int name(const char *path, int flags, ...) {                               \
        REAL(name);                                                            \
        va_list list;                                                          \
        va_start(list, flags);                                                 \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;\
        va_end(list);                                                          \
        if (fails_at(#name, OPEN, AT_FDCWD, path)) FAIL(-1, 0);                \
        return real(path, flags, mode);                                        \
    }
OPENER(open)
OPENER(open64)

#define OPENER_AT(name)                                                        \
    int name(int folder, const char *path, int flags, ...) {                   \
        REAL(name);                                                            \
        va_list list;                                                          \
        va_start(list, flags);                                                 \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;\
        va_end(list);                                                          \
        if (fails_at(#name, OPEN, folder, path)) FAIL(-1, 0);                  \
        return real(folder, path, flags, mode);                                \
    }
OPENER_AT(openat)
OPENER_AT(openat64)

DIR *opendir(const char *path) {
    REAL(opendir);
    if (fails_at(__func__, OPEN, AT_FDCWD, path)) FAIL(NULL, 0);
    return real(path);
}

int memfd_create(const char *name, unsigned flags) {
    REAL(memfd_create);
    if (fails_at(__func__, OPEN, AT_FDCWD, "/memfd:cloudfs")) FAIL(-1, 0);
    return real(name, flags);
}

int pipe(int ends[2]) {
    REAL(pipe);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(ends);
}

int pipe2(int ends[2], int flags) {
    REAL(pipe2);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(ends, flags);
}

int socket(int domain, int type, int protocol) {
    REAL(socket);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(domain, type, protocol);
}

int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags) {
    REAL(accept4);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(listener, address, length, flags);
}

// MARK: Bytes

ssize_t read(int file, void *bytes, size_t count) {
    REAL(read);
    TRANSFER(READ, file, real(file, bytes, count));
}

ssize_t pread(int file, void *bytes, size_t count, off_t offset) {
    REAL(pread);
    TRANSFER(READ, file, real(file, bytes, count, offset));
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t offset) {
    REAL(pread64);
    TRANSFER(READ, file, real(file, bytes, count, offset));
}

ssize_t write(int file, const void *bytes, size_t count) {
    REAL(write);
    TRANSFER(WRITE, file, real(file, bytes, count));
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    REAL(pwrite);
    TRANSFER(WRITE, file, real(file, bytes, count, offset));
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    REAL(pwrite64);
    TRANSFER(WRITE, file, real(file, bytes, count, offset));
}

ssize_t sendfile(int to, int from, off_t *offset, size_t count) {
    REAL(sendfile);
    if (fails(__func__, WRITE, to)) FAIL(-1, 0);
    TRANSFER(READ, from, real(to, from, offset, count));
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t count) {
    REAL(sendfile64);
    if (fails(__func__, WRITE, to)) FAIL(-1, 0);
    TRANSFER(READ, from, real(to, from, offset, count));
}

ssize_t splice(int from, off64_t *in, int to, off64_t *out, size_t count, unsigned flags) {
    REAL(splice);
    if (fails(__func__, READ, from)) FAIL(-1, 0);
    TRANSFER(WRITE, to, real(from, in, to, out, count, flags));
}

ssize_t copy_file_range(
    int from, off64_t *in, int to, off64_t *out, size_t count, unsigned flags) {
    REAL(copy_file_range);
    if (fails(__func__, READ, from)) FAIL(-1, 0);
    TRANSFER(WRITE, to, real(from, in, to, out, count, flags));
}

int ioctl(int file, unsigned long request, ...) {
    REAL(ioctl);
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (request == FICLONE && fails(__func__, WRITE, file)) FAIL(-1, 0);
    return real(file, request, argument);
}

// MARK: Flushes and sizes

#define FLUSHER(name)                                                          \
    int name(int file) {                                                       \
        REAL(name);                                                            \
        if (fails(#name, FLUSH, file)) FAIL(-1, real(file));                   \
        return real(file);                                                     \
    }
FLUSHER(fsync)
FLUSHER(fdatasync)

int syncfs(int file) {
    REAL(syncfs);
    // It is called with the state directory itself, for what is in the content store.
    if (page && is_due(__func__, CONTENT, FLUSH, "")) FAIL(-1, 0);
    return real(file);
}

int ftruncate(int file, off_t size) {
    REAL(ftruncate);
    if (fails(__func__, SIZE, file)) FAIL(-1, real(file, size));
    return real(file, size);
}

int ftruncate64(int file, off64_t size) {
    REAL(ftruncate64);
    if (fails(__func__, SIZE, file)) FAIL(-1, real(file, size));
    return real(file, size);
}

int fallocate(int file, int mode, off_t offset, off_t count) {
    REAL(fallocate);
    if (fails(__func__, SIZE, file)) FAIL(-1, real(file, mode, offset, count));
    return real(file, mode, offset, count);
}

int fallocate64(int file, int mode, off64_t offset, off64_t count) {
    REAL(fallocate64);
    if (fails(__func__, SIZE, file)) FAIL(-1, real(file, mode, offset, count));
    return real(file, mode, offset, count);
}

// MARK: Names

int rename(const char *old, const char *new) {
    REAL(rename);
    if (fails_at(__func__, NAME, AT_FDCWD, old)) FAIL(-1, real(old, new));
    return real(old, new);
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    REAL(renameat2);
    if (fails_at(__func__, NAME, from, old)) FAIL(-1, real(from, old, to, new, flags));
    return real(from, old, to, new, flags);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    REAL(linkat);
    if (fails_at(__func__, NAME, to, new)) FAIL(-1, real(from, old, to, new, flags));
    return real(from, old, to, new, flags);
}

int symlinkat(const char *target, int folder, const char *name) {
    REAL(symlinkat);
    if (fails_at(__func__, NAME, folder, name)) FAIL(-1, real(target, folder, name));
    return real(target, folder, name);
}

int unlink(const char *path) {
    REAL(unlink);
    if (fails_at(__func__, NAME, AT_FDCWD, path)) FAIL(-1, real(path));
    return real(path);
}

int unlinkat(int folder, const char *name, int flags) {
    REAL(unlinkat);
    if (fails_at(__func__, NAME, folder, name)) FAIL(-1, real(folder, name, flags));
    return real(folder, name, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (fails_at(__func__, NAME, AT_FDCWD, path)) FAIL(-1, real(path, mode));
    return real(path, mode);
}

int mkdirat(int folder, const char *name, mode_t mode) {
    REAL(mkdirat);
    if (fails_at(__func__, NAME, folder, name)) FAIL(-1, real(folder, name, mode));
    return real(folder, name, mode);
}

// MARK: What is known of a file

int fstat(int file, struct stat *status) {
    REAL(fstat);
    if (fails(__func__, LOOK, file)) FAIL(-1, 0);
    return real(file, status);
}

int fstat64(int file, struct stat64 *status) {
    REAL(fstat64);
    if (fails(__func__, LOOK, file)) FAIL(-1, 0);
    return real(file, status);
}

int lstat(const char *path, struct stat *status) {
    REAL(lstat);
    if (fails_at(__func__, LOOK, AT_FDCWD, path)) FAIL(-1, 0);
    return real(path, status);
}

int stat64(const char *path, struct stat64 *status) {
    REAL(stat64);
    if (fails_at(__func__, LOOK, AT_FDCWD, path)) FAIL(-1, 0);
    return real(path, status);
}

int fstatat(int folder, const char *name, struct stat *status, int flags) {
    REAL(fstatat);
    if (fails_at(__func__, LOOK, folder, name)) FAIL(-1, 0);
    return real(folder, name, status, flags);
}

int fstatfs(int file, struct statfs *status) {
    REAL(fstatfs);
    if (fails(__func__, LOOK, file)) FAIL(-1, 0);
    return real(file, status);
}

off_t lseek(int file, off_t offset, int whence) {
    REAL(lseek);
    if (fails(__func__, LOOK, file)) FAIL(-1, 0);
    return real(file, offset, whence);
}

int futimens(int file, const struct timespec times[2]) {
    REAL(futimens);
    if (fails(__func__, ATTRIBUTE, file)) FAIL(-1, real(file, times));
    return real(file, times);
}

int utimensat(int folder, const char *name, const struct timespec times[2], int flags) {
    REAL(utimensat);
    if (fails_at(__func__, ATTRIBUTE, folder, name)) FAIL(-1, real(folder, name, times, flags));
    return real(folder, name, times, flags);
}

int chmod(const char *path, mode_t mode) {
    REAL(chmod);
    if (fails_at(__func__, ATTRIBUTE, AT_FDCWD, path)) FAIL(-1, real(path, mode));
    return real(path, mode);
}

int fchmod(int file, mode_t mode) {
    REAL(fchmod);
    if (fails(__func__, ATTRIBUTE, file)) FAIL(-1, real(file, mode));
    return real(file, mode);
}

ssize_t listxattr(const char *path, char *names, size_t length) {
    REAL(listxattr);
    if (fails_at(__func__, ATTRIBUTE, AT_FDCWD, path)) FAIL(-1, 0);
    return real(path, names, length);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t length) {
    REAL(getxattr);
    if (fails_at(__func__, ATTRIBUTE, AT_FDCWD, path)) FAIL(-1, 0);
    return real(path, name, value, length);
}

int setxattr(const char *path, const char *name, const void *value, size_t length, int flags) {
    REAL(setxattr);
    if (fails_at(__func__, ATTRIBUTE, AT_FDCWD, path)) {
        FAIL(-1, real(path, name, value, length, flags));
    }
    return real(path, name, value, length, flags);
}

// MARK: Memory and locks

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    REAL(mmap);
    if (file >= 0 && fails(__func__, MAP, file)) FAIL(MAP_FAILED, 0);
    return real(address, length, protection, flags, file, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int file, off64_t offset) {
    REAL(mmap64);
    if (file >= 0 && fails(__func__, MAP, file)) FAIL(MAP_FAILED, 0);
    return real(address, length, protection, flags, file, offset);
}

// Giving a lock back never fails.
static int takes_lock(int command, void *argument) {
    if (command == F_SETLEASE) return (int)(intptr_t)argument != F_UNLCK;
    return command == F_SETLK && ((struct flock *)argument)->l_type != F_UNLCK;
}

#define CONTROL(name)                                                          \
    int name(int file, int command, ...) {                                     \
        REAL(name);                                                            \
        va_list list;                                                          \
        va_start(list, command);                                               \
        void *argument = va_arg(list, void *);                                 \
        va_end(list);                                                          \
        if (takes_lock(command, argument) && fails(#name, LOCK, file)) {       \
            FAIL(-1, 0);                                                       \
        }                                                                      \
        return real(file, command, argument);                                  \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

// MARK: Calls without a function

long syscall(long number, ...) {
    REAL(syscall);
    va_list list;
    va_start(list, number);
    long a[6];
    for (int index = 0; index < 6; index++) a[index] = va_arg(list, long);
    va_end(list);
    if (page && number == SYS_openat2) {
        if (fails_at("openat2", OPEN, (int)a[0], (const char *)a[1])) FAIL(-1, 0);
    }
    if (page && number == SYS_getdents64) {
        if (fails("getdents64", READ, (int)a[0])) FAIL(-1, 0);
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

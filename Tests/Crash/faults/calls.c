// The calls that stand before those of the C library.
#define _GNU_SOURCE
#include "faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#define REAL(name)                                                             \
    static __typeof__(&name) real;                                             \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

// What a call that fails gives: nothing was done, or all of it was. It may be the last one.
#define FAIL(result, work)                                                     \
    do {                                                                       \
        if (is_late()) (void)(work);                                           \
        end_if_killed();                                                       \
        errno = page->error;                                                   \
        return result;                                                         \
    } while (0)

// Calls that transfer `count` bytes can be cut short too.
#define TRANSFER(action, descriptor, call)                                     \
    if (fails(__func__, action, descriptor)) {                                 \
        if (!is_short()) FAIL(-1, call);                                       \
        if (count > 1) count /= 2;                                             \
        if (page->manner == SHORT_KILLED) (void)(call);                        \
        end_if_killed();                                                       \
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
        if (fails_to_open(#name, AT_FDCWD, path, flags)) {                     \
            FAIL(-1, real(path, flags, mode));                                 \
        }                                                                      \
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
        if (fails_to_open(#name, folder, path, flags)) {                       \
            FAIL(-1, real(folder, path, flags, mode));                         \
        }                                                                      \
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
    if (fails_to_open(__func__, AT_FDCWD, "/memfd:cloudfs", O_CREAT)) FAIL(-1, 0);
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

int socketpair(int domain, int type, int protocol, int ends[2]) {
    REAL(socketpair);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(domain, type, protocol, ends);
}

int eventfd(unsigned value, int flags) {
    REAL(eventfd);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(value, flags);
}

int timerfd_create(clockid_t clock, int flags) {
    REAL(timerfd_create);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(clock, flags);
}

int epoll_create1(int flags) {
    REAL(epoll_create1);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(flags);
}

int inotify_init1(int flags) {
    REAL(inotify_init1);
    if (fails_anywhere(__func__)) FAIL(-1, 0);
    return real(flags);
}

// It has a descriptor of its own for what could not be started.
int posix_spawn(
    pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
    const posix_spawnattr_t *attributes, char *const words[], char *const variables[]) {
    REAL(posix_spawn);
    if (fails_anywhere(__func__)) FAIL(page->error, 0);
    return real(process, path, actions, attributes, words, variables);
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
    // libfuse's, of what the kernel has in memory: nothing comes in part from there.
    if (is_short() && page->area == CONTENT) {
        return real(file, bytes, count, offset);
    }
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
    if (page && !is_short() && fails(__func__, WRITE, to)) FAIL(-1, 0);
    TRANSFER(READ, from, real(to, from, offset, count));
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t count) {
    REAL(sendfile64);
    if (page && !is_short() && fails(__func__, WRITE, to)) FAIL(-1, 0);
    TRANSFER(READ, from, real(to, from, offset, count));
}

ssize_t splice(int from, off64_t *in, int to, off64_t *out, size_t count, unsigned flags) {
    REAL(splice);
    // From memory to the kernel nothing comes in part: what is not there is read by `pread`.
    if (page && !is_short() && fails(__func__, READ, from)) FAIL(-1, 0);
    TRANSFER(WRITE, to, real(from, in, to, out, count, flags));
}

ssize_t copy_file_range(
    int from, off64_t *in, int to, off64_t *out, size_t count, unsigned flags) {
    REAL(copy_file_range);
    if (page && !is_short() && fails(__func__, READ, from)) FAIL(-1, 0);
    TRANSFER(WRITE, to, real(from, in, to, out, count, flags));
}

struct dirent *readdir(DIR *folder) {
    REAL(readdir);
    if (fails(__func__, READ, dirfd(folder))) FAIL(NULL, 0);
    return real(folder);
}

ssize_t readlinkat(int folder, const char *name, char *target, size_t length) {
    REAL(readlinkat);
    // libfuse and others ask /proc who they are.
    if (fails_at(__func__, READ, folder, name)) FAIL(-1, 0);
    return real(folder, name, target, length);
}

int ioctl(int file, unsigned long request, ...) {
    REAL(ioctl);
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (request == FICLONE && fails(__func__, WRITE, file)) {
        FAIL(-1, real(file, request, argument));
    }
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

int sync_file_range(int file, off64_t offset, off64_t count, unsigned flags) {
    REAL(sync_file_range);
    if (fails(__func__, FLUSH, file)) FAIL(-1, 0);
    return real(file, offset, count, flags);
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

int renameat(int from, const char *old, int to, const char *new) {
    REAL(renameat);
    if (fails_at(__func__, NAME, from, old)) FAIL(-1, real(from, old, to, new));
    return real(from, old, to, new);
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    REAL(renameat2);
    if (fails_at(__func__, NAME, from, old)) FAIL(-1, real(from, old, to, new, flags));
    return real(from, old, to, new, flags);
}

int link(const char *old, const char *new) {
    REAL(link);
    if (fails_at(__func__, NAME, AT_FDCWD, new)) FAIL(-1, real(old, new));
    return real(old, new);
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

int rmdir(const char *path) {
    REAL(rmdir);
    if (fails_at(__func__, NAME, AT_FDCWD, path)) FAIL(-1, real(path));
    return real(path);
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

int stat(const char *path, struct stat *status) {
    REAL(stat);
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

int statx(int folder, const char *name, int flags, unsigned mask, struct statx *status) {
    REAL(statx);
    if (fails_at(__func__, LOOK, folder, name)) FAIL(-1, 0);
    return real(folder, name, flags, mask, status);
}

int name_to_handle_at(
    int folder, const char *name, struct file_handle *handle, int *mount, int flags) {
    REAL(name_to_handle_at);
    if (fails_at(__func__, LOOK, folder, name)) FAIL(-1, 0);
    return real(folder, name, handle, mount, flags);
}

// Of the state directory itself, for the room that content has.
int statvfs(const char *path, struct statvfs *status) {
    REAL(statvfs);
    if (fails_at(__func__, LOOK, AT_FDCWD, path)) FAIL(-1, 0);
    return real(path, status);
}

int fstatvfs(int file, struct statvfs *status) {
    REAL(fstatvfs);
    if (fails(__func__, LOOK, file)) FAIL(-1, 0);
    return real(file, status);
}

int inotify_add_watch(int queue, const char *path, uint32_t mask) {
    REAL(inotify_add_watch);
    if (fails_at(__func__, WATCH, AT_FDCWD, path)) FAIL(-1, 0);
    return real(queue, path, mask);
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

int fchownat(int folder, const char *name, uid_t user, gid_t group, int flags) {
    REAL(fchownat);
    if (fails_at(__func__, ATTRIBUTE, folder, name)) {
        FAIL(-1, real(folder, name, user, group, flags));
    }
    return real(folder, name, user, group, flags);
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
    if (fails_at(__func__, LOOK, AT_FDCWD, path)) FAIL(-1, 0);
    return real(path, names, length);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t length) {
    REAL(getxattr);
    if (fails_at(__func__, LOOK, AT_FDCWD, path)) FAIL(-1, 0);
    return real(path, name, value, length);
}

int setxattr(const char *path, const char *name, const void *value, size_t length, int flags) {
    REAL(setxattr);
    if (fails_at(__func__, ATTRIBUTE, AT_FDCWD, path)) {
        FAIL(-1, real(path, name, value, length, flags));
    }
    return real(path, name, value, length, flags);
}

int removexattr(const char *path, const char *name) {
    REAL(removexattr);
    if (fails_at(__func__, ATTRIBUTE, AT_FDCWD, path)) FAIL(-1, real(path, name));
    return real(path, name);
}

// MARK: Locks

int flock(int file, int how) {
    REAL(flock);
    if (!(how & LOCK_UN) && fails(__func__, LOCK, file)) FAIL(-1, 0);
    return real(file, how);
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
        if (command == F_DUPFD_CLOEXEC && fails_anywhere(#name)) FAIL(-1, 0);  \
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
        const struct open_how *how = (const struct open_how *)a[2];
        int flags = (int)how->flags;
        if (fails_to_open("openat2", (int)a[0], (const char *)a[1], flags)) {
            FAIL(-1, real(number, a[0], a[1], a[2], a[3]));
        }
    }
    if (page && number == SYS_getdents64) {
        if (fails("getdents64", READ, (int)a[0])) FAIL(-1, 0);
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

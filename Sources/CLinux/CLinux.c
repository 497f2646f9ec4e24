#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

const int clinux_o_direct = O_DIRECT;
const int clinux_o_path = O_PATH;
const int clinux_at_empty_path = AT_EMPTY_PATH;
const long clinux_utime_omit = UTIME_OMIT;
const unsigned clinux_rename_noreplace = RENAME_NOREPLACE;
const unsigned clinux_rename_exchange = RENAME_EXCHANGE;
const uint64_t clinux_resolve_inside =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;

int clinux_open_inside(int folder, const char *path, int flags, mode_t mode) {
    struct open_how how = {
        .flags = (uint64_t)flags, .mode = mode, .resolve = clinux_resolve_inside};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

int clinux_handle(int descriptor, int32_t *type, uint8_t *bytes) {
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + CLINUX_HANDLE_BYTES];
    } space;
    int mount = 0;
    memset(&space, 0, sizeof space);
    space.handle.handle_bytes = CLINUX_HANDLE_BYTES;
    if (name_to_handle_at(descriptor, "", &space.handle, &mount, AT_EMPTY_PATH) != 0) return -1;
    *type = space.handle.handle_type;
    memcpy(bytes, space.handle.f_handle, space.handle.handle_bytes);
    return (int)space.handle.handle_bytes;
}

int clinux_renameat2(
    int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    return renameat2(from_folder, from, to_folder, to, flags);
}

ssize_t clinux_copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset, size_t n) {
    loff_t in = from_offset, out = to_offset;
    return copy_file_range(from, &in, to, &out, n, 0);
}

int clinux_filesystem(int descriptor, int64_t *type, uint64_t *identifier) {
    struct statfs status;
    if (fstatfs(descriptor, &status) != 0) return -1;
    *type = (int64_t)status.f_type;
    memcpy(identifier, &status.f_fsid, sizeof *identifier);
    return 0;
}

// As in <linux/stat.h> since 6.8, which distributions with an older kernel's headers lack.
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

uint64_t clinux_mount_number(int descriptor) {
    struct statx status = {0};
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, &status) != 0) return 0;
    return status.stx_mnt_id;
}

ssize_t clinux_getdents(int folder, void *buffer, size_t length) {
    return syscall(SYS_getdents64, folder, buffer, length);
}

int clinux_has_writers(int descriptor) {
    if (fcntl(descriptor, F_SETSIG, SIGURG) != 0) return -1;
    if (fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN ? 1 : -1;
    return fcntl(descriptor, F_SETLEASE, F_UNLCK) == 0 ? 0 : -1;
}

ssize_t clinux_listxattr(const char *path, char *names, size_t length) {
    return listxattr(path, names, length);
}

ssize_t clinux_getxattr(const char *path, const char *name, void *value, size_t length) {
    return getxattr(path, name, value, length);
}

int clinux_setxattr(const char *path, const char *name, const void *value, size_t length) {
    return setxattr(path, name, value, length, 0);
}

int clinux_removexattr(const char *path, const char *name) { return removexattr(path, name); }

const int clinux_seek_data = SEEK_DATA;
const int clinux_seek_hole = SEEK_HOLE;
const int clinux_o_tmpfile = O_TMPFILE;

int clinux_fallocate(int descriptor, int mode, int64_t offset, int64_t length) {
    return fallocate(descriptor, mode, offset, length);
}

int clinux_clone(int target, int source) { return ioctl(target, FICLONE, source); }

int clinux_syncfs(int descriptor) { return syncfs(descriptor); }

int clinux_expect_written(int descriptor) {
    // A range that no file has: there are no pages to wait for.
    int result = sync_file_range(descriptor, (off64_t)1 << 62, 1, SYNC_FILE_RANGE_WAIT_BEFORE);
    // Not every sandbox and file system knows the call; the next flush tells there.
    return result != 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL) ? 0 : result;
}

// As in <linux/fuse.h> since 6.9, which distributions with an older kernel's headers lack.
struct backing_map {
    int32_t descriptor;
    uint32_t flags;
    uint64_t padding;
};
#define BACKING_OPEN _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

int clinux_fuse_backing_open(int device, int descriptor) {
    struct backing_map map = {.descriptor = descriptor};
    return ioctl(device, BACKING_OPEN, &map);
}

int clinux_fuse_backing_close(int device, int backing) {
    uint32_t id = (uint32_t)backing;
    return ioctl(device, BACKING_CLOSE, &id);
}

#if __has_feature(thread_sanitizer)
// The sanitizer's read does not hear that a thread was cancelled in it, and later ends the process.
ssize_t __read(int descriptor, void *buffer, size_t size);
#define cancellable_read __read
#else
#define cancellable_read read
#endif

static clinux_fuse_reader fuse_reader;

void clinux_fuse_set_reader(clinux_fuse_reader reader) { fuse_reader = reader; }

ssize_t clinux_fuse_read(int device, void *buffer, size_t size, void *userdata) {
    fuse_reader.will_read(userdata, buffer, size);
    ssize_t count = cancellable_read(device, buffer, size);
    if (count > 0) fuse_reader.did_read(userdata, buffer, (size_t)count);
    return count;
}

// By default it is ignored, and nothing here asks for urgent data of sockets.
enum { INTERRUPT = SIGURG };

static void do_nothing(int number) { (void)number; }

void clinux_become_interruptible(void) {
    // Without SA_RESTART: what waits is to return.
    struct sigaction action = {.sa_handler = do_nothing};
    sigaction(INTERRUPT, &action, NULL);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, INTERRUPT);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

void clinux_interrupt(pthread_t thread) { pthread_kill(thread, INTERRUPT); }

int clinux_keep_only(int descriptor) {
    if (unshare(CLONE_FILES) != 0) return -1;
    if (descriptor > STDERR_FILENO + 1
        && close_range(STDERR_FILENO + 1, (unsigned)descriptor - 1, 0) != 0) return -1;
    return close_range((unsigned)descriptor + 1, ~0U, 0);
}

int clinux_die_with_parent(void) { return prctl(PR_SET_PDEATHSIG, SIGKILL); }

int clinux_socket_pair(int ends[2]) {
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

int clinux_send(
    int socket, const void *bytes, size_t length, const int *descriptors, size_t count) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * CLINUX_MOST_DESCRIPTORS)] = {0};
    struct iovec piece = {.iov_base = (void *)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (count > CLINUX_MOST_DESCRIPTORS) {
        errno = EINVAL;
        return -1;
    }
    if (count > 0) {
        message.msg_control = room;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(header), descriptors, sizeof(int) * count);
    }
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL); while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

ssize_t clinux_receive(int socket, void *bytes, size_t room, int *descriptors, size_t *count) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * CLINUX_MOST_DESCRIPTORS)];
    struct iovec piece = {.iov_base = bytes, .iov_len = room};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1,
        .msg_control = control, .msg_controllen = sizeof control};
    ssize_t received;
    do received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    *count = 0;
    if (received < 0) return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        *count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(descriptors, CMSG_DATA(header), *count * sizeof(int));
    }
    return received;
}

int clinux_memfd_create(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

int clinux_enter_mount_namespace(int descriptor) {
    // A thread that shares its root and working folder with others is not let in.
    if (unshare(CLONE_FS) != 0) return -1;
    return setns(descriptor, CLONE_NEWNS);
}

int clinux_spawn_close_from(posix_spawn_file_actions_t *actions, int first) {
    return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

int clinux_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int clinux_timer_open(void) { return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC); }

int clinux_timer_set(int timer, int64_t nanoseconds) {
    const long second = 1000000000;
    const struct itimerspec setting = {
        .it_value = {.tv_sec = nanoseconds / second, .tv_nsec = nanoseconds % second}};
    return timerfd_settime(timer, 0, &setting, NULL);
}

const uint32_t clinux_in_content = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE;
const uint32_t clinux_in_overflow = IN_Q_OVERFLOW;
const uint32_t clinux_in_ignored = IN_IGNORED;
const uint32_t clinux_in_unmount = IN_UNMOUNT;
const uint32_t clinux_in_is_folder = IN_ISDIR;
const uint32_t clinux_in_create = IN_CREATE;
const uint32_t clinux_in_moved_from = IN_MOVED_FROM;
const uint32_t clinux_in_moved_to = IN_MOVED_TO;
const uint32_t clinux_in_delete_self = IN_DELETE_SELF;
const uint32_t clinux_in_move_self = IN_MOVE_SELF;

int clinux_inotify_open(void) { return inotify_init1(IN_CLOEXEC | IN_NONBLOCK); }

int clinux_inotify_watch(int descriptor, const char *path) {
    return inotify_add_watch(
        descriptor, path,
        IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB
            | IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK | IN_ONLYDIR);
}

int clinux_inotify_forget(int descriptor, int watch) { return inotify_rm_watch(descriptor, watch); }

/// Of the first object, which is the program; what is writable may differ from its file.
static int release_program(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size;
    (void)unused;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W)) continue;
        const uintptr_t begin = (object->dlpi_addr + part->p_vaddr + page - 1) / page * page;
        const uintptr_t end = (object->dlpi_addr + part->p_vaddr + part->p_memsz) / page * page;
        // What cannot be let go of stays.
        if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    return 1;
}

void clinux_release_memory(void) {
    malloc_trim(0);
    dl_iterate_phdr(release_program, NULL);
}

void clinux_name_thread(const char *name) {
    char text[16];
    snprintf(text, sizeof text, "%s", name);
    pthread_setname_np(pthread_self(), text);
}

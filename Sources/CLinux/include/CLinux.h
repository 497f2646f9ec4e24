// Linux calls and numbers that Swift's Glibc module leaves out, because glibc declares them only
// under _GNU_SOURCE or because they have no wrapper there at all.
#ifndef CLINUX_H
#define CLINUX_H

#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CLINUX_HANDLE_BYTES = 128,  // MAX_HANDLE_SZ
};

extern const int clinux_o_direct;
extern const int clinux_o_path;
extern const int clinux_at_empty_path;
extern const long clinux_utime_omit;
extern const unsigned clinux_rename_noreplace;
extern const unsigned clinux_rename_exchange;
extern const uint64_t clinux_resolve_inside;

/// openat2(2) with RESOLVE_BENEATH, NO_SYMLINKS, NO_MAGICLINKS and NO_XDEV: glibc has no wrapper.
int clinux_open_inside(int folder, const char *path, int flags, mode_t mode);

/// name_to_handle_at(2) of an open descriptor: the handle's length, or -1.
int clinux_handle(int descriptor, int32_t *type, uint8_t *bytes);

int clinux_renameat2(
    int from_folder, const char *from, int to_folder, const char *to, unsigned flags);

ssize_t clinux_copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset, size_t n);

/// fstatfs(2): what kind of file system it is, and which one.
int clinux_filesystem(int descriptor, int64_t *type, uint64_t *identifier);

/// statx(2): the number of the mount that a descriptor is on, never given again where the kernel
/// can say so (Linux 6.8); 0 if it is not known.
uint64_t clinux_mount_number(int descriptor);

/// getdents64(2): raw directory records.
ssize_t clinux_getdents(int folder, void *buffer, size_t length);

/// Whether another open file description can write to the file: 1, 0, or -1 with errno.
///
/// Takes a read lease on a read-only descriptor and gives it back. SIGURG, ignored by default,
/// stands in for SIGIO, whose default would end the process if somebody opened in that moment.
int clinux_has_writers(int descriptor);

ssize_t clinux_listxattr(const char *path, char *names, size_t length);
ssize_t clinux_getxattr(const char *path, const char *name, void *value, size_t length);
int clinux_setxattr(const char *path, const char *name, const void *value, size_t length);
int clinux_removexattr(const char *path, const char *name);

int clinux_eventfd(void);

/// A timer that goes on while the machine is suspended: a descriptor of which 8 bytes can be read
/// when it is over, or -1 with errno.
int clinux_timer_open(void);
/// Sets the timer, to go off after more than 0 ns: 0, or -1 with errno.
int clinux_timer_set(int timer, int64_t nanoseconds);

/// Has a program that is started get no descriptor from `first` on, whoever opened them.
int clinux_spawn_close_from(posix_spawn_file_actions_t *actions, int first);

/// Puts the calling thread alone into the mount namespace that a descriptor stands for.
int clinux_enter_mount_namespace(int descriptor);

extern const int clinux_seek_data;
extern const int clinux_seek_hole;
extern const int clinux_o_tmpfile;
int clinux_fallocate(int descriptor, int mode, int64_t offset, int64_t length);

/// FICLONE: makes `target` share the blocks of `source`.
int clinux_clone(int target, int source);

/// syncfs(2), which the headers declare for GNU sources only.
int clinux_syncfs(int descriptor);

/// Looks whether the system failed to write back what was written to a file, since it was opened
/// or that was last told of; waits for nothing. 0, also where nobody can tell, or -1 with errno.
int clinux_expect_written(int descriptor);

/// FUSE_DEV_IOC_BACKING_OPEN: lets the kernel use `descriptor` for a file of the mount behind
/// `device`; its id there, or -1.
int clinux_fuse_backing_open(int device, int descriptor);
int clinux_fuse_backing_close(int device, int backing);

/// What is told of the requests that `clinux_fuse_read` reads.
typedef struct {
    void (*will_read)(void *userdata, const void *buffer, size_t size);
    void (*did_read)(void *userdata, const void *message, size_t size);
} clinux_fuse_reader;

/// Sets it for all sessions of the process; to be called before they read.
void clinux_fuse_set_reader(clinux_fuse_reader reader);

/// read(2), as libfuse wants it for its custom I/O. libfuse cancels threads that wait in it: no
/// frame of Swift may be on their stack then, as nothing would be released on the way.
ssize_t clinux_fuse_read(int device, void *buffer, size_t size, void *userdata);

/// Lets `clinux_interrupt` end what the calling thread waits for, with EINTR.
void clinux_become_interruptible(void);

/// The thread must not have ended.
void clinux_interrupt(pthread_t thread);

/// Gives the calling thread descriptors of its own, of which the standard ones and `descriptor`
/// stay open: 0, or -1 with errno.
int clinux_keep_only(int descriptor);

/// Has the kernel kill this process when the thread that started it ends.
int clinux_die_with_parent(void);

enum {
    CLINUX_MOST_DESCRIPTORS = 8,
};

/// A pair of connected sockets that keep messages apart; closed on exec.
int clinux_socket_pair(int ends[2]);

/// sendmsg(2) with at most CLINUX_MOST_DESCRIPTORS descriptors: 0, or -1 with errno.
int clinux_send(
    int socket, const void *bytes, size_t length, const int *descriptors, size_t count);

/// recvmsg(2): the message's length, 0 at the end, or -1 with errno. The descriptors, at most
/// CLINUX_MOST_DESCRIPTORS, are closed on exec; `count` says how many came.
ssize_t clinux_receive(
    int socket, void *bytes, size_t room, int *descriptors, size_t *count);

/// memfd_create(2), which the headers declare for GNU sources only; closed on exec.
int clinux_memfd_create(const char *name);

extern const uint32_t clinux_in_content;
extern const uint32_t clinux_in_overflow;
extern const uint32_t clinux_in_ignored;
extern const uint32_t clinux_in_unmount;
extern const uint32_t clinux_in_is_folder;
extern const uint32_t clinux_in_create;
extern const uint32_t clinux_in_moved_from;
extern const uint32_t clinux_in_moved_to;
extern const uint32_t clinux_in_delete_self;
extern const uint32_t clinux_in_move_self;
int clinux_inotify_open(void);
int clinux_inotify_watch(int descriptor, const char *path);
int clinux_inotify_forget(int descriptor, int watch);

/// Gives free memory back to the system, and lets go of the pages of the program's own file; the
/// system maps those again that are needed again.
void clinux_release_memory(void);

/// Gives the calling thread a name that tools show.
void clinux_name_thread(const char *name);

#endif

// What Swift cannot import of libfuse's low-level API by itself, and nothing else.
#ifndef CFUSE_SHIM_H
#define CFUSE_SHIM_H

// The API of libfuse 3.14; it must be chosen before the first header of libfuse.
#define FUSE_USE_VERSION 314

// Without this, struct stat and other types of glibc would belong to this module, and files that
// do not import it could not use their members.
#pragma clang module import SwiftGlibc

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <stddef.h>
#include <fuse3/fuse_lowlevel.h>
#include <fuse3/fuse_log.h>

// Swift's view of glibc is without _GNU_SOURCE, where these live.
static const int CFUSE_SEEK_DATA = 3;
static const int CFUSE_SEEK_HOLE = 4;
static const unsigned int CFUSE_RENAME_NOREPLACE = 1;
static const unsigned int CFUSE_RENAME_EXCHANGE = 2;
static const int CFUSE_O_PATH = 010000000;
static const int CFUSE_MNT_DETACH = 2;
static const int CFUSE_UMOUNT_NOFOLLOW = 8;

int umount2(const char *target, int flags);
ssize_t splice(
    int from, off_t *from_offset, int to, off_t *to_offset, size_t count, unsigned flags);
int dup3(int old_descriptor, int new_descriptor, int flags);

// fuse_session_new is a macro from libfuse 3.17 on; it wants the size of the table we know.
static inline struct fuse_session *cfuse_session_new(
    struct fuse_args *args, const struct fuse_lowlevel_ops *operations, void *userdata)
{
    return fuse_session_new(args, operations, sizeof(*operations), userdata);
}

// fuse_session_loop_mt is a macro over a versioned symbol where libfuse has no symbol versions.
static inline int cfuse_session_loop(struct fuse_session *session, struct fuse_loop_config *config)
{
    return fuse_session_loop_mt(session, config);
}

// Passthrough, as libfuse knows it from 3.17 on: it agrees on it with the kernel, and tells it the
// ids of content files. Before that KernelProtocol does both.
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
static inline void cfuse_want_passthrough(struct fuse_conn_info *connection)
{
    // As it is, max_backing_stack_depth allows content files on a disk, and on no file system that
    // is stacked on another.
    if (connection->capable & FUSE_CAP_PASSTHROUGH) connection->want |= FUSE_CAP_PASSTHROUGH;
}

static inline bool cfuse_set_backing(struct fuse_file_info *info, int32_t backing)
{
    info->backing_id = backing;
    return true;
}
#else
static inline void cfuse_want_passthrough(struct fuse_conn_info *connection) { (void)connection; }
static inline bool cfuse_set_backing(struct fuse_file_info *info, int32_t backing)
{
    (void)info;
    (void)backing;
    return false;
}
#endif

// Whether the kernel has all of a range of a file in memory: cachestat(2), Linux 6.5.
static inline int cfuse_is_cached(int fd, off_t offset, size_t count)
{
    const uint64_t page = 4096;
    uint64_t range[2] = {(uint64_t)offset, count}, pages[5] = {0};
    if (count == 0 || syscall(451, fd, range, pages, 0) != 0) return 0;
    return pages[0] >= (range[0] + count - 1) / page - range[0] / page + 1;
}

// Reads from the disk, all or nothing: an answer that is too short is the end of the file to the
// kernel, and programs see zeros or less of the file where the disk failed in the middle.
static inline int cfuse_reply_read(fuse_req_t request, int fd, off_t offset, size_t count)
{
    char *bytes = malloc(count + 1);
    if (!bytes) return fuse_reply_err(request, ENOMEM);
    size_t filled = 0;
    int failure = 0;
    while (filled < count) {
        ssize_t step = pread(fd, bytes + filled, count - filled, offset + (off_t)filled);
        if (step < 0 && errno == EINTR) continue;
        if (step < 0) failure = errno;
        if (step <= 0) break;
        filled += (size_t)step;
    }
    int result = failure ? fuse_reply_err(request, failure)
                         : fuse_reply_buf(request, bytes, filled);
    free(bytes);
    return result;
}

// FUSE_BUFVEC_INIT is a compound literal; the kernel takes the bytes from `fd` without a copy here
// if it has them in memory, where no disk can fail.
static inline int cfuse_reply_fd(fuse_req_t request, int fd, off_t offset, size_t count)
{
    if (!cfuse_is_cached(fd, offset, count)) return cfuse_reply_read(request, fd, offset, count);
    struct fuse_bufvec source = FUSE_BUFVEC_INIT(count);
    source.buf[0].flags = (enum fuse_buf_flags)(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
    source.buf[0].fd = fd;
    source.buf[0].pos = offset;
    return fuse_reply_data(request, &source, (enum fuse_buf_copy_flags)0);
}

// FUSE_BUFVEC_INIT again: moves a write's bytes into `fd`; how many, or a negated errno.
static inline ssize_t cfuse_receive(struct fuse_bufvec *source, int fd, off_t offset, size_t count)
{
    struct fuse_bufvec target = FUSE_BUFVEC_INIT(count);
    target.buf[0].flags =
        (enum fuse_buf_flags)(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK | FUSE_BUF_FD_RETRY);
    target.buf[0].fd = fd;
    target.buf[0].pos = offset;
    return fuse_buf_copy(&target, source, (enum fuse_buf_copy_flags)0);
}

#endif

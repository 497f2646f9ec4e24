#define _GNU_SOURCE
#include "CSimulation.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// The linker prefers what a program defines to what its libraries do, in the libraries too: so
// the functions below stand in for those of libc and libdispatch, for all that is in the process.

static int is_simulated;
static pthread_t owner;
static int64_t now;
static uint64_t chance;
static void (*enqueue_job)(void *);
static void (*delay_work)(uint64_t, void *, void (*)(void *));

// MARK: - Time

static long call_kernel(long number, long first, long second, long third, long fourth, long fifth,
                        long sixth) {
    static long (*real)(long, ...);
    if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, first, second, third, fourth, fifth, sixth);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!is_simulated) {
        return (int)call_kernel(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
    }
    time->tv_sec = now / 1000000000;
    time->tv_nsec = now % 1000000000;
    return 0;
}

int64_t csimulation_real_time(void) {
    struct timespec time;
    call_kernel(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&time, 0, 0, 0, 0);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void csimulation_set_time(int64_t nanoseconds) { now = nanoseconds; }

// MARK: - Chance

void csimulation_set_seed(uint64_t seed) { chance = seed; }

static uint64_t draw(void) {
    uint64_t mixed = (chance += 0x9e3779b97f4a7c15ULL);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
}

ssize_t getrandom(void *buffer, size_t count, unsigned flags) {
    if (!is_simulated) {
        return call_kernel(SYS_getrandom, (long)buffer, (long)count, flags, 0, 0, 0);
    }
    unsigned char *bytes = buffer;
    for (size_t index = 0; index < count; index++) bytes[index] = (unsigned char)draw();
    return (ssize_t)count;
}

// Swift's own generator asks the kernel without libc's function for it.
long syscall(long number, ...) {
    va_list arguments;
    long values[6];
    va_start(arguments, number);
    for (int index = 0; index < 6; index++) values[index] = va_arg(arguments, long);
    va_end(arguments);
    if (is_simulated && number == SYS_getrandom) {
        return getrandom((void *)values[0], (size_t)values[1], 0);
    }
    return call_kernel(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

// MARK: - The disk

// Blocks that are set aside would be real memory, for each device of each seed.
int fallocate(int descriptor, int mode, off_t offset, off_t count) {
    if (is_simulated && mode == FALLOC_FL_KEEP_SIZE) return 0;
    return (int)call_kernel(SYS_fallocate, descriptor, mode, offset, count, 0, 0);
}

// Power is never cut here, and the disk is memory.
int fdatasync(int descriptor) {
    return is_simulated ? 0 : (int)call_kernel(SYS_fdatasync, descriptor, 0, 0, 0, 0, 0);
}

int fsync(int descriptor) {
    return is_simulated ? 0 : (int)call_kernel(SYS_fsync, descriptor, 0, 0, 0, 0, 0);
}

// MARK: - Tasks

#define SWIFT_CALL __attribute__((swiftcall))

extern SWIFT_CALL void swift_job_run(void *job, void *identity, uintptr_t implementation);

// No executor in particular.
void csimulation_run(void *job) { swift_job_run(job, NULL, 0); }

static void require_owner(const char *what) {
    if (pthread_equal(pthread_self(), owner)) return;
    fprintf(stderr, "simulation: %s on a thread of its own; it could not be repeated\n", what);
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    abort();
}

static SWIFT_CALL void did_enqueue(void *job, void *original) {
    (void)original;
    require_owner("a job was enqueued");
    enqueue_job(job);
}

// What the runtime enqueues with where it goes past its own hook, as in `Task.yield`.
void dispatch_async_f(void *queue, void *context, void (*work)(void *)) {
    if (!is_simulated) {
        void (*real)(void *, void *, void (*)(void *)) =
            (void (*)(void *, void *, void (*)(void *)))dlsym(RTLD_NEXT, "dispatch_async_f");
        real(queue, context, work);
        return;
    }
    require_owner("work was handed to libdispatch");
    delay_work(0, context, work);
}

// What the runtime waits with.
void dispatch_after_f(uint64_t when, void *queue, void *context, void (*work)(void *)) {
    if (!is_simulated) {
        void (*real)(uint64_t, void *, void *, void (*)(void *)) =
            (void (*)(uint64_t, void *, void *, void (*)(void *)))
                dlsym(RTLD_NEXT, "dispatch_after_f");
        real(when, queue, context, work);
        return;
    }
    require_owner("a delay began");
    // The highest bit tells which clock is meant, and all of ours are one.
    delay_work(when & ~(1ULL << 63), context, work);
}

static void hook(const char *name, void *function) {
    void **variable = dlsym(RTLD_DEFAULT, name);
    if (!variable) {
        fprintf(stderr, "simulation: this Swift has no %s\n", name);
        abort();
    }
    *variable = function;
}

void csimulation_take_over(void (*enqueue)(void *),
                           void (*delay)(uint64_t, void *, void (*)(void *))) {
    owner = pthread_self();
    enqueue_job = enqueue;
    delay_work = delay;
    is_simulated = 1;
    hook("swift_task_enqueueGlobal_hook", (void *)did_enqueue);
    hook("swift_task_enqueueMainExecutor_hook", (void *)did_enqueue);
}

int csimulation_settle(char **arguments) {
    static const char *const hashing = "SWIFT_DETERMINISTIC_HASHING";
    int current = personality(0xffffffff);
    if (getenv(hashing) && (current & ADDR_NO_RANDOMIZE)) return 0;
    // Where addresses cannot be settled, hashes are all the same.
    if (getenv(hashing) && getenv("CLOUDFS_SIMULATION_SETTLED")) return -1;
    setenv(hashing, "1", 1);
    setenv("CLOUDFS_SIMULATION_SETTLED", "1", 1);
    personality((unsigned long)current | ADDR_NO_RANDOMIZE);
    execv("/proc/self/exe", arguments);
    return -1;
}

// What the simulation takes away from the operating system and from Swift's runtime: the order
// in which tasks go on, time, and chance.
#ifndef CSIMULATION_H
#define CSIMULATION_H

#include <stddef.h>
#include <stdint.h>

// Begins the program anew, with hashes and addresses that are the same in every run; returns once
// they are, or if the kernel does not allow it (then -1).
int csimulation_settle(char **arguments);

// From now on every job of every task is handed to `enqueue`, and every delayed one to `delay`
// with the nanosecond at which it is due (0 for at once) and what is to be called then. Both
// are called on the calling thread only: a job of another one ends the program, for nobody could
// repeat that.
void csimulation_take_over(void (*enqueue)(void *job),
                           void (*delay)(uint64_t due, void *context, void (*work)(void *)));

// Runs one job until its task waits for something.
void csimulation_run(void *job);

// Sets all clocks of the program, in nanoseconds since 1970; once the simulation has taken over.
void csimulation_set_time(int64_t nanoseconds);

// Begins a new sequence of what the program takes for random.
void csimulation_set_seed(uint64_t seed);

// The time outside, in nanoseconds.
int64_t csimulation_real_time(void);

#endif

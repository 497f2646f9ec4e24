import CLinux

/// The memory of this process.
package enum ProcessMemory {
    /// Gives back what is free, and the pages of the program's own file: most of what start and
    /// comparing everything ran through is not needed again, and what is comes back from the
    /// system's cache within microseconds.
    package static func release() { clinux_release_memory() }
}

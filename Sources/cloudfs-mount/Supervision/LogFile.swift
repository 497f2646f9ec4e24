import Glibc

/// The file that a background daemon's standard error goes to.
enum LogFile {
    private static let maximumByteCount = 10 << 20

    /// Begins a new log when the old one has become large; one old log is kept.
    static func rotate(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_size > maximumByteCount,
            rename(path, "\(path).1") == 0
        else { return }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return }
        dup2(descriptor, 1)
        dup2(descriptor, 2)
        close(descriptor)
    }
}

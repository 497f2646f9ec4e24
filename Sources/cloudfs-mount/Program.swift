import Glibc

/// This program's file.
enum Program {
    /// Where it was when this process began; by its own name, so that `ps` and `pidof` show that.
    private static let origin: String? = {
        guard let path = realpath("/proc/self/exe", nil) else { return nil }
        defer { free(path) }
        return String(cString: path)
    }()

    /// Has to be asked once before the file can be replaced.
    ///
    /// In another mount namespace the name can be missing, and the file is there all the same.
    static var path: String {
        guard let origin, access(origin, X_OK) == 0 else { return "/proc/self/exe" }
        return origin
    }
}

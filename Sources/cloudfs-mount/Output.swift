import Glibc

/// Lines for the person at the terminal.
enum Output {
    /// Writes `sentence` to standard error after the program's name, in one piece.
    static func line(_ sentence: String) {
        write("cloudfs-mount: \(sentence)\n")
    }

    /// Writes all of `text` to standard error; there is nobody to tell when that fails.
    static func write(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}

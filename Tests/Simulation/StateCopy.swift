import Foundation
import Glibc

@testable import CloudFS

/// A state directory as a process leaves it that is killed at this instant.
enum StateCopy {
    static func copy(_ source: String, to target: String) throws {
        try makeFolder(target)
        for name in ["catalog.sqlite", "catalog.sqlite-wal"] {
            try copyFile("\(source)/\(name)", to: "\(target)/\(name)")
        }
        for folder in ["content", "lost+found"] {
            try makeFolder("\(target)/\(folder)")
            try copyContent("\(source)/\(folder)", to: "\(target)/\(folder)")
        }
    }

    /// Files directly in a folder, and in the folders in it.
    private static func copyContent(_ source: String, to target: String) throws {
        for name in try names(in: source) {
            let (from, to) = ("\(source)/\(name)", "\(target)/\(name)")
            var status = stat()
            guard lstat(from, &status) == 0 else { throw failure("look at", from) }
            if status.st_mode & S_IFMT == S_IFDIR {
                try makeFolder(to)
                try copyContent(from, to: to)
            } else {
                try copyFile(from, to: to)
            }
        }
    }

    private static func names(in folder: String) throws -> [String] {
        guard let stream = opendir(folder) else { throw failure("list", folder) }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    static func makeFolder(_ path: String) throws {
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw failure("make", path) }
    }

    private static func copyFile(_ source: String, to target: String) throws {
        let input = open(source, O_RDONLY | O_CLOEXEC)
        if input < 0, errno == ENOENT { return }
        guard input >= 0 else { throw failure("open", source) }
        defer { close(input) }
        let output = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard output >= 0 else { throw failure("make", target) }
        defer { close(output) }
        var status = stat()
        guard fstat(input, &status) == 0 else { throw failure("look at", source) }
        var left = Int(status.st_size)
        while left > 0 {
            let count = sendfile(output, input, nil, left)
            guard count > 0 else { throw failure("copy", source) }
            left -= count
        }
        // A time that the real clock gave would be another one in every run.
        var times = [status.st_atim, status.st_mtim]
        for index in times.indices
        where Int64(times[index].tv_sec) < Scheduler.epoch / 1_000_000_000 {
            clock_gettime(CLOCK_REALTIME, &times[index])
        }
        guard futimens(output, times) == 0 else { throw failure("set the time of", target) }
    }

    private static func failure(_ what: String, _ path: String) -> any Error {
        CloudFSError(.internalFailure, "cannot \(what) \(path): errno \(errno)")
    }
}

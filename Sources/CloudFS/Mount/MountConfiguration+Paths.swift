import Glibc

extension MountConfiguration {
    /// What has to be known about paths before anything is mounted.
    package enum Paths {
        /// `path` from the root, without `.`, `..`, doubled and trailing slashes.
        ///
        /// By text alone: whether a cloud directory is there must not change what its drive is
        /// called. So `..` after a symbolic link means the folder that holds the link.
        package static func absolute(_ path: String, base: String, home: String?) -> String {
            var full = path
            if let home, path == "~" || path.hasPrefix("~/") {
                full = home + path.dropFirst()
            }
            if !full.hasPrefix("/") { full = "\(base)/\(full)" }
            var names: [Substring] = []
            for name in full.split(separator: "/") where name != "." {
                if name != ".." {
                    names.append(name)
                } else if !names.isEmpty {
                    names.removeLast()
                }
            }
            return "/" + names.joined(separator: "/")
        }

        /// Whether `inner` is `outer` or lies below it; both are absolute.
        package static func contains(_ outer: String, _ inner: String) -> Bool {
            outer == "/" || inner == outer || inner.hasPrefix(outer + "/")
        }

        /// `path` with the symbolic links on its way followed, as far as it exists.
        package static func resolved(_ path: String) -> String {
            if let real = realpath(path, nil) {
                defer { free(real) }
                return String(cString: real)
            }
            guard path != "/", path.hasPrefix("/") else { return path }
            let parent = resolved(parent(of: path))
            return parent == "/" ? "/\(name(of: path))" : "\(parent)/\(name(of: path))"
        }

        /// The mountpoint's path as the kernel will show it.
        ///
        /// Its last part is asked with `readlink` alone, which a dead mount there still answers.
        package static func resolvedMountpoint(_ path: String) -> String {
            var target = [CChar](repeating: 0, count: 1)
            let isLink = readlink(path, &target, target.count) >= 0
            guard path != "/", !isLink else { return resolved(path) }
            let parent = resolved(parent(of: path))
            return parent == "/" ? "/\(name(of: path))" : "\(parent)/\(name(of: path))"
        }

        package static func parent(of path: String) -> String {
            guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return "/" }
            return String(path[..<slash])
        }

        package static func name(of path: String) -> String {
            path.split(separator: "/").last.map(String.init) ?? ""
        }
    }
}

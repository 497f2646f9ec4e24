import Glibc
import Synchronization

/// Has pictures of files made by programs that can do nothing else: decoders of pictures are
/// what hostile files are made for.
///
/// Each runs in a sandbox of bubblewrap, where that is installed, and sees the system's programs
/// and libraries, one file and an empty folder in memory; no network, no other file, no other
/// process. What it makes comes back through a pipe in the form of `ThumbnailSidecar`. Without
/// bubblewrap it has no network and no processes but its own, and memory for `/tmp`, but sees the
/// files that the user sees.
final class ThumbnailMaker: Sendable {
    /// How a picture is made.
    enum Way: Sendable, Equatable {
        case vips
        /// By vips, of the picture that lies within a raw photo.
        case embedded
        /// A thumbnailer of the desktop: its words with `%i`, `%u`, `%o` and `%s`.
        case program([String])
    }

    /// What is done before a picture is made smaller.
    enum Preparation: Sendable, Equatable {
        case none
        case turn(EmbeddedPicture.Turn)
        /// The thumbnail within the file is taken in place of its picture.
        case item

        var word: String {
            switch self {
            case .none: "none"
            case .turn(let turn): turn.rawValue
            case .item: "item"
            }
        }
    }

    enum Outcome: Sendable {
        case images(ThumbnailImages)
        /// This content has no picture that the program could make.
        case unreadable
        /// The program could not be run; that says nothing about the content.
        case unavailable(reason: String)
    }

    /// Most bytes that a conversion may print.
    private static let mostConversionBytes = 64 << 20

    /// How long one picture may take.
    private static let limit = Duration.seconds(30)
    /// What one may use: 2 GiB of addresses, 20 s of a processor, 256 MiB in a file, 256 files.
    private static let bounds = [
        "/usr/bin/nice", "-n", "10", "/usr/bin/prlimit", "--as=2147483648", "--cpu=20",
        "--fsize=268435456", "--nofile=256",
        "--core=0", "--",
    ]
    /// Said by the script when the content is at fault.
    private static let unreadableStatus: Int32 = 3

    private let hasEnded = Mutex(false)
    private let hasBubblewrap: Bool
    private let sandbox = Mutex<[String]?>(nil)

    init(hasBubblewrap: Bool = access("/usr/bin/bwrap", X_OK) == 0) {
        self.hasBubblewrap = hasBubblewrap
    }

    /// Kills what runs and starts nothing more: the drive ends.
    func end() {
        hasEnded.withLock { $0 = true }
    }

    /// Pictures of all sizes of the file at `path`; blocks while they are made.
    ///
    /// - Parameter ending: The ending of the item's name, which some programs go by.
    /// - Parameter command: The words of a thumbnailer with `%i`, `%u`, `%o` and `%s`, whose
    ///   picture is taken in place of the file.
    func make(
        of path: String,
        ending: String,
        _ sizes: [ThumbnailSize] = ThumbnailSize.allCases,
        after preparation: Preparation = .none,
        by command: [String] = []
    ) -> Outcome {
        let name = Self.inputName(ending)
        let words = command.map { word in
            switch word {
            case "%i": "\(Self.inputFolder)/\(name)"
            case "%u": "file://\(Self.inputFolder)/\(name)"
            case "%o": "/tmp/made"
            case "%s": "\(ThumbnailSize.doubleExtraLarge.rawValue)"
            default: word
            }
        }
        let list = sizes.sorted(by: >).map { String($0.rawValue) }.joined(separator: " ")
        return run([list, preparation.word] + words, input: path, named: name)
    }

    /// PNG pictures of the thumbnails in the folder at `path`, whose names are numbers.
    ///
    /// Blocks while one program makes all of them: starting it takes longer than what it does.
    ///
    /// - Returns: What could be made, by number.
    /// - Throws: Why the program could not be run.
    func convert(
        _ path: String,
        to sizes: [ThumbnailSize]
    ) throws(ChildRun.Failure) -> [Int: [ThumbnailSize: [UInt8]]] {
        let list = sizes.map { String($0.rawValue) }.joined(separator: " ")
        let child = child(
            Self.conversion,
            [list],
            input: path,
            named: "folder",
            atMost: Self.mostConversionBytes
        )
        return ConversionText.pictures(try child.output())
    }

    /// A name that says no more than what kind of file it is.
    private static func inputName(_ ending: String) -> String {
        let plain = ending.utf8.prefix(10).allSatisfy {
            (0x30...0x39).contains($0) || (0x61...0x7a).contains($0) || (0x41...0x5a).contains($0)
        }
        return plain && !ending.isEmpty && ending.utf8.count <= 10 ? "item.\(ending)" : "item"
    }

    // MARK: - The sandbox

    private func run(_ arguments: [String], input: String, named name: String) -> Outcome {
        let child = child(
            Self.script,
            arguments,
            input: input,
            named: name,
            atMost: ThumbnailSidecar.mostBytes
        )
        do throws(ChildRun.Failure) {
            let output = try child.output()
            return ThumbnailSidecar.images(output).map { .images($0) } ?? .unreadable
        } catch {
            switch error {
            case .ended(let status) where status >> 8 == Self.unreadableStatus: return .unreadable
            case .tookTooLong:
                // What was killed says nothing about the content.
                return hasEnded.withLock { $0 }
                    ? .unavailable(reason: "the drive ends") : .unreadable
            case .ended(let status): return .unavailable(reason: "it ended with \(status)")
            case .notStarted(let reason): return .unavailable(reason: reason)
            case .noPipe: return .unavailable(reason: "there is no pipe for it")
            }
        }
    }

    /// A shell in the sandbox: `$1` of its script is the file.
    private func child(
        _ script: String,
        _ arguments: [String],
        input: String,
        named name: String,
        atMost outputLimit: Int
    ) -> ChildRun {
        let place = "\(Self.inputFolder)/\(name)"
        let words =
            hasBubblewrap
            ? bubblewrap() + ["--ro-bind", input, place, "--chdir", "/tmp", "--"]
                + ["/bin/sh", "-c", script, "sh", place]
            : Self.namespaces + ["/bin/sh", "-c", Self.folders + script, "sh", input, place]
        return ChildRun(
            words: Self.bounds + words + arguments,
            environment: [
                "PATH": "/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8",
                "VIPS_CONCURRENCY": "1",
            ],
            limit: Self.limit,
            outputLimit: outputLimit,
            isCancelled: { self.hasEnded.withLock { $0 } }
        )
    }

    /// Where a child finds its file.
    private static let inputFolder = "/tmp/in"

    private func bubblewrap() -> [String] {
        sandbox.withLock { sandbox in
            if let sandbox { return sandbox }
            let knowsSizes = Self.knowsSizes()
            let words = Self.bubblewrap(hasSizes: knowsSizes ?? false)
            // What was not said is asked again for the next picture.
            if knowsSizes != nil { sandbox = words }
            return words
        }
    }

    /// Whether this bubblewrap (0.7 or later) can limit a folder in memory; `nil` if it does not
    /// say.
    private static func knowsSizes() -> Bool? {
        let help = ChildRun(
            words: ["/usr/bin/bwrap", "--help"],
            environment: [:],
            limit: .seconds(5),
            outputLimit: 1 << 16,
            isCancelled: { false }
        )
        do throws(ChildRun.Failure) {
            return String(decoding: try help.output(), as: UTF8.self).contains("--size ")
        } catch {
            return nil
        }
    }

    private static func bubblewrap(hasSizes: Bool) -> [String] {
        var words = [
            "/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--new-session",
            "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr",
        ]
        for folder in ["bin", "lib", "lib64", "sbin"] {
            words += ["--symlink", "usr/\(folder)", "/\(folder)"]
        }
        for path in ["/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"] {
            words += ["--ro-bind-try", path, path]
        }
        words += ["--proc", "/proc", "--dev", "/dev"]
        if hasSizes { words += ["--size", "268435456"] }
        return words + ["--tmpfs", "/tmp"]
    }

    private static let namespaces = [
        "/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc",
        "--uts", "--fork", "--kill-child", "--",
    ]

    /// The file is opened before a folder in memory may hide it, and has its name there.
    private static let folders = """
        exec 3<"$1"
        mount -t tmpfs -o size=256m none /tmp && mkdir \(inputFolder) && cd /tmp || exit 1
        ln -s /proc/self/fd/3 "$2" || exit 1
        shift

        """

    /// Makes what is asked for of a file, or of what a thumbnailer makes of it: first one picture
    /// as vips has it, turned as the camera was held, then each size of that, of a lower quality
    /// until it fits.
    private static let script = """
        set -eu
        input=$1 sizes=$2 preparation=$3
        shift 3
        if [ $# -gt 0 ]; then
            "$@" >/dev/null 2>&1 || exit \(unreadableStatus)
            input=/tmp/made
        fi
        case $preparation in
        none) ;;
        item) vips copy "${input}[thumbnail]" /tmp/p.v >/dev/null 2>&1 \\
            || exit \(unreadableStatus) ;;
        *) vips rot "$input" '/tmp/p.v[strip]' "$preparation" >/dev/null 2>&1 \\
            || exit \(unreadableStatus) ;;
        esac
        turning=
        [ "$preparation" = none ] || input=/tmp/p.v turning=--no-rotate
        vipsthumbnail "$input" $turning --size '1024x1024>' --export-profile srgb -o /tmp/t.v \\
            >/dev/null 2>&1 || exit \(unreadableStatus)
        bands=$(vipsheader -f bands /tmp/t.v 2>/dev/null) || exit \(unreadableStatus)
        case $bands in 2 | 4) form=png ;; *) form=jpg ;; esac
        bytes() { stat -c %s "/tmp/$1.$form"; }
        save() {
            if [ $form = png ]; then options="palette,Q=$3,strip"; else options="Q=$3,strip"; fi
            # It is turned already, but still says that it is not.
            vipsthumbnail /tmp/t.v --no-rotate --size "$2x$2>" \\
                -o "/tmp/$1.$form[$options]" >/dev/null 2>&1 || exit \(unreadableStatus)
        }
        for size in $sizes; do
            for quality in 82 65 45; do
                save "$size" "$size" $quality
                [ "$(bytes "$size")" -gt \(ThumbnailImage.mostBytes) ] || break
            done
            side=$size
            while [ "$(bytes "$size")" -gt \(ThumbnailImage.mostBytes) ]; do
                side=$((side * 3 / 4))
                save "$size" $side 45
            done
        done
        echo 'cloudfs-thumbnails 1'
        for size in $sizes; do echo "$size $(bytes "$size")"; done
        echo
        for size in $sizes; do cat "/tmp/$size.$form"; done
        """

    /// For each picture a line with number, size and length; an empty one; the pictures.
    private static let conversion = """
        set -eu
        cd /tmp
        for size in $2; do
            mkdir "$size"
            vipsthumbnail "$1"/* --size "${size}x${size}>" -o "/tmp/$size/%s.png[strip]" \\
                >/dev/null 2>&1 || true
        done
        for size in $2; do
            for file in "$size"/*.png; do
                number=${file#*/}
                [ ! -f "$file" ] || echo "${number%.png} $size $(stat -c %s "$file")"
            done
        done
        echo
        for size in $2; do
            for file in "$size"/*.png; do [ ! -f "$file" ] || cat "$file"; done
        done
        """
}

/// What a conversion prints.
enum ConversionText {
    /// Most pictures of one.
    static let mostPictures = 256
    private static let mostLineBytes = 64

    /// - Returns: Nothing for what is not of that form.
    static func pictures(_ output: [UInt8]) -> [Int: [ThumbnailSize: [UInt8]]] {
        var position = 0
        var announced: [(number: Int, size: ThumbnailSize, count: Int)] = []
        while true {
            let rest = output[position...].prefix(mostLineBytes)
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return [:] }
            let line = String(decoding: output[position..<end], as: UTF8.self)
            position = end + 1
            if line.isEmpty { break }
            let words = line.split(separator: " ").map { Int($0) }
            guard words.count == 3, let number = words[0], let side = words[1],
                let size = ThumbnailSize(rawValue: side), let count = words[2],
                (1...output.count).contains(count), announced.count < mostPictures
            else { return [:] }
            announced.append((number, size, count))
        }
        guard position + announced.reduce(0, { $0 + $1.count }) == output.count else { return [:] }
        var pictures: [Int: [ThumbnailSize: [UInt8]]] = [:]
        for (number, size, count) in announced {
            pictures[number, default: [:]][size] = Array(output[position..<position + count])
            position += count
        }
        return pictures
    }
}

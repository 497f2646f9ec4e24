import ArgumentParser
import CloudFSClient
import CloudFSControlAPI
import Glibc

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Verifies a drive that is in use, and repairs it.",
        discussion: """
            Catalog, content, cloud, and what programs see must fit together; what does not is \
            named. With --repair it is mended where nothing can be lost: bytes that the cloud has \
            are fetched again, what waits for nobody is queued, what belongs to nothing goes to \
            lost+found in the state directory. Changes that the cloud does not have are never \
            touched. Files that are in use are left out, and counted.

            Exit status 0: nothing is wrong, or everything was repaired. 1: something is wrong.
            """
    )

    @OptionGroup var drive: DriveArgument

    @Flag(help: "Repair what is wrong.")
    var repair = false

    @Flag(help: "Leave out what reads whole files or asks the cloud.")
    var quick = false

    func run() async throws {
        let client = try drive.client()
        let interrupt = InterruptNote("What was repaired stays so.")
        defer { interrupt.cancel() }
        var count = Counts()
        var bar = ProgressBar()
        defer { bar.clear() }
        var request = CheckRequest(repair: repair, quick: quick)
        repeat {
            let page = try await client.check(request)
            let unseen = try await unseen(page, request, client)
            bar.clear()
            for finding in page.findings + unseen { count.note(finding) }
            count.checked += page.checked
            count.inUse += page.inUse
            if Terminal.errors.isWatched { bar.show("looked at \(count.checked)") }
            guard page.next == nil || page.next != request.after else {
                throw DriveClientError.badAnswer("a page that names itself as the next")
            }
            request.after = page.next
        } while request.after != nil
        bar.clear()
        Terminal.output.line(count.summary)
        guard count.left == 0 else { throw ExitCode.failure }
    }

    /// What was found so far.
    private struct Counts {
        var checked = 0
        var inUse = 0
        var repaired = 0
        var left = 0

        mutating func note(_ finding: CheckPage.Finding) {
            if finding.repaired { repaired += 1 } else { left += 1 }
            let place = finding.path.map { " \($0.description)" } ?? ""
            let text = "\(finding.invariant)\(place): \(finding.text)"
            Terminal.output.line(text.printable)
        }

        var summary: String {
            let leftOut = inUse == 0 ? "" : ", not at \(inUse) in use"
            let found =
                repaired + left == 0
                ? "nothing is wrong" : "\(repaired + left) found, \(repaired) repaired"
            return "looked at \(checked)\(leftOut): \(found)"
        }
    }

    /// Items that programs do not see as they are.
    ///
    /// They may be changing: only what the drive says before and after a look counts.
    private func unseen(
        _ page: CheckPage,
        _ request: CheckRequest,
        _ client: DriveClient
    ) async throws -> [CheckPage.Finding] {
        let root = client.drive.mountpoint
        let differing = Set(page.shown.filter { !Self.isSeen($0, below: root) }.map(\.inode))
        guard !differing.isEmpty else { return [] }
        var again = request
        again.repair = false
        again.quick = true
        let before = try await client.check(again).shown
        let unseen = before.filter {
            differing.contains($0.inode) && !Self.isSeen($0, below: root)
        }
        guard !unseen.isEmpty else { return [] }
        let after = Set(try await client.check(again).shown)
        return unseen.filter { after.contains($0) }.map {
            CheckPage.Finding(
                invariant: "tree-shown",
                path: $0.path,
                text: "programs see something else there; unmount the drive and mount it again"
            )
        }
    }

    private static func isSeen(_ item: CheckPage.Shown, below root: String) -> Bool {
        guard let status = Self.status(of: item.path.names, below: root) else { return false }
        let isSameSize = item.size.map { $0 == Int64(status.st_size) } ?? true
        return Int64(status.st_ino) == item.inode && isSameSize
            && status.st_mode & S_IFMT == type(of: item.kind)
    }

    /// How much of a path one call gets: the kernel takes 4,096 bytes.
    private static let longestPath = 3_800

    /// Looks at an item, in several steps where its path is longer than what the kernel takes.
    private static func status(of names: [[UInt8]], below root: String) -> stat? {
        var folder = AT_FDCWD
        defer { if folder != AT_FDCWD { close(folder) } }
        var path = Array(root.utf8)
        for name in names {
            if path.count + name.count > longestPath {
                let next = withPath(path) {
                    openat(folder, $0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                }
                guard next >= 0 else { return nil }
                if folder != AT_FDCWD { close(folder) }
                folder = next
                path = []
            }
            path += (path.isEmpty ? [] : [UInt8(ascii: "/")]) + name
        }
        var status = stat()
        let result = withPath(path) { fstatat(folder, $0, &status, AT_SYMLINK_NOFOLLOW) }
        return result == 0 ? status : nil
    }

    private static func withPath(
        _ bytes: [UInt8],
        _ body: (UnsafePointer<CChar>) -> Int32
    ) -> Int32 {
        (bytes.map { CChar(bitPattern: $0) } + [0]).withUnsafeBufferPointer {
            $0.baseAddress.map(body) ?? -1
        }
    }

    private static func type(of kind: ItemStatus.Kind) -> mode_t {
        switch kind {
        case .file: S_IFREG
        case .folder: S_IFDIR
        case .symlink: S_IFLNK
        case .fifo: S_IFIFO
        case .socket: S_IFSOCK
        }
    }
}
